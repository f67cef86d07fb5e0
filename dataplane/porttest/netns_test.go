package porttest_test

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/porttest"
)

func TestNamespaceIsApart(t *testing.T) {
	n := porttest.NewNamespace(t)
	n.IP("link add veth7 type veth peer name veth8")
	if _, err := net.InterfaceByName("veth7"); err == nil {
		t.Error("a device made in the namespace shows outside")
	}
	n.Do(func() {
		if _, err := net.InterfaceByName("veth7"); err != nil {
			t.Errorf("inside: %v", err)
		}
	})
	if out, err := n.TryIP("link set nosuch up"); err == nil || !strings.Contains(out, "nosuch") {
		t.Errorf("ip on a missing device: %q, %v", out, err)
	}
}

func TestPacketFarAcrossWire(t *testing.T) {
	w := porttest.NewWire(t, "1500")
	const experimental = 0x88B5 // IEEE 802 local experimental EtherType
	near := porttest.NewPacketFar(t, w.Near, porttest.Name, experimental)
	far := porttest.NewPacketFar(t, w.Far, porttest.Name, experimental)
	frame := append(bytes.Repeat([]byte{0xff}, 12), 0x88, 0xB5, 1, 2, 3)
	if err := near.Send(frame); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	n, err := far.Recv(buf, 5*time.Second)
	if err != nil || !bytes.Equal(buf[:n], frame) {
		t.Errorf("received % x, %v", buf[:n], err)
	}
	if n, err := near.Recv(buf, time.Millisecond); !errors.Is(err, porttest.ErrTimeout) {
		t.Errorf("the sender received %d bytes, %v", n, err)
	}
}

func TestWirePartAndMeet(t *testing.T) {
	w := porttest.NewWire(t, "1500")
	var tx int
	w.Near.Do(func() {
		var err error
		if tx, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
	})
	defer unix.Close(tx)
	far := porttest.NewPacketFar(t, w.Far, porttest.Name, unix.ETH_P_IP)
	to := &unix.SockaddrInet4{Addr: porttest.Far4.As4(), Port: 9}
	buf := make([]byte, 2048)

	w.Part(porttest.Far4)
	if err := unix.Sendto(tx, []byte("wait"), 0, to); err != nil {
		t.Fatal(err)
	}
	if n, err := far.Recv(buf, 50*time.Millisecond); !errors.Is(err, porttest.ErrTimeout) {
		t.Errorf("parted, received %d bytes, %v", n, err)
	}
	w.Meet(porttest.Far4)
	if n, err := far.Recv(buf, 5*time.Second); err != nil || !bytes.HasSuffix(buf[:n], []byte("wait")) {
		t.Errorf("met, received % x, %v", buf[:n], err)
	}
}
