package udp_test

import (
	"fmt"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
	"flanx/encap/udp"
)

// A node unwraps what its UDP socket received: the datagram is the packet, one
// hop further.
func Example() {
	codec, err := udp.New(udp.Config{Layer: encap.Datagram})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := packet.NewPool(1, packet.FrameSize2K)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	batch := packet.NewBatch(pool, 1)
	i, space, _ := batch.Extend()
	header.IPv4(space).Encode(header.IPv4Fields{
		TotalLength: 20, TTL: 64, Src: [4]byte{10, 5, 1, 2}, Dst: [4]byte{10, 5, 2, 3},
	})
	batch.Resize(i, 20)

	codec.Pop(batch)
	fmt.Println("TTL", header.IPv4(batch.Bytes(i)).TTL())
	batch.Clear()
	// Output: TTL 63
}
