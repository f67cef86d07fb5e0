package header_test

import (
	"bytes"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap/encaptest"
	. "flanx/encap/header"
)

// TestDecapECN goes through every combination, with a DSCP that must survive.
func TestDecapECN(t *testing.T) {
	const dscp = 0xb8
	for _, version := range []int{4, 6} {
		for outer := range uint8(4) {
			for inner := range uint8(4) {
				in := encaptest.Inner{Version: version, Protocol: ProtocolUDP, Len: 60, ECN: dscp | inner}
				p := in.Build()
				reason, ok := DecapECN(outer, p)
				if outer == ECNCE && inner == ECNNotECT {
					if ok || reason != packet.BadECN {
						t.Errorf("IPv%d, outer %d inner %d: %s, %v", version, outer, inner, reason, ok)
					}
					continue
				}
				if outer == ECNCE {
					in.ECN = dscp | ECNCE
				}
				if !ok || !bytes.Equal(p, in.Build()) {
					t.Errorf("IPv%d, outer %d inner %d: %v\n got %x\nwant %x", version, outer, inner, ok, p, in.Build())
				}
			}
		}
	}
}

func TestDecapECNOfNoPacket(t *testing.T) {
	for _, p := range [][]byte{nil, {0x45}, bytes.Repeat([]byte{0x4f}, 19), bytes.Repeat([]byte{0x6f}, 39), bytes.Repeat([]byte{0xff}, 60)} {
		before := bytes.Clone(p)
		if reason, ok := DecapECN(ECNCE, p); ok || reason != packet.Short || !bytes.Equal(p, before) {
			t.Errorf("%d bytes: %s, %v", len(p), reason, ok)
		}
		if _, ok := DecapECN(ECNECT0, p); !ok {
			t.Errorf("%d bytes without a mark were refused", len(p))
		}
	}
}
