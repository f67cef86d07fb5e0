package etcd_test

import (
	"context"
	"fmt"

	"flanx/control/embedetcd"
	"flanx/control/etcd"
	"flanx/control/lease"
)

// An etcd in the process, a store on it, and what it tells first.
func Example() {
	ctx := context.Background()
	srv, err := embedetcd.Start(ctx, embedetcd.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()
	store, err := etcd.New(etcd.Config{Endpoints: []string{srv.URL()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	ctx, cancel := context.WithCancel(ctx)
	err = store.Watch(ctx, func(u lease.Update) error {
		fmt.Println("snapshot:", u.Snapshot, "leases:", len(u.Leases))
		cancel()
		return nil
	})
	fmt.Println(err)
	// Output:
	// snapshot: true leases: 0
	// context canceled
}
