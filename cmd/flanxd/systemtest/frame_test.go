package systemtest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/encap/encaptest"
	"flanx/encap/header"
	"flanx/perf/lab"
)

// tap sees every frame that comes in on a host's device, before the stack does.
type tap struct {
	*testing.T
	fd int
}

func newTap(t *testing.T, h *lab.Host, dev string) *tap {
	t.Helper()
	index := device(t, h, dev).Index
	s := &tap{T: t}
	err := h.Do(func() (err error) {
		all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_IP)) // in network order
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
		if err != nil {
			return err
		}
		return unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(s.fd) })
	return s
}

// next waits for a datagram to that port and returns its frame.
func (s *tap) next(port uint16) (ip header.IPv4, udp header.UDP) {
	s.Helper()
	buf := make([]byte, 1<<16)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, 100); n == 0 || err != nil {
			continue
		}
		n, _, err := unix.Recvfrom(s.fd, buf, 0)
		if err != nil {
			s.Fatal(err)
		}
		if n < header.EthernetLen+header.IPv4Len+header.UDPLen {
			continue
		}
		ip := header.IPv4(buf[header.EthernetLen:n])
		udp := header.UDP(ip[header.IPv4Len:])
		if ip.Protocol() == header.ProtocolUDP && udp.DstPort() == port {
			return ip, udp
		}
	}
	s.Fatalf("no datagram to port %d", port)
	return nil, nil
}

// innerUDP is a sound UDP packet of the overlay, in all of that many bytes.
func innerUDP(from, to netip.AddrPort, bytes int) []byte {
	src, dst := from.Addr().As16(), to.Addr().As16()
	return encaptest.Inner{
		Version: 4, Protocol: header.ProtocolUDP, Len: bytes,
		Src: src, Dst: dst, SrcPort: from.Port(), DstPort: to.Port(),
	}.Build()
}

// inVXLAN puts an inner packet behind the headers of flannel's vxlan backend.
func inVXLAN(inner []byte, dst, src net.HardwareAddr) []byte {
	b := make([]byte, header.VXLANLen+header.EthernetLen+len(inner))
	binary.BigEndian.PutUint32(b, 0x08000000)
	binary.BigEndian.PutUint32(b[4:], vxlanVNI<<8)
	header.Ethernet(b[header.VXLANLen:]).Encode(header.EthernetFields{
		Dst: [6]byte(dst), Src: [6]byte(src), EtherType: header.EtherTypeIPv4,
	})
	copy(b[header.VXLANLen+header.EthernetLen:], inner)
	return b
}

// send lets a host send one datagram to another, from any port: a socket on the
// tunnel's might still be open in a process that is just being forked.
func send(t *testing.T, h *lab.Host, to netip.AddrPort, payload []byte) {
	t.Helper()
	err := h.Do(func() error {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: h.Addr().AsSlice()})
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.WriteToUDPAddrPort(payload, to)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listen opens a UDP socket on a host's address of the overlay.
func listen(t *testing.T, h *lab.Host, addr netip.Addr) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	err := h.Do(func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: addr.AsSlice()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// port is where a socket listens.
func port(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// receive waits for a datagram; ok is false if none comes.
func receive(t *testing.T, c *net.UDPConn, wait time.Duration) (payload []byte, ok bool) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	return buf[:n], err == nil
}
