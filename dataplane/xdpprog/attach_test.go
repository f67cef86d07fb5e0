package xdpprog

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
)

var (
	hostA = netip.MustParseAddr("192.0.2.1")
	hostB = netip.MustParseAddr("192.0.2.2")
)

// cable is a veth pair between two namespaces; the tests attach to a's end.
type cable struct {
	a, b    *porttest.Namespace
	ifindex int // of "va" in a
}

func newCable(t *testing.T) *cable {
	t.Helper()
	c := &cable{a: porttest.NewNamespace(t), b: porttest.NewNamespace(t)}
	c.a.IP("link add va type veth peer name vb netns " + c.b.Path())
	c.a.IP("addr add 192.0.2.1/24 dev va")
	c.b.IP("addr add 192.0.2.2/24 dev vb")
	c.a.IP("link set va up")
	c.b.IP("link set vb up")
	c.a.Do(func() {
		ifi, err := net.InterfaceByName("va")
		if err != nil {
			t.Fatal(err)
		}
		c.ifindex = ifi.Index
	})
	return c
}

// talk sends a datagram from b to a's port and back, as a ping would.
func (c *cable) talk(t *testing.T, port uint16) {
	t.Helper()
	open := func(n *porttest.Namespace, addr netip.Addr) (conn *net.UDPConn) {
		n.Do(func() {
			var err error
			conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
			if err != nil {
				t.Fatal(err)
			}
		})
		return conn
	}
	a, b := open(c.a, hostA), open(c.b, hostB)
	defer a.Close()
	defer b.Close()
	for _, leg := range []struct {
		from, to *net.UDPConn
		dst      netip.Addr
	}{{b, a, hostA}, {a, b, hostB}} {
		if _, err := leg.from.WriteToUDPAddrPort([]byte("hello"), netip.AddrPortFrom(leg.dst, port)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 16)
		_ = leg.to.SetReadDeadline(time.Now().Add(3 * time.Second))
		if n, err := leg.to.Read(buf); err != nil || string(buf[:n]) != "hello" {
			t.Fatalf("datagram to %s: %q, %v", leg.dst, buf[:n], err)
		}
	}
}

// attached returns what ip says of a's XDP program: empty, "xdp" or "xdpgeneric".
func (c *cable) attached() string {
	for _, word := range strings.Fields(c.a.IP("-o link show va")) {
		if strings.HasPrefix(word, "xdp") {
			return strings.SplitN(word, "/", 2)[0]
		}
	}
	return ""
}

func (c *cable) attach(p *Program, mode Mode) (at *Attachment, err error) {
	c.a.Do(func() { at, err = p.Attach(c.ifindex, mode) })
	return at, err
}

func cableConfig() Config { return Config{IPv4: hostA, Port: 8472} }

func TestAttachAndClose(t *testing.T) {
	for mode, want := range map[Mode]string{Native: "xdp", Generic: "xdpgeneric"} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCable(t)
			p := load(t, cableConfig())
			at, err := c.attach(p, mode)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.attached(); got != want {
				t.Errorf("ip shows %q, want %q", got, want)
			}
			if err := at.Check(); err != nil {
				t.Error(err)
			}
			c.talk(t, 8472) // the slot is empty
			c.talk(t, 53)
			if err := at.Close(); err != nil {
				t.Fatal(err)
			}
			if got := c.attached(); got != "" {
				t.Errorf("after Close ip shows %q", got)
			}
		})
	}
}

// TestSecondProgramIsRefused: whoever was first stays, in whatever mode.
func TestSecondProgramIsRefused(t *testing.T) {
	for _, first := range []Mode{Native, Generic} {
		c := newCable(t)
		at, err := c.attach(load(t, cableConfig()), first)
		if err != nil {
			t.Fatal(err)
		}
		before := c.a.IP("-d -o link show va")
		for _, second := range []Mode{Native, Generic} {
			other, err := c.attach(load(t, cableConfig()), second)
			if !errors.Is(err, ErrForeignProgram) || other != nil {
				t.Errorf("%s over %s: %v, want ErrForeignProgram", second, first, err)
			}
		}
		if after := c.a.IP("-d -o link show va"); after != before {
			t.Errorf("the first program was touched:\n%s\n%s", before, after)
		}
		if err := errors.Join(at.Check(), at.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestNativeRefusesLargeMTU(t *testing.T) {
	c := newCable(t)
	c.a.IP("link set va mtu 9000")
	c.b.IP("link set vb mtu 9000")
	_, err := c.attach(load(t, cableConfig()), Native)
	if !errors.Is(err, ErrNotSupported) || !strings.Contains(err.Error(), "MTU 9000") {
		t.Errorf("native at MTU 9000: %v, want ErrNotSupported naming the MTU", err)
	}
	if got := c.attached(); got != "" {
		t.Errorf("after a refusal ip shows %q", got)
	}
	at, err := c.attach(load(t, cableConfig()), Generic)
	if err != nil {
		t.Fatalf("generic at MTU 9000: %v", err)
	}
	if err := at.Close(); err != nil {
		t.Error(err)
	}
}

func TestAttachToNothing(t *testing.T) {
	n := porttest.NewNamespace(t)
	p := load(t, cableConfig())
	n.Do(func() {
		if _, err := p.Attach(4711, Native); !errors.Is(err, unix.ENODEV) || !strings.Contains(err.Error(), "interface 4711") {
			t.Errorf("Attach to a missing interface: %v, want ENODEV with its number", err)
		}
	})
}

// TestInterfaceDeleted: the attachment says so, and closing it is no error.
func TestInterfaceDeleted(t *testing.T) {
	c := newCable(t)
	at, err := c.attach(load(t, cableConfig()), Native)
	if err != nil {
		t.Fatal(err)
	}
	c.b.IP("link del vb")
	deadline := time.Now().Add(3 * time.Second)
	for err = at.Check(); err == nil && time.Now().Before(deadline); err = at.Check() {
		time.Sleep(time.Millisecond)
	}
	if !errors.Is(err, ErrDetached) {
		t.Errorf("Check after the interface was deleted: %v, want ErrDetached", err)
	}
	if err := at.Close(); err != nil {
		t.Error(err)
	}
}

func TestAttachedProgramOutlivesItsHandle(t *testing.T) {
	c := newCable(t)
	p, err := Load(cableConfig())
	if err != nil {
		t.Fatal(err)
	}
	at, err := c.attach(p, Generic)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := at.Check(); err != nil {
		t.Error(err)
	}
	if err := at.Close(); err != nil {
		t.Error(err)
	}
}

func TestHeadroomMatchesKernel(t *testing.T) {
	// MaxFrame is computed from it by whoever opens the sockets.
	if packet.Headroom != unix.XDP_PACKET_HEADROOM {
		t.Errorf("packet.Headroom is %d, the kernel's %d", packet.Headroom, unix.XDP_PACKET_HEADROOM)
	}
}
