package systemtest

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"flanx/perf/lab"
)

// Only members may send into the overlay, and only from their own subnets, to
// ours. Everything else is dropped; the sender sees no difference.
func TestMembership(t *testing.T) {
	parallel(t)
	for _, backend := range []string{"vxlan", "udp"} {
		for _, io := range []string{"native", "udp"} {
			t.Run(backend+" "+io, func(t *testing.T) { newCrime(t, backend).investigate(io) })
		}
	}
}

// crime is a member, a stranger, and one of ours that they send to.
type crime struct {
	*world
	backend          string
	daemon           *daemon
	member, stranger *lab.Host
	subnet           netip.Prefix // the member's
	vtep             net.HardwareAddr
	sink             *net.UDPConn
	port             uint16
}

func newCrime(t *testing.T, backend string) *crime {
	t.Helper()
	config, port := vxlan, uint16(vxlanPort)
	if backend == "udp" {
		config, port = udp, udpPort
	}
	w := newWorld(t, lab.Wire{}, config, "ours", "member", "stranger")
	return &crime{
		world: w, backend: backend, port: port, member: w.hosts[1], stranger: w.hosts[2],
		subnet: netip.MustParsePrefix("10.244.9.0/24"), vtep: net.HardwareAddr{0x5a, 0, 0, 0, 0, 9},
	}
}

func (c *crime) investigate(io string) {
	lease := vxlanLease(c.member.Addr(), c.vtep)
	if c.backend == "udp" {
		lease = fmt.Sprintf(`{"PublicIP":"%s","PublicIPv6":null}`, c.member.Addr())
	}
	c.putLease(c.subnet, lease)
	c.daemon = c.start(c.hosts[0], "-io", io, "-healthz-ip", "127.0.0.1", "-healthz-port", "10256")
	c.sink = listen(c.T, c.daemon.host, c.daemon.addr())
	own := node(c.subnet).Next()
	c.awaitDelivery(own)

	for _, tt := range []struct {
		name   string
		from   *lab.Host
		source string // inner
		dst    netip.AddrPort
	}{
		{"a stranger", c.stranger, own.String(), port(c.sink)},
		{"a stranger in our name", c.stranger, c.daemon.addr().Next().String(), port(c.sink)},
		{"a member with a source outside the overlay", c.member, "192.0.2.7", port(c.sink)},
		{"a member with another's source", c.member, "10.244.10.1", port(c.sink)},
		{"a member with our source", c.member, c.daemon.addr().Next().String(), port(c.sink)},
		{"a member with loopback's source", c.member, "127.0.0.1", port(c.sink)},
		{"a member to the underlay", c.member, own.String(), netip.AddrPortFrom(c.daemon.host.Addr(), port(c.sink).Port())},
	} {
		other := c.sink
		if tt.dst.Addr() == c.daemon.host.Addr() {
			other = listen(c.T, c.daemon.host, c.daemon.host.Addr())
			tt.dst = port(other)
		}
		inner := innerUDP(netip.AddrPortFrom(netip.MustParseAddr(tt.source), 999), tt.dst, 100)
		for range 3 {
			c.send(tt.from, inner)
		}
		if got, ok := receive(c.T, other, 100*time.Millisecond); ok {
			c.Errorf("%s: delivered %x", tt.name, got)
		}
	}
	c.awaitDelivery(own) // and honest packets still arrive
	c.daemon.stop()
	const each = 3
	for reason, n := range map[string]int{"spoofed_source": 4 * each, "not_ours": each} {
		if got := c.daemon.dropped(reason); got != n {
			c.Errorf("%d packets counted as %s, want %d", got, reason, n)
		}
	}
	// The member's first ones too, if they came before its lease.
	if got := c.daemon.dropped("unknown_peer"); got < 2*each {
		c.Errorf("%d packets counted as unknown_peer, want at least %d", got, 2*each)
	}
}

// send wraps an inner packet and sends it to ours.
func (c *crime) send(from *lab.Host, inner []byte) {
	c.Helper()
	payload := inner
	if c.backend == "vxlan" {
		value, _ := c.lease(c.daemon.subnet)
		payload = inVXLAN(inner, vtepOf(c.world, value), c.vtep)
	}
	send(c.T, from, netip.AddrPortFrom(c.daemon.host.Addr(), c.port), payload)
}

// awaitDelivery sends honest packets until one arrives.
func (c *crime) awaitDelivery(source netip.Addr) {
	c.Helper()
	inner := innerUDP(netip.AddrPortFrom(source, 999), port(c.sink), 100)
	eventually(c.T, patience, func() error {
		c.send(c.member, inner)
		if _, ok := receive(c.T, c.sink, 100*time.Millisecond); !ok {
			return fmt.Errorf("a member's packet is not delivered")
		}
		return nil
	})
	for { // what was sent more than once
		if _, ok := receive(c.T, c.sink, 100*time.Millisecond); !ok {
			return
		}
	}
}
