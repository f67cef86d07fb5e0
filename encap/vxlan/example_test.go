package vxlan_test

import (
	"fmt"
	"net/netip"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
	"flanx/encap/vxlan"
)

// A node wraps an IPv4 packet for its only peer.
func Example() {
	codec, err := vxlan.New(vxlan.Config{
		VNI:   vxlan.DefaultVNI,
		VTEP4: encap.MAC{0xfa, 0xb7, 0xdd, 0x78, 0x7f, 0xf6},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := codec.Compile(encap.Peer{
		Local:      netip.MustParseAddr("10.99.0.1"),
		Remote:     netip.MustParseAddr("10.99.0.2"),
		LocalMAC:   encap.MAC{2, 0, 0, 0, 0, 1},
		NextHopMAC: encap.MAC{2, 0, 0, 0, 0, 2},
		VTEP:       encap.MAC{0xfa, 0, 0, 0, 0, 0xb4},
	})
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
	batch.At(i).Hash = header.FlowHash(batch.Bytes(i))

	codec.Push(batch, []encap.Path{path})
	frame := batch.Bytes(i)
	fmt.Println(len(frame), "bytes, VXLAN network", header.VXLAN(frame[42:]).VNI())
	batch.Clear()
	// Output: 84 bytes, VXLAN network 1
}
