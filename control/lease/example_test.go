package lease_test

import (
	"fmt"
	"net/netip"

	"flanx/control/lease"
)

func ExampleParseConfig() {
	cfg, err := lease.ParseConfig([]byte(`{"Network": "10.5.0.0/16", "Backend": {"Type": "VXLAN"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	vxlan, err := cfg.VXLAN()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.SubnetLen, cfg.SubnetMin, cfg.SubnetMax, vxlan.VNI, vxlan.Port)

	_, err = lease.ParseConfig([]byte(`{"Network": "10.5.0.0/16", "SubnetMin": "10.5.1.7"}`))
	fmt.Println(err)
	// Output:
	// 24 10.5.1.0 10.5.255.0 1 8472
	// SubnetMin 10.5.1.7 is not the start of a /24: 10.5.1.0 is
}

func ExampleSubnets_Key() {
	s := lease.Subnets{V4: netip.MustParsePrefix("10.5.39.0/24"), V6: netip.MustParsePrefix("fd05:0:0:23::/64")}
	fmt.Println(s.Key())
	// Output: 10.5.39.0-24&fd05:0:0:23::-64 <nil>
}
