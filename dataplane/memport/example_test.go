package memport_test

import (
	"fmt"

	"flanx/dataplane/memport"
	"flanx/dataplane/packet"
)

// A test gives a port under test to the code that stands on ports, and plays
// the other end itself.
func Example() {
	pool, err := packet.NewPool(8, packet.FrameSize2K)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	port, far, err := memport.Pair(memport.Config{})
	if err != nil {
		panic(err)
	}
	defer port.Close()
	defer far.Close()
	port.SetFaults(memport.Faults{Refuse: 2}) // every second packet

	b := packet.NewBatch(pool, 8)
	for _, text := range []string{"one", "two", "three"} {
		i, space, _ := b.Extend()
		b.Resize(i, copy(space, text))
	}
	if err := port.Send(b); err != nil {
		panic(err)
	}
	buf := make([]byte, 16)
	for n, err := far.Read(buf); err == nil; n, err = far.Read(buf) {
		fmt.Printf("%s\n", buf[:n])
	}
	fmt.Println("refused:", b.Drops()[packet.SendFailed])
	// Output:
	// one
	// three
	// refused: 1
}
