package udpsock

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// sockaddr is room for a struct sockaddr_in or sockaddr_in6 (ip(7), ipv6(7)):
//
//	 0      2      4           8              24        28
//	| family | port | IPv4 addr |                          |
//	| family | port | flow info | IPv6 addr     | scope ID |
//
// The family is in host order, port and address as on the wire.
type sockaddr [unix.SizeofSockaddrInet6]byte

// family is how one of the two families writes and reads an address.
type family struct {
	number uint16 // AF_INET or AF_INET6
	size   uint32 // of its sockaddr
	scope  uint32 // of a link-local peer; IPv6 only
}

// carries says whether an address in its 16-byte form belongs to the family.
func (f *family) carries(addr *[16]byte) bool {
	return (f.number == unix.AF_INET) == isMapped(addr)
}

// isMapped says whether addr is an IPv4-mapped address, ::ffff:a.b.c.d.
func isMapped(addr *[16]byte) bool {
	return binary.BigEndian.Uint64(addr[:8]) == 0 && binary.BigEndian.Uint32(addr[8:12]) == 0xffff
}

// put writes an address that the family carries.
func (f *family) put(s *sockaddr, addr *[16]byte, port uint16) {
	binary.NativeEndian.PutUint16(s[0:], f.number)
	binary.BigEndian.PutUint16(s[2:], port)
	if f.number == unix.AF_INET {
		copy(s[4:8], addr[12:])
		return
	}
	copy(s[8:24], addr[:])
	binary.NativeEndian.PutUint32(s[24:], f.scope) // the kernel looks at it for link-local only
}

// get reads an address that the kernel wrote.
func (f *family) get(s *sockaddr, addr *[16]byte) (port uint16) {
	if f.number == unix.AF_INET {
		*addr = [16]byte{10: 0xff, 11: 0xff}
		copy(addr[12:], s[4:8])
	} else {
		copy(addr[:], s[8:24])
	}
	return binary.BigEndian.Uint16(s[2:])
}
