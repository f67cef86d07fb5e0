package porttest

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// PacketFar is a Far on a packet socket (packet(7)): it sends out of a device
// and sees what comes in by it. On a TUN device that is the kernel's side of
// the port; on a veth it is the other end of the cable.
type PacketFar struct {
	fd   int
	addr unix.SockaddrLinklayer
}

// NewPacketFar opens a packet socket in the namespace on the device, for one
// protocol (unix.ETH_P_IP and so on). Naming the protocol keeps out the
// socket's own packets, which the kernel shows to ETH_P_ALL only.
func NewPacketFar(t testing.TB, n *Namespace, ifname string, protocol uint16) *PacketFar {
	t.Helper()
	p := &PacketFar{fd: -1}
	n.Do(func() {
		link, err := net.InterfaceByName(ifname)
		if err != nil {
			t.Fatalf("find device %s: %v", ifname, err)
		}
		p.addr = unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: link.Index}
		if err := p.open(); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { unix.Close(p.fd) })
	return p
}

func (p *PacketFar) open() (err error) {
	p.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open packet socket: %w", err)
	}
	const room = 8 << 20 // bytes: a fast port must not overrun the test
	if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room); err != nil {
		return fmt.Errorf("size packet socket: %w", err)
	}
	if err := unix.Bind(p.fd, &p.addr); err != nil {
		return fmt.Errorf("bind packet socket: %w", err)
	}
	return nil
}

// Send puts one packet out of the device.
func (p *PacketFar) Send(pkt []byte) error {
	for {
		err := unix.Sendto(p.fd, pkt, 0, &p.addr)
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
	}
}

// Recv waits for one packet that came in by the device.
func (p *PacketFar) Recv(buf []byte, timeout time.Duration) (int, error) {
	return recvFD(p.fd, buf, timeout)
}

// recvFD waits for one packet on a non-blocking socket.
func recvFD(fd int, buf []byte, timeout time.Duration) (int, error) {
	for deadline := time.Now().Add(timeout); ; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return 0, ErrTimeout
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
	}
}
