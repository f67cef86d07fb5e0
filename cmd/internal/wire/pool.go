package wire

import (
	"fmt"

	"flanx/dataplane/packet"
	"flanx/encap/header"
)

// frameSize returns the smallest frame that holds what an interface of that MTU
// receives, for the UDP rung; AF_XDP has a rule of its own.
func frameSize(mtu int) (int, error) {
	need := packet.Headroom + header.EthernetLen + mtu
	for _, size := range []int{packet.FrameSize2K, packet.FrameSize4K, packet.FrameSize16K, packet.FrameSize64K} {
		if need <= size {
			return size, nil
		}
	}
	return 0, fmt.Errorf("MTU %d needs frames of %d bytes, at most %d can be had", mtu, need, packet.FrameSize64K)
}
