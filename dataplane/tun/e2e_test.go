package tun_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
)

// relay is two namespaces whose TUNs a goroutine joins, one packet by one: what
// two daemons and a wire between them would do.
type relay struct {
	near, far *porttest.Namespace
	packets   atomic.Int64
}

const (
	nearAddr, farAddr   = "10.42.1.1", "10.42.2.1"
	nearAddr6, farAddr6 = "fd42:1::1", "fd42:2::1"
)

func newRelay(t testing.TB, cfg host.TUNConfig) *relay {
	t.Helper()
	r := &relay{near: porttest.NewNamespace(t), far: porttest.NewNamespace(t)}
	near, far := openDown(t, r.near, cfg), openDown(t, r.far, cfg)
	for _, end := range []struct {
		n                        *porttest.Namespace
		own, other, own6, other6 string
	}{
		{r.near, nearAddr, farAddr, nearAddr6, farAddr6},
		{r.far, farAddr, nearAddr, farAddr6, nearAddr6},
	} {
		end.n.Sysctl("net/ipv6/conf/"+device+"/disable_ipv6", "0")
		end.n.IP("link set " + device + " up")
		end.n.IP("addr add " + end.own + "/32 dev " + device)
		end.n.IP("route add " + end.other + "/32 dev " + device + " src " + end.own)
		end.n.IP("-6 addr add " + end.own6 + "/128 dev " + device + " nodad")
		end.n.IP("-6 route add " + end.other6 + "/128 dev " + device + " src " + end.own6)
	}
	pool := newPool(t, 256, packet.FrameSize2K)
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { r.run(t, near, far, pool, stop) })
	t.Cleanup(func() {
		close(stop)
		done.Wait()
	})
	return r
}

// run carries packets both ways until stop.
func (r *relay) run(t testing.TB, near, far porttest.Port, pool *packet.Pool, stop chan struct{}) {
	b := packet.NewBatch(pool, 64)
	fds := []unix.PollFd{
		{Fd: int32(near.FD()), Events: unix.POLLIN}, {Fd: int32(far.FD()), Events: unix.POLLIN},
	}
	for {
		select {
		case <-stop:
			return
		default:
		}
		moved := r.move(t, near, far, b) + r.move(t, far, near, b)
		r.packets.Add(int64(moved))
		if moved == 0 {
			_, _ = unix.Poll(fds, 10)
		}
	}
}

func (r *relay) move(t testing.TB, from, to porttest.Port, b *packet.Batch) int {
	if err := from.Recv(b); err != nil {
		t.Errorf("relay: %v", err)
	}
	b.Compact()
	n := b.Len()
	if err := to.Send(b); err != nil {
		t.Errorf("relay: %v", err)
	}
	return n
}

// TestSocketsThroughRelay moves megabytes through real sockets and compares.
func TestSocketsThroughRelay(t *testing.T) {
	eachMode(t, func(t *testing.T, cfg host.TUNConfig) {
		for _, addr := range []string{farAddr, farAddr6} {
			t.Run(addr, func(t *testing.T) {
				r := newRelay(t, cfg)
				const size = 8 << 20
				start := time.Now()
				exchangeTCP(t, r, addr, size)
				took := time.Since(start)
				t.Logf("TCP: %.0f Mbit/s there and as much back, %d packets", 8*size/1e6/took.Seconds(), r.packets.Load())
				exchangeUDP(t, r, addr)
			})
		}
	})
}

// exchangeTCP has the far side send back, all in one, what it was sent.
func exchangeTCP(t testing.TB, r *relay, addr string, size int) {
	t.Helper()
	var listener net.Listener
	var conn net.Conn
	var err error
	r.far.Do(func() {
		listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(addr, "0"))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	echo := make(chan error, 1)
	go func() { echo <- echoOne(listener) }()
	r.near.Do(func() {
		d := net.Dialer{Timeout: 10 * time.Second}
		conn, err = d.Dial("tcp", listener.Addr().String())
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))

	sent := sha256.New()
	wrote := make(chan error, 1)
	go func() { wrote <- writeNoise(conn, sent, size) }()
	received := sha256.New()
	n, err := io.Copy(received, conn)
	if err := firstError(err, <-wrote, <-echo); err != nil || n != int64(size) {
		t.Fatalf("%d bytes came back of %d: %v", n, size, err)
	}
	if !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
		t.Fatal("what came back is not what was sent")
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// writeNoise sends size bytes, no two packets alike, and then closes its side.
func writeNoise(conn net.Conn, sum hash.Hash, size int) error {
	block := noise(1<<16, 7)
	for left := size; left > 0; {
		n := min(left, len(block))
		block[left%len(block)]++
		sum.Write(block[:n])
		if _, err := conn.Write(block[:n]); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		left -= n
	}
	return conn.(*net.TCPConn).CloseWrite()
}

func echoOne(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.Copy(conn, conn); err != nil {
		return fmt.Errorf("echo: %w", err)
	}
	return nil
}

// exchangeUDP sends bursts of datagrams of several sizes and wants each whole.
func exchangeUDP(t testing.TB, r *relay, addr string) {
	t.Helper()
	var server, client net.PacketConn
	var err error
	listen := func(to *net.PacketConn, host string) func() {
		return func() {
			*to, err = new(net.ListenConfig).ListenPacket(context.Background(), "udp", net.JoinHostPort(host, "0"))
		}
	}
	r.far.Do(listen(&server, addr))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r.near.Do(listen(&client, map[string]string{farAddr: nearAddr, farAddr6: nearAddr6}[addr]))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	buf := make([]byte, 2048)
	for _, size := range []int{1, 18, 500, 1400} {
		for number := range 50 { // few enough for the receiver's buffer
			if _, err := client.WriteTo(noise(size, uint64(number)), server.LocalAddr()); err != nil {
				t.Fatal(err)
			}
		}
		_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
		for number := range 50 {
			n, _, err := server.ReadFrom(buf)
			if err != nil || !bytes.Equal(buf[:n], noise(size, uint64(number))) {
				t.Fatalf("datagram %d of %d bytes: got %d bytes, %v", number, size, n, err)
			}
		}
	}
}

// BenchmarkTCPThroughRelay sends one TCP stream there and back again.
func BenchmarkTCPThroughRelay(b *testing.B) {
	for _, offload := range []bool{false, true} {
		b.Run(fmt.Sprintf("offload=%t", offload), func(b *testing.B) {
			r := newRelay(b, host.TUNConfig{Offload: offload})
			const size = 32 << 20
			b.SetBytes(2 * size)
			for b.Loop() {
				exchangeTCP(b, r, farAddr, size)
			}
		})
	}
}
