package control_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"flanx/control"
	"flanx/control/lease"
	"flanx/control/static"
)

// A node that finds itself in a file and is told of its only peer.
func ExampleAgent() {
	dir, err := os.MkdirTemp("", "flanx-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "cluster.json")
	err = os.WriteFile(path, []byte(`{
		"network": {"Network": "10.5.0.0/16"},
		"nodes": [
			{"subnet": "10.5.1.0/24", "publicIP": "192.0.2.1"},
			{"subnet": "10.5.2.0/24", "publicIP": "192.0.2.2"}
		]
	}`), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	file, ours := static.New(path, nil), netip.MustParseAddr("192.0.2.1")
	agent := &control.Agent{
		Source: file, Leaser: file, PublicIP: ours,
		Attrs: func(lease.NetworkConfig, lease.Attrs) (lease.Attrs, error) {
			return lease.Attrs{PublicIP: ours}, nil
		},
		OnLease: func(_ context.Context, _ lease.NetworkConfig, own lease.Lease) error {
			fmt.Println("ours:", own.Subnets)
			return nil
		},
		Apply: func(u lease.Update) error {
			for _, l := range u.Leases {
				fmt.Println("peer:", l.Subnets, "at", l.Attrs.PublicIP)
			}
			cancel()
			return nil
		},
	}
	fmt.Println(agent.Run(ctx))
	// Output:
	// ours: 10.5.1.0/24
	// peer: 10.5.2.0/24 at 192.0.2.2
	// <nil>
}
