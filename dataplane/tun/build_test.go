package tun_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"

	"flanx/encap/header"
)

// spec describes a TCP or UDP packet of the tests.
type spec struct {
	v6, udp  bool
	port     uint16 // source port: the flow
	seq      uint32
	flags    uint8
	options  int // bytes of TCP options, a multiple of four
	id       uint16
	fragment uint16 // the IPv4 flags and offset field
	payload  []byte
	partial  bool // leave the checksum to whoever sends it
	tos      uint8
}

// Addresses that the test's namespaces neither have nor route, unless they do.
var (
	src4 = netip.MustParseAddr("10.42.1.2")
	dst4 = netip.MustParseAddr("10.42.2.2")
	src6 = netip.MustParseAddr("fd42:1::2")
	dst6 = netip.MustParseAddr("fd42:2::2")
)

// headLen is the length of the headers.
func (s spec) headLen() int { return s.l4() + s.l4Len() }

func (s spec) l4() int {
	if s.v6 {
		return header.IPv6Len
	}
	return header.IPv4Len
}

func (s spec) l4Len() int {
	if s.udp {
		return header.UDPLen
	}
	return header.TCPLen + s.options
}

func (s spec) protocol() uint8 {
	if s.udp {
		return header.ProtocolUDP
	}
	return header.ProtocolTCP
}

// build returns the packet, written from the RFCs and not with the code under test.
func (s spec) build() []byte {
	pkt := make([]byte, s.headLen()+len(s.payload))
	copy(pkt[s.headLen():], s.payload)
	var pseudo []byte
	if s.v6 {
		binary.BigEndian.PutUint32(pkt, 6<<28|uint32(s.tos)<<20|0x12345)
		binary.BigEndian.PutUint16(pkt[4:], uint16(len(pkt)-40))
		pkt[6], pkt[7] = s.protocol(), 64
		copy(pkt[8:], src6.AsSlice())
		copy(pkt[24:], dst6.AsSlice())
		pseudo = append(pseudo, pkt[8:40]...)
	} else {
		pkt[0], pkt[1] = 0x45, s.tos
		binary.BigEndian.PutUint16(pkt[2:], uint16(len(pkt)))
		binary.BigEndian.PutUint16(pkt[4:], s.id)
		binary.BigEndian.PutUint16(pkt[6:], s.fragment)
		pkt[8], pkt[9] = 64, s.protocol()
		copy(pkt[12:], src4.AsSlice())
		copy(pkt[16:], dst4.AsSlice())
		binary.BigEndian.PutUint16(pkt[10:], slowChecksum(pkt[:20]))
		pseudo = append(pseudo, pkt[12:20]...)
	}
	l4 := pkt[s.l4():]
	pseudo = append(pseudo, 0, s.protocol(), byte(len(l4)>>8), byte(len(l4)))
	binary.BigEndian.PutUint16(l4[0:], s.port)
	binary.BigEndian.PutUint16(l4[2:], 5201)
	var field []byte
	if s.udp {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
		field = l4[6:8]
	} else {
		field = l4[16:18]
		binary.BigEndian.PutUint32(l4[4:], s.seq)
		binary.BigEndian.PutUint32(l4[8:], 0x01020304)
		l4[12], l4[13] = byte(s.l4Len()/4)<<4, s.flags
		binary.BigEndian.PutUint16(l4[14:], 512)
		for i := range s.options {
			l4[20+i] = 1 // no operation
		}
	}
	if s.partial {
		binary.BigEndian.PutUint16(field, ^slowChecksum(pseudo))
		return pkt
	}
	binary.BigEndian.PutUint16(field, slowChecksum(append(pseudo, l4...)))
	if s.udp && field[0] == 0 && field[1] == 0 {
		field[0], field[1] = 0xff, 0xff
	}
	return pkt
}

// slowChecksum is RFC 1071 word by word.
func slowChecksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// vnetHeader is what the kernel writes before the packet if it is to be cut
// into pieces of size bytes.
func (s spec) vnetHeader(size int) []byte {
	kind, checksum := unix.VIRTIO_NET_HDR_GSO_TCPV4, 16
	switch {
	case s.udp:
		kind, checksum = unix.VIRTIO_NET_HDR_GSO_UDP_L4, 6
	case s.v6:
		kind = unix.VIRTIO_NET_HDR_GSO_TCPV6
	}
	if s.flags&header.TCPCwr != 0 {
		kind |= unix.VIRTIO_NET_HDR_GSO_ECN
	}
	return rawVnet(unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, kind, s.headLen(), size, s.l4(), checksum)
}

// rawVnet writes a virtio-net header of any content.
func rawVnet(flags, kind, hdrLen, size, start, offset int) []byte {
	h := []byte{byte(flags), byte(kind)}
	for _, field := range []int{hdrLen, size, start, offset} {
		h = binary.NativeEndian.AppendUint16(h, uint16(field))
	}
	return h
}

// noise returns n bytes, the same for the same seed.
func noise(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
