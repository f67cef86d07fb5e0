package udpsock_test

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/udpsock"
)

// TestTruncated receives datagrams around the size of the frame (P30).
func TestTruncated(t *testing.T) {
	n := porttest.NewNamespace(t)
	local := netip.MustParseAddrPort("127.0.0.1:8285")
	port := open(t, n, udpsock.Config{Local: local})
	f := newFar(t, n, netip.MustParseAddrPort("127.0.0.1:0"), local)
	const space = packet.FrameSize2K - packet.Headroom
	sizes := []int{0, 1, space - 1, space, space + 1, 10_000, 65_507}
	for _, size := range sizes {
		if err := f.Send(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	pool := newPool(t, 16, packet.FrameSize2K)
	b := packet.NewBatch(pool, 16)
	if err := port.Recv(b); err != nil {
		t.Fatal(err)
	}
	b.Compact()
	for i := range b.Len() {
		if got := b.At(i).Len(); got != sizes[i] {
			t.Errorf("packet %d is %d bytes long, want %d", i, got, sizes[i])
		}
	}
	if b.Len() != 4 || b.Drops()[packet.Truncated] != 3 {
		t.Errorf("%d packets passed, %d truncated; want 4 and 3", b.Len(), b.Drops()[packet.Truncated])
	}
	b.Clear()
	checkFrames(t, pool, port)
}

// TestRefusedPacketsDoNotStopTheRest mixes packets that the kernel refuses,
// each for a reason of its own, into runs of good ones.
func TestRefusedPacketsDoNotStopTheRest(t *testing.T) {
	for name, tt := range map[string]struct {
		local, peer, bad netip.AddrPort
		size             int
		setUp            string // an ip command
		df               bool
		want             packet.Reason
	}{
		"too big IPv4":   {near4, far4, far4, 1473, "", true, packet.TooBig},
		"too big IPv6":   {near6, far6, far6, 1453, "", true, packet.TooBig},
		"no route IPv4":  {near4, far4, netip.MustParseAddrPort("192.0.2.1:1"), 100, "", false, packet.SendFailed},
		"no route IPv6":  {near6, far6, netip.MustParseAddrPort("[2001:db8::1]:1"), 100, "", false, packet.SendFailed},
		"unreachable":    {near4, far4, netip.MustParseAddrPort("192.0.2.1:1"), 100, "route add unreachable 192.0.2.0/24", false, packet.SendFailed},
		"prohibited":     {near4, far4, netip.MustParseAddrPort("192.0.2.1:1"), 100, "route add prohibit 192.0.2.0/24", false, packet.SendFailed},
		"black hole":     {near4, far4, netip.MustParseAddrPort("192.0.2.1:1"), 100, "route add blackhole 192.0.2.0/24", false, packet.SendFailed},
		"broadcast":      {near4, far4, netip.MustParseAddrPort("10.99.0.255:1"), 100, "", false, packet.SendFailed},
		"port 0":         {near4, far4, netip.AddrPortFrom(porttest.Far4, 0), 100, "", false, packet.SendFailed},
		"IPv6 from IPv4": {near4, far4, far6, 100, "", false, packet.SendFailed},
		"IPv4 from IPv6": {near6, far6, far4, 100, "", false, packet.SendFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := porttest.NewWire(t, "1500")
			if tt.setUp != "" {
				w.Near.IP(tt.setUp)
			}
			port := open(t, w.Near, udpsock.Config{Local: tt.local, DF: tt.df})
			f := newFar(t, w.Far, tt.peer, tt.local)
			pool := newPool(t, 16, packet.FrameSize2K)
			b := packet.NewBatch(pool, 16)
			const total = 9
			for number := range total {
				if number%3 == 0 { // the first too
					add(t, b, byte(number), tt.size, tt.bad)
					continue
				}
				add(t, b, byte(number), 100, tt.peer)
			}
			if err := port.Send(b); err != nil || b.Drops()[tt.want] != 3 || port.Held() != 0 {
				t.Errorf("Send: %v, drops %v, %d held; want 3 %v", err, *b.Drops(), port.Held(), tt.want)
			}
			buf := make([]byte, 2048)
			for number := range total {
				if number%3 == 0 {
					continue
				}
				if _, err := f.Recv(buf, 5*time.Second); err != nil || buf[0] != byte(number) {
					t.Fatalf("received number %d, %v; want %d", buf[0], err, number)
				}
			}
			checkFrames(t, pool, port)
		})
	}
}

// TestFragmentsWithoutDF sends what exceeds the MTU and sees it arrive whole.
func TestFragmentsWithoutDF(t *testing.T) {
	for name, tt := range map[string]struct{ local, peer netip.AddrPort }{
		"IPv4": {near4, far4}, "IPv6": {near6, far6},
	} {
		t.Run(name, func(t *testing.T) {
			w := porttest.NewWire(t, "1500")
			port := open(t, w.Near, udpsock.Config{Local: tt.local})
			f := newFar(t, w.Far, tt.peer, tt.local)
			pool := newPool(t, 2, packet.FrameSize4K)
			b := packet.NewBatch(pool, 2)
			add(t, b, 9, 3000, tt.peer)
			if err := port.Send(b); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 4096)
			if n, err := f.Recv(buf, 5*time.Second); err != nil || n != 3000 || buf[0] != 9 {
				t.Errorf("received %d bytes, %v; drops %v", n, err, *b.Drops())
			}
		})
	}
}

// TestErrorsLeftByICMP has the kernel keep errors for the socket (IP_RECVERR
// makes it, which the port does not ask for) and sees no packet suffer.
func TestErrorsLeftByICMP(t *testing.T) {
	w := porttest.NewWire(t, "1500")
	port := open(t, w.Near, udpsock.Config{Local: near4})
	if err := unix.SetsockoptInt(port.FD(), unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
		t.Fatal(err)
	}
	w.Far.Sysctl("net/ipv4/icmp_ratelimit", "0")
	f := newFar(t, w.Far, far4, near4)
	closed := netip.AddrPortFrom(porttest.Far4, 9)
	pool := newPool(t, 16, packet.FrameSize2K)
	b := packet.NewBatch(pool, 16)
	buf := make([]byte, 2048)
	for round := range 20 {
		add(t, b, 0, 10, closed)
		if err := port.Send(b); err != nil {
			t.Fatal(err)
		}
		awaitICMP(t, port.FD())
		if round%2 == 0 { // the error meets Send
			add(t, b, byte(round), 10, far4)
			if err := port.Send(b); err != nil {
				t.Fatalf("Send: %v", err)
			}
			if _, err := f.Recv(buf, 5*time.Second); err != nil || buf[0] != byte(round) {
				t.Fatalf("far end: number %d, %v; want %d", buf[0], err, round)
			}
			continue
		}
		if err := f.Send([]byte{byte(round)}); err != nil { // the error meets Recv
			t.Fatal(err)
		}
		awaitPackets(t, port, b, 1)
		if got := b.Bytes(0)[0]; got != byte(round) {
			t.Fatalf("received number %d, want %d", got, round)
		}
		b.Clear()
	}
	if b.Drops()[packet.SendFailed] != 0 {
		t.Errorf("%d packets lost", b.Drops()[packet.SendFailed])
	}
	checkFrames(t, pool, port)
}

// awaitICMP waits until an ICMP error has reached the socket, and empties its
// error queue but not its pending error.
func awaitICMP(t *testing.T, fd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd)}}
	if n, err := unix.Poll(fds, 5000); err != nil || n != 1 {
		t.Fatalf("no ICMP error came: %v", err)
	}
}

// TestBrokenSocket puts something else in the socket's place.
func TestBrokenSocket(t *testing.T) {
	port, err := udpsock.Open(udpsock.Config{Local: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	if err := unix.Dup3(null, port.FD(), unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, 8, packet.FrameSize2K)
	b := packet.NewBatch(pool, 8)
	if err := port.Recv(b); err == nil || b.Len() != 0 {
		t.Errorf("Recv: %v, %d packets", err, b.Len())
	}
	for range 3 {
		add(t, b, 0, 10, near4)
	}
	if err := port.Send(b); err == nil || b.Len() != 0 || b.Drops()[packet.SendFailed] != 3 {
		t.Errorf("Send: %v, %d left, %d dropped", err, b.Len(), b.Drops()[packet.SendFailed])
	}
	checkFrames(t, pool, port)
	if err := port.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestCloseDropsWhatIsHeld closes a port whose socket is full.
func TestCloseDropsWhatIsHeld(t *testing.T) {
	_, port, pool, b := full(t)
	held, before := port.Held(), b.Drops()[packet.SendFailed]
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	if got := b.Drops()[packet.SendFailed] - before; got != uint64(held) {
		t.Errorf("%d packets counted as lost, %d were held", got, held)
	}
	checkFrames(t, pool, port)
}

// TestFlushCountsWhatItLoses makes the held packets unsendable, and finds each
// in the counters of the batch that brought it.
func TestFlushCountsWhatItLoses(t *testing.T) {
	w, port, pool, b := full(t)
	held, before := port.Held(), b.Drops()[packet.SendFailed]
	w.Near.IP("route add unreachable " + porttest.Far4.String() + "/32")
	if err := port.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := b.Drops()[packet.SendFailed] - before; held == 0 || got != uint64(held) {
		t.Errorf("%d packets counted as lost, %d were held", got, held)
	}
	if port.Held() != 0 || port.Room() == 0 {
		t.Errorf("%d still held, room for %d", port.Held(), port.Room())
	}
	checkFrames(t, pool, port)
}

// full returns a port that holds packets because its socket is full.
func full(t *testing.T) (*porttest.Wire, *udpsock.Port, *packet.Pool, *packet.Batch) {
	t.Helper()
	w := porttest.NewWire(t, "1500")
	port := open(t, w.Near, udpsock.Config{Local: near4, SendBuffer: 16 << 10})
	w.Part(porttest.Far4)
	pool := newPool(t, 256, packet.FrameSize2K)
	b := packet.NewBatch(pool, 64)
	for sent := 0; port.Room() > 0; sent++ {
		if sent > 1000 {
			t.Fatal("the socket does not fill")
		}
		for number := range 16 {
			add(t, b, byte(number), 1000, far4)
		}
		if err := port.Send(b); err != nil {
			t.Fatal(err)
		}
	}
	return w, port, pool, b
}
