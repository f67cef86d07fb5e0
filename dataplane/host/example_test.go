package host_test

import (
	"fmt"
	"net/netip"

	"flanx/dataplane/host"
)

// Climb takes the best way on the wire that the device and the kernel offer.
func ExampleClimb() {
	grant, err := host.Climb(host.XSKConfig{
		IfIndex: 2,
		IPv4:    netip.MustParseAddr("192.0.2.1"),
		Port:    8472,
	}, host.Auto)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(grant) // native copy (no zero-copy: driver veth does not offer it)
	if grant.XSK == nil {
		return // a UDP socket it is
	}
	defer grant.XSK.Close()
	for _, port := range grant.XSK.Ports {
		fmt.Println("a worker for queue", port.Queue())
	}
}
