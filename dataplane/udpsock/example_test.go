package udpsock_test

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/udpsock"
)

// A port that sends itself one datagram.
func Example() {
	pool, err := packet.NewPool(128, packet.FrameSize2K)
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	local := netip.MustParseAddrPort("127.0.0.1:18285")
	port, err := udpsock.Open(udpsock.Config{Local: local, DF: true})
	if err != nil {
		panic(err)
	}
	defer port.Close()

	b := packet.NewBatch(pool, udpsock.DefaultBatch)
	i, space, _ := b.Extend()
	b.Resize(i, copy(space, "inner packet"))
	b.At(i).Peer, b.At(i).PeerPort = local.Addr().As16(), local.Port()
	if err := port.Send(b); err != nil {
		panic(err)
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(port.FD()), Events: unix.POLLIN}}, 1000)
	if err := port.Recv(b); err != nil {
		panic(err)
	}
	buf := b.At(0)
	fmt.Printf("%s from %v port %d\n", b.Bytes(0), netip.AddrFrom16(buf.Peer).Unmap(), buf.PeerPort)
	b.Clear()
	// Output: inner packet from 127.0.0.1 port 18285
}
