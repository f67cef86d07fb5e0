package linktype

import (
	"bytes"
	"strings"
	"testing"
)

var (
	v4 = append([]byte{0x45}, bytes.Repeat([]byte{1}, 19)...)
	v6 = append([]byte{0x60}, bytes.Repeat([]byte{2}, 39)...)
)

func frame(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestFindIP(t *testing.T) {
	macs := make([]byte, 12)
	cooked := make([]byte, 14)
	sll2 := func(a, b byte) []byte { return append([]byte{a, b}, make([]byte, 18)...) }
	tests := []struct {
		name     string
		linkType uint16
		frame    []byte
		want     []byte // nil: none
	}{
		{"ethernet", Ethernet, frame(macs, []byte{8, 0}, v4), v4},
		{"ethernet ipv6", Ethernet, frame(macs, []byte{0x86, 0xdd}, v6), v6},
		{"vlan", Ethernet, frame(macs, []byte{0x81, 0, 0, 5, 8, 0}, v4), v4},
		{"qinq", Ethernet, frame(macs, []byte{0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0}, v4), v4},
		{"vlan cut", Ethernet, frame(macs, []byte{0x81, 0, 0, 5}), nil},
		{"arp", Ethernet, frame(macs, []byte{8, 6}, v4), nil},
		{"llc", Ethernet, frame(macs, []byte{0, 38, 0x42, 0x42, 3}), nil},
		{"version contradicts", Ethernet, frame(macs, []byte{8, 0}, v6), nil},
		{"nothing behind", Ethernet, frame(macs, []byte{8, 0}), nil},
		{"pppoe", Ethernet, frame(macs, []byte{0x88, 0x64, 0x11, 0, 0, 1, 0, 22, 0, 0x21}, v4), v4},
		{"pppoe discovery code", Ethernet, frame(macs, []byte{0x88, 0x64, 0x11, 9, 0, 1, 0, 22, 0, 0x21}, v4), nil},
		{"raw", Raw, v6, v6},
		{"raw as openbsd says", 14, v4, v4},
		{"raw nonsense", Raw, []byte{0x15, 0}, nil},
		{"null little endian", Null, frame([]byte{30, 0, 0, 0}, v6), v6},
		{"null big endian", Null, frame([]byte{0, 0, 0, 2}, v4), v4},
		{"null other family", Null, frame([]byte{7, 0, 0, 0}, v4), nil},
		{"loop", Loop, frame([]byte{0, 0, 0, 24}, v6), v6},
		{"sll", SLL, frame(cooked, []byte{8, 0}, v4), v4},
		{"sll with vlan", SLL, frame(cooked, []byte{0x81, 0, 0, 1, 8, 0}, v4), v4},
		{"sll2", SLL2, frame(sll2(0x86, 0xdd), v6), v6},
		{"sll2 cut", SLL2, sll2(8, 0)[:19], nil},
		{"ppp hdlc", PPP, frame([]byte{0xff, 3, 0, 0x21}, v4), v4},
		{"ppp compressed", PPP, frame([]byte{0x57}, v6), v6},
		{"ppp lcp", PPPHDLC, []byte{0xff, 3, 0xc0, 0x21, 1, 1}, nil},
		{"nflog", NFLOG, frame([]byte{2, 0, 0, 0, 5, 0, 10, 0, 'x', 0, 0, 0, 24, 0, 9, 0}, v4), v4},
		{"nflog big endian", NFLOG, frame([]byte{2, 0, 0, 0, 0, 5, 0, 10, 'x', 0, 0, 0, 0, 24, 0, 9}, v4), v4},
		{"nflog lies", NFLOG, []byte{2, 0, 0, 0, 0xff, 0xff, 9, 0}, nil},
		{"wifi", 105, v4, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := FindIP(tt.linkType, tt.frame)
			if ok != (tt.want != nil) || ok && !bytes.Equal(got, tt.want) {
				t.Errorf("FindIP = %x, %v; want %x", got, ok, tt.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for lt := range uint16(300) {
		if _, ok := names[lt]; Known(lt) && !ok {
			t.Errorf("%d is known and has no name", lt)
		}
	}
	if got := Name(105); got != "IEEE802_11 (105)" {
		t.Errorf("Name(105) = %q", got)
	}
	if got := Name(60000); !strings.Contains(got, "60000") {
		t.Errorf("Name(60000) = %q", got)
	}
}

func FuzzFindIP(f *testing.F) {
	f.Add(uint16(Ethernet), frame(make([]byte, 12), []byte{0x81, 0, 0, 5, 8, 0}, v4))
	f.Add(uint16(NFLOG), []byte{2, 0, 0, 0, 4, 0, 9, 0})
	f.Fuzz(func(t *testing.T, lt uint16, b []byte) {
		ip, ok := FindIP(lt, b)
		if ok && (len(ip) == 0 || len(ip) > len(b) || &ip[len(ip)-1] != &b[len(b)-1] && lt != NFLOG) {
			t.Errorf("not the rest of the frame: %x of %x", ip, b)
		}
	})
}

func TestFindIPAllocs(t *testing.T) {
	b := frame(make([]byte, 12), []byte{0x81, 0, 0, 5, 8, 0}, v4)
	if n := testing.AllocsPerRun(100, func() { FindIP(Ethernet, b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
