package lease

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxKey bounds the last element of a key; the longest valid one has 62 bytes.
const maxKey = 128

// Key is the subnets as the last element of their key in the store:
// "10.5.1.0-24", or "10.5.1.0-24&fd05:0:0:1::-64" with both families. flannel's
// schema has no form without IPv4.
func (s Subnets) Key() (string, error) {
	if !s.V4.IsValid() {
		return "", fmt.Errorf("subnets %s have no IPv4 part, which flannel's key needs", s)
	}
	key := element(s.V4)
	if s.V6.IsValid() {
		key += "&" + element(s.V6)
	}
	return key, nil
}

func element(p netip.Prefix) string {
	return p.Addr().String() + "-" + strconv.Itoa(p.Bits())
}

// ParseKey reads the last element of a lease's key. Only the exact form that Key
// writes is taken, so one set of subnets has one key.
func ParseKey(key string) (Subnets, error) {
	if len(key) > maxKey {
		return Subnets{}, fmt.Errorf("subnet key of %d bytes is longer than %d", len(key), maxKey)
	}
	s := Claim(key)
	if canonical, err := s.Key(); err != nil || canonical != key {
		return Subnets{}, fmt.Errorf("subnet key %q is not of the form a.b.c.d-len or a.b.c.d-len&v6-len", key)
	}
	return s, nil
}

// Claim is the range that a key stands on, also a malformed one: host bits are
// cut off, an impossible length counts as the single address, trailing text is
// ignored. What nobody can read is the zero Subnets. An allocator keeps off the
// range, for somebody meant something by it.
func Claim(key string) Subnets {
	if len(key) > maxKey {
		key = key[:maxKey]
	}
	v4, v6, _ := strings.Cut(key, "&")
	var s Subnets
	if p := claim(v4); p.IsValid() && p.Addr().Is4() {
		s.V4 = p
	}
	if p := claim(v6); p.IsValid() && p.Addr().Is6() && !p.Addr().Is4In6() {
		s.V6 = p
	}
	return s
}

func claim(element string) netip.Prefix {
	host, length, _ := strings.Cut(element, "-")
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}
	}
	digits := len(length) - len(strings.TrimLeft(length, "0123456789"))
	bits, err := strconv.Atoi(length[:digits])
	if err != nil || bits > addr.BitLen() {
		bits = addr.BitLen()
	}
	return netip.PrefixFrom(addr, bits).Masked()
}
