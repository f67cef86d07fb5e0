package tun_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/tun"
)

// allOffloads are what a kernel since 6.2 grants.
const allOffloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_USO4 | unix.TUN_F_USO6

// fake plays the kernel's side of a TUN queue: a socket that keeps messages
// apart, as a TUN does, and takes any bytes.
type fake struct{ fd int }

// newFake returns a port and the kernel's side of it.
func newFake(t testing.TB) (*tun.Offload, fake) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		const buffer = 4 << 20
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, buffer); err != nil {
			t.Fatal(err)
		}
	}
	port := tun.NewOffload(fds[0], allOffloads)
	t.Cleanup(func() {
		if err := errors.Join(port.Close(), unix.Close(fds[1])); err != nil {
			t.Error(err)
		}
	})
	return port, fake{fds[1]}
}

// give has the port read one packet with its header.
func (f fake) give(t testing.TB, vnet, pkt []byte) {
	t.Helper()
	if err := unix.Send(f.fd, append(append([]byte(nil), vnet...), pkt...), 0); err != nil {
		t.Fatalf("give %d bytes: %v", len(pkt), err)
	}
}

// written is one write of the port.
type written struct {
	vnet, pkt []byte
}

// taken returns what the port has written since.
func (f fake) taken(t testing.TB) (all []written) {
	t.Helper()
	buf := make([]byte, 1<<17)
	for {
		n, _, err := unix.Recvfrom(f.fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) {
			return all
		}
		if err != nil || n < 10 {
			t.Fatalf("take: %d bytes, %v", n, err)
		}
		msg := append([]byte(nil), buf[:n]...)
		all = append(all, written{msg[:10], msg[10:]})
	}
}

// recvAll receives until the port has no more, in batches of the size given,
// and returns copies.
func recvAll(t testing.TB, port interface{ Recv(*packet.Batch) error }, b *packet.Batch) (all [][]byte) {
	t.Helper()
	for {
		if err := port.Recv(b); err != nil {
			t.Fatalf("Recv: %v", err)
		}
		if b.Len() == 0 {
			return all
		}
		for i := range b.Len() {
			if b.Live(i) {
				all = append(all, append([]byte(nil), b.Bytes(i)...))
			}
		}
		b.Clear()
	}
}

// load appends a packet to b.
func load(t testing.TB, b *packet.Batch, pkt []byte) {
	t.Helper()
	i, space, ok := b.Extend()
	if !ok || len(pkt) > len(space) {
		t.Fatalf("no frame for %d bytes", len(pkt))
	}
	b.Resize(i, copy(space, pkt))
}
