package linktype

import (
	"encoding/binary"
	"fmt"
)

// Link types (tcpdump.org/linktypes.html) in which the IP packet is found.
const (
	Null     = 0   // BSD loopback, family in the capturing host's byte order
	Ethernet = 1   // IEEE 802.3
	PPP      = 9   // RFC 1661, with or without HDLC framing
	rawBSD   = 12  // DLT_RAW as most systems number it
	rawOpen  = 14  // DLT_RAW as OpenBSD numbers it
	PPPHDLC  = 50  // RFC 1662
	Raw      = 101 // the IP header comes first
	Loop     = 108 // OpenBSD loopback, family in network byte order
	SLL      = 113 // Linux cooked capture
	IPv4     = 228
	IPv6     = 229
	NFLOG    = 239 // netfilter log messages
	SLL2     = 276 // Linux cooked capture, version 2
)

// names are those of link types that people meet, known here or not.
var names = map[uint16]string{
	Null: "NULL", Ethernet: "ETHERNET", 6: "IEEE802_5", PPP: "PPP", rawBSD: "RAW", rawOpen: "RAW",
	PPPHDLC: "PPP_HDLC", 51: "PPP_ETHER", Raw: "RAW", 104: "C_HDLC", 105: "IEEE802_11", 107: "FRELAY",
	Loop: "LOOP", SLL: "LINUX_SLL", 119: "IEEE802_11_PRISM", 127: "IEEE802_11_RADIOTAP",
	147: "USER0", 187: "BLUETOOTH_HCI_H4", 189: "USB_LINUX", 192: "PPI", 195: "IEEE802_15_4",
	220: "USB_LINUX_MMAPPED", 227: "CAN_SOCKETCAN", IPv4: "IPV4", IPv6: "IPV6", NFLOG: "NFLOG",
	249: "USBPCAP", 253: "NETLINK", 276: "LINUX_SLL2",
}

// Name returns the link type's name with its number, for messages.
func Name(linkType uint16) string {
	if n, ok := names[linkType]; ok {
		return fmt.Sprintf("%s (%d)", n, linkType)
	}
	return fmt.Sprintf("link type %d", linkType)
}

// Known says whether IP packets are found in frames of this kind.
func Known(linkType uint16) bool {
	switch linkType {
	case Null, Ethernet, PPP, rawBSD, rawOpen, PPPHDLC, Raw, Loop, SLL, IPv4, IPv6, NFLOG, SLL2:
		return true
	}
	return false
}

// EtherTypes that lead to another header (IANA, IEEE 802 numbers).
const (
	typeIPv4  = 0x0800
	typeIPv6  = 0x86dd
	typeVLAN  = 0x8100
	typeQinQ  = 0x88a8
	typeOldQ  = 0x9100
	typePPPoE = 0x8864
)

// FindIP returns the bytes of a frame from the IP header on. It says no when
// there is no IP packet: another protocol, a header that is cut off, or a link
// type that is not Known.
func FindIP(linkType uint16, frame []byte) (ip []byte, ok bool) {
	switch linkType {
	case Ethernet:
		return tagged(frame, 12)
	case SLL:
		return tagged(frame, 14)
	case SLL2:
		if len(frame) < 20 {
			return nil, false
		}
		return byEtherType(binary.BigEndian.Uint16(frame), frame[20:])
	case Raw, rawBSD, rawOpen, IPv4, IPv6:
		return sound(frame)
	case Null, Loop:
		return loopback(frame)
	case PPP, PPPHDLC:
		return ppp(frame)
	case NFLOG:
		return nflog(frame)
	}
	return nil, false
}

// tagged follows the EtherType at an offset.
func tagged(frame []byte, at int) ([]byte, bool) {
	if len(frame) < at+2 {
		return nil, false
	}
	return byEtherType(binary.BigEndian.Uint16(frame[at:]), frame[at+2:])
}

// byEtherType passes VLAN tags, however many, for each takes bytes.
func byEtherType(t uint16, rest []byte) ([]byte, bool) {
	for {
		switch t {
		case typeVLAN, typeQinQ, typeOldQ:
			if len(rest) < 4 {
				return nil, false
			}
			t, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
		case typeIPv4:
			return version(rest, 4)
		case typeIPv6:
			return version(rest, 6)
		case typePPPoE: // RFC 2516: six bytes, then the PPP protocol
			if len(rest) < 6 || rest[1] != 0 {
				return nil, false
			}
			return ppp(rest[6:])
		default:
			return nil, false
		}
	}
}

func version(b []byte, want uint8) ([]byte, bool) {
	return b, len(b) > 0 && b[0]>>4 == want
}

// sound takes what begins as an IP packet does.
func sound(b []byte) ([]byte, bool) {
	return b, len(b) > 0 && (b[0]>>4 == 4 || b[0]>>4 == 6)
}

// loopback takes the address family in either byte order: AF_INET is 2
// everywhere, AF_INET6 is 24, 28 or 30 on the BSDs and 10 on Linux.
func loopback(frame []byte) ([]byte, bool) {
	if len(frame) < 4 {
		return nil, false
	}
	family := binary.LittleEndian.Uint32(frame)
	if family > 0xffff {
		family = binary.BigEndian.Uint32(frame)
	}
	switch family {
	case 2:
		return version(frame[4:], 4)
	case 10, 24, 28, 30:
		return version(frame[4:], 6)
	}
	return nil, false
}

// ppp passes address and control where they are not compressed away, and reads
// the protocol in its one or two bytes (RFC 1661 sections 2 and 6.5).
func ppp(frame []byte) ([]byte, bool) {
	if len(frame) >= 2 && frame[0] == 0xff && frame[1] == 0x03 {
		frame = frame[2:]
	}
	if len(frame) < 2 {
		return nil, false
	}
	protocol, rest := uint16(frame[0]), frame[1:]
	if protocol&1 == 0 {
		protocol, rest = binary.BigEndian.Uint16(frame), frame[2:]
	}
	switch protocol {
	case 0x21:
		return version(rest, 4)
	case 0x57:
		return version(rest, 6)
	}
	return nil, false
}

// nflogPayload is the attribute that holds the packet (NFULA_PAYLOAD).
const nflogPayload = 9

// nflog looks for the payload attribute. Lengths and types are in the byte
// order of the capturing host, which the file does not tell: the order in which
// the first length fits is taken.
func nflog(frame []byte) ([]byte, bool) {
	const head = 4 // family, version, resource
	if len(frame) < head+4 {
		return nil, false
	}
	attrs := frame[head:]
	var order binary.ByteOrder = binary.LittleEndian
	if n := order.Uint16(attrs); n < 4 || int(n) > len(attrs) {
		order = binary.BigEndian
	}
	for len(attrs) >= 4 {
		n, kind := int(order.Uint16(attrs)), order.Uint16(attrs[2:])
		if n < 4 || n > len(attrs) {
			return nil, false
		}
		if kind&0x7fff == nflogPayload {
			return sound(attrs[4:n])
		}
		attrs = attrs[min((n+3)&^3, len(attrs)):]
	}
	return nil, false
}
