package config_test

import (
	"fmt"
	"os"

	"flanx/cmd/internal/config"
)

func ExampleParse() {
	args := []string{"-iface", "eth0", "-ip-masq"}
	env := []string{"FLANNELD_ETCD_PREFIX=/cluster/net", "FLANNELD_IFACE=eth1"}
	d, err := config.Parse(args, env, os.Stdout)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Ifaces, d.EtcdPrefix, d.IPMasq, d.TUNName)

	_, err = config.Parse([]string{"-io", "fast"}, nil, os.Stdout)
	fmt.Println(err)
	// Output:
	// [eth0] /cluster/net true flannel0
	// usage: -io "fast": use auto, zerocopy, native, generic or udp
}
