package tun_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/encap/header"
)

const benchBatch = 64

// benchModes are what the benchmarks compare. The payload is UDP's: 18 bytes
// is the smallest that is no padding, 1,472 fill an MTU of 1,500.
func benchModes(b *testing.B, bench func(b *testing.B, cfg host.TUNConfig, payload int)) {
	b.Helper()
	for _, payload := range []int{18, 1472} {
		for _, offload := range []bool{false, true} {
			b.Run(fmt.Sprintf("payload=%d/offload=%t", payload, offload), func(b *testing.B) {
				bench(b, host.TUNConfig{Offload: offload}, payload)
			})
		}
	}
}

// BenchmarkRecv reads from a queue that always has a batch waiting, packet by
// packet. Only Recv is timed.
func BenchmarkRecv(b *testing.B) {
	benchModes(b, func(b *testing.B, cfg host.TUNConfig, payload int) {
		n := porttest.NewNamespace(b)
		port := openUp(b, n, cfg)
		far := porttest.NewPacketFar(b, n, device, unix.ETH_P_IP)
		batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
		pkt := spec{udp: true, payload: noise(payload, 1)}.build()
		var spent time.Duration
		b.ReportAllocs()
		for done := 0; done < b.N; done += benchBatch {
			for range benchBatch {
				if err := far.Send(pkt); err != nil {
					b.Fatal(err)
				}
			}
			spent += timed(b, func() error { return port.Recv(batch) })
			if batch.Len() != benchBatch {
				b.Fatalf("%d packets", batch.Len())
			}
			batch.Clear()
		}
		report(b, spent)
	})
}

// BenchmarkRecvSuper reads TCP super-packets of 45 full segments and cuts them.
func BenchmarkRecvSuper(b *testing.B) {
	n := porttest.NewNamespace(b)
	port := openUp(b, n, host.TUNConfig{Offload: true})
	kernel := newKernelSide(b, n, linkIndex(b, n, device), false)
	const pieces, size = 45, 1448
	s := spec{payload: noise(pieces*size, 1), flags: header.TCPAck, partial: true}
	vnet, pkt := s.vnetHeader(size), s.build()
	batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
	var spent time.Duration
	b.ReportAllocs()
	for done := 0; done < b.N; done += pieces {
		kernel.send(b, vnet, pkt)
		spent += timed(b, func() error { return port.Recv(batch) })
		if batch.Len() != pieces {
			b.Fatalf("%d pieces", batch.Len())
		}
		batch.Clear()
	}
	report(b, spent)
}

// BenchmarkRecvIdle is the price of finding nothing.
func BenchmarkRecvIdle(b *testing.B) {
	port := openUp(b, porttest.NewNamespace(b), host.TUNConfig{})
	batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
	b.ReportAllocs()
	for b.Loop() {
		if err := port.Recv(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSend writes one UDP flow, which the kernel's IP layer then drops.
func BenchmarkSend(b *testing.B) {
	benchModes(b, func(b *testing.B, cfg host.TUNConfig, payload int) {
		benchSend(b, cfg, func(n int) spec {
			return spec{udp: true, payload: noise(payload, 1), id: uint16(n)}
		})
	})
}

// BenchmarkSendTCP writes one TCP flow of full segments.
func BenchmarkSendTCP(b *testing.B) {
	for _, offload := range []bool{false, true} {
		b.Run(fmt.Sprintf("offload=%t", offload), func(b *testing.B) {
			benchSend(b, host.TUNConfig{Offload: offload}, func(n int) spec { return stream(spec{}, n, 1448) })
		})
	}
}

// BenchmarkSendManyFlows writes 64 flows of one small packet each: nothing to merge.
func BenchmarkSendManyFlows(b *testing.B) {
	for _, offload := range []bool{false, true} {
		b.Run(fmt.Sprintf("offload=%t", offload), func(b *testing.B) {
			benchSend(b, host.TUNConfig{Offload: offload}, func(n int) spec {
				return spec{udp: true, port: uint16(n), payload: noise(18, 1)}
			})
		})
	}
}

// benchSend writes batches of the packets that of makes, and times Send alone.
func benchSend(b *testing.B, cfg host.TUNConfig, of func(n int) spec) {
	b.Helper()
	port := openUp(b, porttest.NewNamespace(b), cfg)
	batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
	var pkts [benchBatch][]byte
	for n := range pkts {
		pkts[n] = of(n).build()
	}
	var spent time.Duration
	b.ReportAllocs()
	for done := 0; done < b.N; done += benchBatch {
		for _, pkt := range pkts {
			load(b, batch, pkt)
		}
		spent += timed(b, func() error { return port.Send(batch) })
	}
	report(b, spent)
}

// timed returns the CPU time that do takes on this thread, kernel included: on a
// machine that others use too it says more than the clock on the wall.
func timed(b *testing.B, do func() error) time.Duration {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime(b)
	err := do()
	spent := threadTime(b) - start
	if err != nil {
		b.Fatal(err)
	}
	return spent
}

func threadTime(b *testing.B) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// report gives the time per packet that was spent in the port alone.
func report(b *testing.B, spent time.Duration) {
	b.Helper()
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/packet")
	b.ReportMetric(float64(b.N)/spent.Seconds(), "pps")
}
