package fib_test

import (
	"fmt"
	"net/netip"

	"flanx/control/lease"
	"flanx/dataplane/fib"
)

func ExampleTable() {
	table := fib.New(fib.Config{
		Local4:  netip.MustParseAddr("192.0.2.1"),
		Network: netip.MustParsePrefix("10.5.0.0/16"),
		Own:     lease.Subnets{V4: netip.MustParsePrefix("10.5.1.0/24")},
	})
	_ = table.Apply(lease.Update{Snapshot: true, Leases: []lease.Lease{{
		Subnets: lease.Subnets{V4: netip.MustParsePrefix("10.5.2.0/24")},
		Attrs:   lease.Attrs{PublicIP: netip.MustParseAddr("192.0.2.2")},
	}}})

	s := table.Load()                         // once per batch
	if hop, ok := s.Lookup4(0x0A050207); ok { // 10.5.2.7, once per packet
		fmt.Println(netip.AddrFrom16(s.Hops[hop].Peer).Unmap())
	}
	fmt.Println(s.Own4(0x0A050107)) // 10.5.1.7
	// Output:
	// 192.0.2.2
	// true
}
