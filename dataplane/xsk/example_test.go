package xsk_test

import (
	"fmt"

	"flanx/dataplane/packet"
	"flanx/dataplane/xsk"
)

// A port receives into, and sends from, the frames of its pool. Package host
// does this together with the XDP program that feeds it.
func ExampleOpen() {
	pool, err := packet.NewPool(4096, packet.FrameSize2K)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	port, err := xsk.Open(xsk.Config{IfIndex: 2, Queue: 0}, pool)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer port.Close()
	fmt.Println("zero-copy:", port.ZeroCopy())

	batch := packet.NewBatch(pool, 64)
	if err := port.Recv(batch); err != nil { // what is there; it does not wait
		fmt.Println(err)
		return
	}
	batch.Limit(port.Room())
	if err := port.Send(batch); err != nil { // back out, from the same frames
		fmt.Println(err)
	}
}
