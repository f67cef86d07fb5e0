package header_test

import (
	"fmt"

	"flanx/encap/header"
)

// A header is built in place, then read through the same view.
func ExampleIPv4_Encode() {
	b := make([]byte, header.IPv4Len)
	h := header.IPv4(b)
	h.Encode(header.IPv4Fields{
		TotalLength: header.IPv4Len, TTL: 64, Protocol: header.ProtocolUDP,
		Src: [4]byte{10, 5, 1, 2}, Dst: [4]byte{10, 5, 2, 3},
	})
	h.DecrementTTL()
	fmt.Println(h.TTL(), h.ValidChecksum(header.IPv4Len))
	// Output: 63 true
}

// An inner packet is judged, and trimmed of the padding behind it.
func ExampleCheckInner() {
	b := make([]byte, 46) // the shortest Ethernet payload
	header.IPv4(b).Encode(header.IPv4Fields{TotalLength: 28, TTL: 64, Protocol: header.ProtocolUDP})
	length, _, ok := header.CheckInner(b)
	fmt.Println(length, ok)

	_, reason, ok := header.CheckInner(b[:20])
	fmt.Println(reason, ok)
	// Output:
	// 28 true
	// short false
}
