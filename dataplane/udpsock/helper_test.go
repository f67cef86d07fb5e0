package udpsock_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/udpsock"
)

// far is an ordinary UDP socket that talks to the port under test.
type far struct {
	fd   int
	port unix.Sockaddr
}

// newFar opens a socket in the namespace, bound to local, that sends to port.
func newFar(t testing.TB, n *porttest.Namespace, local, port netip.AddrPort) far {
	t.Helper()
	var fd int
	n.Do(func() { fd = bound(t, local) })
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		t.Fatal(err)
	}
	return far{fd, raw(port)}
}

// bound opens a UDP socket bound to local.
func bound(t testing.TB, local netip.AddrPort) int {
	t.Helper()
	domain := unix.AF_INET
	if local.Addr().Is6() {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, raw(local)); err != nil {
		t.Fatalf("bind %v: %v", local, err)
	}
	return fd
}

func raw(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func (f far) Send(pkt []byte) error {
	for {
		err := unix.Sendto(f.fd, pkt, 0, f.port)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
}

func (f far) Recv(buf []byte, timeout time.Duration) (int, error) {
	for deadline := time.Now().Add(timeout); ; {
		n, _, err := unix.Recvfrom(f.fd, buf, 0)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		if time.Now().After(deadline) {
			return 0, porttest.ErrTimeout
		}
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}, 1)
	}
}

func newPool(t testing.TB, frames, size int) *packet.Pool {
	t.Helper()
	pool, err := packet.NewPool(frames, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// open opens a port in the namespace and closes it with the test.
func open(t testing.TB, n *porttest.Namespace, cfg udpsock.Config) *udpsock.Port {
	t.Helper()
	port, err := tryOpen(n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	})
	return port
}

func tryOpen(n *porttest.Namespace, cfg udpsock.Config) (port *udpsock.Port, err error) {
	n.Do(func() { port, err = udpsock.Open(cfg) })
	return port, err
}

// add appends a packet of n bytes for the peer to b, its number in the first.
func add(t testing.TB, b *packet.Batch, number byte, n int, peer netip.AddrPort) {
	t.Helper()
	i, space, ok := b.Extend()
	if !ok || len(space) < n {
		t.Fatalf("no frame for %d bytes", n)
	}
	b.Resize(i, n)
	if n > 0 {
		b.Bytes(i)[0] = number
	}
	b.At(i).Peer, b.At(i).PeerPort = peer.Addr().As16(), peer.Port()
}

// checkFrames checks that all frames are in the pool or held by the port.
func checkFrames(t testing.TB, pool *packet.Pool, port *udpsock.Port) {
	t.Helper()
	if pool.Free()+port.Held() != pool.Frames() {
		t.Errorf("%d free, %d held of %d frames", pool.Free(), port.Held(), pool.Frames())
	}
}
