package tun_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/tun"
)

// device is the name of the TUN in each test's own namespace.
const device = "flannel0"

// openUp makes a TUN in the namespace, brings it up, and returns the port of its
// only queue.
func openUp(t testing.TB, n *porttest.Namespace, cfg host.TUNConfig) porttest.Port {
	t.Helper()
	port := openDown(t, n, cfg)
	bringUp(n)
	return port
}

func bringUp(n *porttest.Namespace) {
	n.IP("link set " + device + " up")
	n.IP("addr add 10.42.0.1/32 dev " + device)
}

// openDown is openUp without bringing the device up.
func openDown(t testing.TB, n *porttest.Namespace, cfg host.TUNConfig) (port porttest.Port) {
	t.Helper()
	n.Sysctl("net/ipv6/conf/default/disable_ipv6", "1") // its chatter would be read
	if cfg.Name == "" {
		cfg.Name = device
	}
	n.Do(func() { port = newPort(t, cfg) })
	t.Cleanup(func() {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	})
	return port
}

// newPort opens a TUN with one queue in the namespace of the calling thread.
func newPort(t testing.TB, cfg host.TUNConfig) porttest.Port {
	t.Helper()
	dev, err := host.OpenTUN(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Offload {
		return tun.NewOffload(dev.Take(0), dev.Offloads)
	}
	return tun.NewPlain(dev.Take(0))
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

// stamp writes an IPv4 header onto the front of pkt that the kernel accepts and
// then drops without an answer: for an address that it neither has nor routes,
// of a protocol that is for experiments (RFC 3692).
func stamp(pkt []byte) {
	const header = 20
	clear(pkt[:header])
	pkt[0] = 0x45
	binary.BigEndian.PutUint16(pkt[2:], uint16(len(pkt)))
	pkt[8], pkt[9] = 64, 253
	copy(pkt[12:], []byte{10, 42, 1, 2})
	copy(pkt[16:], []byte{10, 42, 2, 2})
	var sum uint32
	for i := 0; i < header; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(pkt[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(pkt[10:], ^uint16(sum+sum>>16))
}

// add appends a stamped packet of n bytes to b.
func add(t testing.TB, b *packet.Batch, n int) []byte {
	t.Helper()
	i, space, ok := b.Extend()
	if !ok || len(space) < n {
		t.Fatalf("no frame for %d bytes", n)
	}
	b.Resize(i, n)
	stamp(b.Bytes(i))
	return b.Bytes(i)
}

// checkFrames checks that all frames are back in the pool.
func checkFrames(t testing.TB, pool *packet.Pool) {
	t.Helper()
	if pool.Free() != pool.Frames() {
		t.Errorf("%d of %d frames are free", pool.Free(), pool.Frames())
	}
}

// pollNow returns what poll(2) says of a descriptor at this moment.
func pollNow(t testing.TB, fd int) string {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLOUT}}
	if _, err := unix.Poll(fds, 0); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("in %v out %v err %v", fds[0].Revents&unix.POLLIN != 0,
		fds[0].Revents&unix.POLLOUT != 0, fds[0].Revents&unix.POLLERR != 0)
}
