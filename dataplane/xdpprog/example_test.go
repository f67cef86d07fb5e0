package xdpprog_test

import (
	"errors"
	"fmt"
	"net/netip"

	"flanx/dataplane/xdpprog"
)

// A program is loaded, attached, and given a socket for each queue.
func ExampleLoad() {
	prog, err := xdpprog.Load(xdpprog.Config{IPv4: netip.MustParseAddr("192.0.2.1"), Port: 8472})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer prog.Close()
	attachment, err := prog.Attach(2, xdpprog.Native)
	if errors.Is(err, xdpprog.ErrForeignProgram) {
		fmt.Println("somebody else's program stays:", err)
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer attachment.Close()
	const queue, socket = 0, 7 // the descriptor of an AF_XDP socket bound to it
	if err := prog.Register(queue, socket); err != nil {
		fmt.Println(err)
	}
}
