package tun_test

import (
	"testing"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/tun"
)

// TestQueuesShareTheFlows opens a device with two queues and sees that the
// kernel spreads the flows over both, and that one queue outlives the other.
func TestQueuesShareTheFlows(t *testing.T) {
	n := porttest.NewNamespace(t)
	n.Sysctl("net/ipv6/conf/default/disable_ipv6", "1")
	var ports [2]*tun.Offload
	n.Do(func() {
		dev, err := host.OpenTUN(host.TUNConfig{Name: device, Queues: len(ports), Offload: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range ports {
			ports[i] = tun.NewOffload(dev.Take(i), dev.Offloads)
		}
	})
	defer ports[0].Close()
	defer ports[1].Close()
	bringUp(n)
	kernel := newKernelSide(t, n, linkIndex(t, n, device), false)
	b := packet.NewBatch(newPool(t, 128, packet.FrameSize2K), 128)
	const flows = 64
	send := func() {
		for flow := range flows {
			kernel.send(t, make([]byte, 10), spec{udp: true, port: uint16(flow), payload: []byte("x")}.build())
		}
	}
	send()
	first, second := len(recvAll(t, ports[0], b)), len(recvAll(t, ports[1], b))
	if first+second != flows || first == 0 || second == 0 {
		t.Errorf("the queues got %d and %d packets of %d flows", first, second, flows)
	}
	if err := ports[0].Close(); err != nil {
		t.Fatal(err)
	}
	send()
	if got := len(recvAll(t, ports[1], b)); got != flows {
		t.Errorf("the queue that is left got %d packets of %d", got, flows)
	}
}
