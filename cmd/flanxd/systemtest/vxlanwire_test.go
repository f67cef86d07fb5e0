package systemtest

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"flanx/encap/header"
	"flanx/perf/gen"
	"flanx/perf/lab"
)

// What a vxlan node of ours puts on the wire, byte by byte where flannel's peers
// look, whichever way it gets there.
func TestVXLANForm(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "kernel")
	peer := newKernelPeer(w, w.hosts[1], netip.MustParsePrefix("10.244.9.0/24"), "5a:00:00:00:00:09")
	for _, io := range []string{"native", "udp"} {
		d := w.start(w.hosts[0], "-io", io)
		peer.meet(d)
		reach(t, d.host, d.addr(), peer.addr())
		value, _ := w.lease(d.subnet)
		vtep := vtepOf(w, value)
		sink := listen(t, peer.host, peer.addr())
		wire := newTap(t, peer.host, "eth0")
		ports := map[uint16]bool{}
		if io == "native" {
			awaitFast(t, d, sink, wire)
		}
		for range 8 { // flows
			from := listen(t, d.host, d.addr())
			if _, err := from.WriteToUDPAddrPort([]byte("hello"), port(sink)); err != nil {
				t.Fatal(err)
			}
			outer, u := wire.next(vxlanPort)
			ports[u.SrcPort()] = true
			if socket := u.SrcPort() == vxlanPort; socket != (io == "udp") || outer.TTL() != 64 || outer.TOS() != 0 || outer.IsFragment() {
				t.Errorf("-io %s: source port %d, TTL %d, TOS %d, fragment field %#x", io, u.SrcPort(), outer.TTL(), outer.TOS(), outer.Fragment())
			}
			if u.Checksum() != 0 && !header.Valid(u, outer.PseudoSum(header.ProtocolUDP, len(u))) {
				t.Errorf("-io %s: UDP checksum %#x is neither zero nor right", io, u.Checksum())
			}
			frame := u[header.UDPLen+header.VXLANLen:]
			if want := []byte{8, 0, 0, 0, 0, 0, 1, 0}; !bytes.Equal(u[header.UDPLen:][:header.VXLANLen], want) {
				t.Errorf("-io %s: VXLAN header %x, want %x", io, u[header.UDPLen:][:header.VXLANLen], want)
			}
			mac := header.Ethernet(frame)
			if mac.Dst() != [6]byte(peer.mac) || mac.Src() != [6]byte(vtep) || mac.EtherType() != header.EtherTypeIPv4 {
				t.Errorf("-io %s: inner frame to %x from %x of type %#x", io, mac.Dst(), mac.Src(), mac.EtherType())
			}
			if inner := header.IPv4(frame[header.EthernetLen:]); inner.TTL() != 64 || !bytes.HasSuffix(inner, []byte("hello")) {
				t.Errorf("-io %s: inner TTL %d, packet %x", io, inner.TTL(), []byte(inner))
			}
		}
		if len(ports) < 2 && io != "udp" { // a socket has one, which peers take too
			t.Errorf("-io %s: all flows leave from port %v", io, ports)
		}
		d.stop()
	}
}

// awaitFast sends until packets leave by AF_XDP: the first go by the socket, until
// the next hop is known. The source port tells.
func awaitFast(t *testing.T, d *daemon, sink *net.UDPConn, wire *tap) {
	t.Helper()
	from := listen(t, d.host, d.addr())
	eventually(t, time.Second, func() error {
		if _, err := from.WriteToUDPAddrPort([]byte("hello"), port(sink)); err != nil {
			return err
		}
		if _, u := wire.next(vxlanPort); u.SrcPort() == vxlanPort {
			return errors.New("packets still leave by the UDP socket")
		}
		return nil
	})
}

// Another VNI and port are honoured at both ends.
func TestVXLANElsewhere(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4242,"Port":4790}}`, "ours", "kernel")
	peer := newKernelPeer(w, w.hosts[1], netip.MustParsePrefix("10.244.9.0/24"), "5a:00:00:00:00:09")
	peer.move(4242, 4790)
	for _, io := range []string{"native", "udp"} {
		d := w.start(w.hosts[0], "-io", io)
		peer.meet(d)
		reach(t, d.host, d.addr(), peer.addr())
		ping(t, peer.host, peer.addr(), d.addr(), 1422)
		d.stop()
	}
}

// A flannel node with DirectRouting sends packets as they are. They are taken, and
// the answers go through the tunnel.
func TestDirectRouting(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "kernel")
	peer := newKernelPeer(w, w.hosts[1], netip.MustParsePrefix("10.244.9.0/24"), "5a:00:00:00:00:09")
	d := w.start(w.hosts[0])
	pod := newPod(t, d.host, d.subnet, d.mtu)
	ip(t, peer.host, "route replace "+d.subnet.String()+" via "+d.host.Addr().String())
	reach(t, peer.host, peer.addr(), pod.Addr())
	ping(t, pod.Host, pod.Addr(), peer.addr(), 56)
	transfer(t, peer.host, pod.Host, peer.addr(), pod.Addr(), 1<<20)
	d.stop()
}

// Two of ours over a veth with offloads on, from pods whose own veths leave
// checksums and segmentation to whoever comes later.
func TestOffloads(t *testing.T) {
	parallel(t)
	for _, config := range []string{vxlan, udp} {
		w := newWorld(t, lab.Wire{Offloads: true}, config, "ours", "other")
		for _, io := range []string{"auto", "udp"} {
			t.Run(config+" "+io, func(t *testing.T) { w.withOffloads(t, io) })
		}
	}
}

func (w *world) withOffloads(t *testing.T, io string) {
	a, b := w.start(w.hosts[0], "-io", io), w.start(w.hosts[1], "-io", io)
	reach(t, a.host, a.addr(), b.addr())
	before := checksumErrors(t, a.host) + checksumErrors(t, b.host)
	for _, way := range [][2]*daemon{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		ping(t, from.host, from.addr(), to.addr(), from.mtu-28)
		transfer(t, from.host, to.host, from.addr(), to.addr(), 4<<20)
		res, err := gen.Flood(within(t), from.host.Do, to.host.Do, gen.FloodConfig{
			From: netip.AddrPortFrom(from.addr(), 0), To: netip.AddrPortFrom(to.addr(), 0),
			Size: 1000, Burst: 8, Rate: 800, Duration: 300 * time.Millisecond, Settle: time.Second,
		})
		if err != nil || res.Lost != 0 || res.Foreign != 0 {
			t.Errorf("datagrams from %s: %+v, %v", from.addr(), res, err)
		}
	}
	if after := checksumErrors(t, a.host) + checksumErrors(t, b.host); after != before {
		t.Errorf("%d packets with wrong checksums arrived", after-before)
	}
	a.stop()
	b.stop()
}
