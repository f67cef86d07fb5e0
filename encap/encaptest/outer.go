package encaptest

import "flanx/encap/header"

// Outer builds what comes before a tunnel's payload on the wire, for tests of
// what the other side may send: sound unless bent afterwards.
type Outer struct {
	IPv6             bool
	SrcPort, DstPort uint16
	ECN              uint8
	NoChecksum       bool // UDP checksum zero
}

// Wrap returns the frame that carries payload from 10.99.0.1 to 10.99.0.2, or
// from fd00:99::1 to fd00:99::2.
func (o Outer) Wrap(payload []byte) []byte {
	ipLen, etherType := header.IPv4Len, uint16(header.EtherTypeIPv4)
	if o.IPv6 {
		ipLen, etherType = header.IPv6Len, header.EtherTypeIPv6
	}
	datagram := header.UDPLen + len(payload)
	f := make([]byte, header.EthernetLen+ipLen+datagram)
	header.Ethernet(f).Encode(header.EthernetFields{
		Dst: [6]byte{2, 0, 0, 0, 0, 2}, Src: [6]byte{2, 0, 0, 0, 0, 1}, EtherType: etherType,
	})
	ip := f[header.EthernetLen:]
	u := header.UDP(ip[ipLen:])
	u.Encode(header.UDPFields{SrcPort: o.SrcPort, DstPort: o.DstPort, Length: uint16(datagram)})
	copy(u[header.UDPLen:], payload)
	pseudo := o.encodeIP(ip, datagram)
	if !o.NoChecksum {
		u.SetChecksum(header.UDPChecksum(header.Sum(u, pseudo)))
	}
	return f
}

func (o Outer) encodeIP(ip []byte, datagram int) (pseudo uint16) {
	if o.IPv6 {
		header.IPv6(ip).Encode(header.IPv6Fields{
			TrafficClass: o.ECN, PayloadLength: uint16(datagram), NextHeader: header.ProtocolUDP, HopLimit: 64,
			Src: [16]byte{0: 0xfd, 3: 0x99, 15: 1}, Dst: [16]byte{0: 0xfd, 3: 0x99, 15: 2},
		})
		return header.IPv6(ip).PseudoSum(header.ProtocolUDP, datagram)
	}
	header.IPv4(ip).Encode(header.IPv4Fields{
		TOS: o.ECN, TotalLength: uint16(header.IPv4Len + datagram), TTL: 64, Protocol: header.ProtocolUDP,
		Src: [4]byte{10, 99, 0, 1}, Dst: [4]byte{10, 99, 0, 2},
	})
	return header.IPv4(ip).PseudoSum(header.ProtocolUDP, datagram)
}
