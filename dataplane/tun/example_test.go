package tun_test

import (
	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/tun"
)

// A device with offloads, whose packets go back where they came from. It needs
// CAP_NET_ADMIN, so it is compiled and not run.
func Example() {
	dev, err := host.OpenTUN(host.TUNConfig{Name: "flannel0", MTU: 1472, Offload: true})
	if err != nil {
		panic(err)
	}
	port := tun.NewOffload(dev.Take(0), dev.Offloads)
	defer port.Close()
	pool, err := packet.NewPool(1024, packet.FrameSize2K)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	b := packet.NewBatch(pool, 64)
	for err == nil {
		if err = port.Recv(b); err == nil {
			b.Compact()
			err = port.Send(b)
		}
	}
}
