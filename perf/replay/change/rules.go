package change

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"flanx/encap/header"
)

// ErrRule says that a rule cannot be read.
var ErrRule = errors.New("invalid rule")

// NetMap moves the addresses of one prefix to another of the same length, and
// keeps the rest of each address.
type NetMap struct{ From, To netip.Prefix }

// ParseNetMap reads FROM=TO, two prefixes or two addresses.
func ParseNetMap(s string) (NetMap, error) {
	from, to, ok := strings.Cut(s, "=")
	a, err1 := parsePrefix(from)
	b, err2 := parsePrefix(to)
	if !ok || err1 != nil || err2 != nil || a.Bits() != b.Bits() || a.Addr().Is4() != b.Addr().Is4() {
		return NetMap{}, fmt.Errorf("%w: %q is not FROM=TO, two networks of one size", ErrRule, s)
	}
	return NetMap{a, b}, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

// PortMap gives a TCP or UDP port, source or destination, another number.
type PortMap struct{ From, To uint16 }

// ParsePortMap reads FROM=TO.
func ParsePortMap(s string) (PortMap, error) {
	from, to, _ := strings.Cut(s, "=")
	a, err1 := strconv.ParseUint(from, 10, 16)
	b, err2 := strconv.ParseUint(to, 10, 16)
	if err1 != nil || err2 != nil {
		return PortMap{}, fmt.Errorf("%w: %q is not FROM=TO, two ports", ErrRule, s)
	}
	return PortMap{uint16(a), uint16(b)}, nil
}

// Rules say what to change. The first map that fits an address or port is the
// one that counts.
type Rules struct {
	Nets  []NetMap
	Ports []PortMap
	// TTL, if not zero, becomes the TTL or hop limit.
	TTL uint8
	// Repair writes all checksums anew, and the length where it is 0.
	Repair bool
	// Unique adds the number of the loop to both addresses, so that each loop
	// looks as other hosts' traffic.
	Unique bool
}

// Zero says whether the rules change nothing.
func (r *Rules) Zero() bool {
	return len(r.Nets) == 0 && len(r.Ports) == 0 && r.TTL == 0 && !r.Repair && !r.Unique
}

// Edit changes an IP packet in place. What is no whole IP header is left alone.
func (r *Rules) Edit(ip []byte, loop int) {
	v, ok := parse(ip)
	if !ok {
		return
	}
	if r.Repair {
		v.repairLength()
	}
	for at := v.srcAt; at <= v.dstAt; at += v.addrLen {
		r.address(&v, at, loop)
	}
	if len(r.Ports) > 0 && v.hasPorts() {
		r.port(&v, v.l4)
		r.port(&v, v.l4+2)
	}
	if r.TTL != 0 {
		v.setTTL(r.TTL)
	}
	if r.Repair {
		v.repair()
	}
}

func (r *Rules) address(v *view, at, loop int) {
	old, _ := netip.AddrFromSlice(v.ip[at : at+v.addrLen])
	a := old
	for _, m := range r.Nets {
		if m.From.Contains(a) {
			a = move(a, m.To)
			break
		}
	}
	if r.Unique && loop > 0 && !a.IsMulticast() {
		a = add(a, uint32(loop))
	}
	if a == old {
		return
	}
	b := a.As16()
	v.patch(at, b[16-v.addrLen:])
}

// move takes the network bits of to and the host bits of a.
func move(a netip.Addr, to netip.Prefix) netip.Addr {
	host, network := a.As16(), to.Addr().As16()
	bits := to.Bits()
	if a.Is4() {
		bits += 96
	}
	for i := range host {
		switch n := bits - i*8; {
		case n >= 8:
			host[i] = network[i]
		case n > 0:
			mask := byte(0xff) << (8 - n)
			host[i] = network[i]&mask | host[i]&^mask
		}
	}
	return netip.AddrFrom16(host).Unmap()
}

// add counts the low 32 bits on.
func add(a netip.Addr, n uint32) netip.Addr {
	b := a.As16()
	binary.BigEndian.PutUint32(b[12:], binary.BigEndian.Uint32(b[12:])+n)
	if a.Is4() {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16(b)
}

func (r *Rules) port(v *view, at int) {
	old := binary.BigEndian.Uint16(v.ip[at:])
	for _, m := range r.Ports {
		if m.From == old {
			var b [2]byte
			binary.BigEndian.PutUint16(b[:], m.To)
			v.patchL4(at, b[:])
			return
		}
	}
}

// view is where things stand in a packet.
type view struct {
	ip           []byte
	v6           bool
	addrLen      int
	srcAt, dstAt int
	protocol     uint8
	l4           int  // where the header behind IP begins
	first        bool // it is there: not a later fragment
	fragment     bool
}

// parse walks IPv4 options and IPv6 extension headers.
func parse(ip []byte) (view, bool) {
	switch header.IPVersion(ip) {
	case 4:
		if len(ip) < header.IPv4Len {
			return view{}, false
		}
		h := header.IPv4(ip)
		n := h.HeaderLen()
		if n < header.IPv4Len || n > len(ip) {
			return view{}, false
		}
		return view{
			ip: ip, addrLen: 4, srcAt: 12, dstAt: 16, protocol: h.Protocol(), l4: n,
			first: h.Fragment()&header.IPv4FragmentOffset == 0, fragment: h.IsFragment(),
		}, true
	case 6:
		return parse6(ip)
	}
	return view{}, false
}

func parse6(ip []byte) (view, bool) {
	if len(ip) < header.IPv6Len {
		return view{}, false
	}
	v := view{ip: ip, v6: true, addrLen: 16, srcAt: 8, dstAt: 24, first: true, l4: header.IPv6Len}
	v.protocol = header.IPv6(ip).NextHeader()
	for {
		rest := ip[v.l4:]
		var n int
		switch v.protocol {
		case header.NextHopByHop, header.NextRouting, header.NextDstOpts:
			if len(rest) < 8 {
				return v, true
			}
			n = (int(rest[1]) + 1) * 8
		case header.NextFragment:
			if len(rest) < 8 {
				return v, true
			}
			n = 8
			word := binary.BigEndian.Uint16(rest[2:])
			v.fragment = word&0xfff9 != 0
			v.first = word&0xfff8 == 0
		default:
			return v, true
		}
		if n > len(rest) {
			return v, true
		}
		v.protocol, v.l4 = rest[0], v.l4+n
		if !v.first {
			return v, true
		}
	}
}

// checksumAt returns where the checksum of TCP, UDP or ICMPv6 stands, -1 if
// there is none in this packet.
func (v *view) checksumAt() int {
	at := -1
	switch {
	case !v.first:
	case v.protocol == header.ProtocolTCP:
		at = v.l4 + 16
	case v.protocol == header.ProtocolUDP:
		at = v.l4 + 6
	case v.protocol == header.ProtocolICMPv6 && v.v6:
		at = v.l4 + 2
	}
	if at+2 > len(v.ip) {
		return -1
	}
	return at
}

func (v *view) hasPorts() bool {
	return v.first && len(v.ip) >= v.l4+4 &&
		(v.protocol == header.ProtocolTCP || v.protocol == header.ProtocolUDP || v.protocol == header.ProtocolSCTP)
}

// patch writes over bytes that the IPv4 header checksum and the pseudo-header
// cover.
func (v *view) patch(at int, b []byte) {
	if !v.v6 {
		h := header.IPv4(v.ip)
		sum := h.Checksum()
		for i := 0; i < len(b); i += 2 {
			sum = header.Update(sum, binary.BigEndian.Uint16(v.ip[at+i:]), binary.BigEndian.Uint16(b[i:]))
		}
		h.SetChecksum(sum)
	}
	v.patchL4(at, b)
}

// patchL4 writes over bytes that the transport checksum covers. UDP's 0 says
// that there is none (RFC 768), and stays.
func (v *view) patchL4(at int, b []byte) {
	c := v.checksumAt()
	udp := v.protocol == header.ProtocolUDP
	if c >= 0 && !(udp && binary.BigEndian.Uint16(v.ip[c:]) == 0) {
		sum := binary.BigEndian.Uint16(v.ip[c:])
		for i := 0; i < len(b); i += 2 {
			sum = header.Update(sum, binary.BigEndian.Uint16(v.ip[at+i:]), binary.BigEndian.Uint16(b[i:]))
		}
		if udp && sum == 0 {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(v.ip[c:], sum)
	}
	copy(v.ip[at:], b)
}

func (v *view) setTTL(ttl uint8) {
	if v.v6 {
		v.ip[7] = ttl
		return
	}
	h := header.IPv4(v.ip)
	old := binary.BigEndian.Uint16(v.ip[8:])
	v.ip[8] = ttl
	h.SetChecksum(header.Update(h.Checksum(), old, binary.BigEndian.Uint16(v.ip[8:])))
}

// repairLength fills in a length of 0, as captured before segmentation.
func (v *view) repairLength() {
	if v.v6 || header.IPv4(v.ip).TotalLength() != 0 || len(v.ip) > 0xffff {
		return
	}
	header.IPv4(v.ip).SetTotalLength(uint16(len(v.ip)))
}

// repair writes every checksum that this packet is enough to tell.
func (v *view) repair() {
	if !v.v6 {
		h := header.IPv4(v.ip)
		h.SetChecksum(0)
		h.SetChecksum(^header.Sum(v.ip[:h.HeaderLen()], 0))
	}
	end, ok := v.end()
	if !ok || v.fragment || v.l4 > end {
		return
	}
	body := v.ip[v.l4:end]
	if v.protocol == header.ProtocolICMP && !v.v6 && len(body) >= 8 {
		binary.BigEndian.PutUint16(body[2:], 0)
		binary.BigEndian.PutUint16(body[2:], ^header.Sum(body, 0))
		return
	}
	c := v.checksumAt()
	if c < 0 || c+2 > end {
		return
	}
	binary.BigEndian.PutUint16(v.ip[c:], 0)
	sum := header.Sum(body, v.pseudo(len(body)))
	if v.protocol == header.ProtocolUDP {
		binary.BigEndian.PutUint16(v.ip[c:], header.UDPChecksum(sum))
		return
	}
	binary.BigEndian.PutUint16(v.ip[c:], ^sum)
}

// end is where the packet ends by its own header, if all of it is here.
func (v *view) end() (int, bool) {
	n := header.IPv6Len
	if v.v6 {
		n += header.IPv6(v.ip).PayloadLength()
	} else {
		n = header.IPv4(v.ip).TotalLength()
	}
	return n, n <= len(v.ip)
}

func (v *view) pseudo(length int) uint16 {
	if v.v6 {
		return header.IPv6(v.ip).PseudoSum(v.protocol, length)
	}
	return header.IPv4(v.ip).PseudoSum(v.protocol, length)
}
