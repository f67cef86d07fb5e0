package tun_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
)

const benchBatch = 64

// benchSizes are an 18-byte UDP payload's packet and a full one, in bytes.
var benchSizes = map[string]int{"small": 46, "full": 1500}

// BenchmarkPlainRecv reads from a queue that always has a batch waiting. Only
// Recv is timed.
func BenchmarkPlainRecv(b *testing.B) {
	for name, size := range benchSizes {
		b.Run(name, func(b *testing.B) {
			n := porttest.NewNamespace(b)
			port := openPlain(b, n, host.TUNConfig{})
			far := porttest.NewPacketFar(b, n, device, unix.ETH_P_IP)
			batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
			pkt := make([]byte, size)
			stamp(pkt)
			var spent time.Duration
			b.ReportAllocs()
			for done := 0; done < b.N; done += benchBatch {
				for range benchBatch {
					if err := far.Send(pkt); err != nil {
						b.Fatal(err)
					}
				}
				start := time.Now()
				err := port.Recv(batch)
				spent += time.Since(start)
				if err != nil || batch.Len() != benchBatch {
					b.Fatal(err, batch.Len())
				}
				batch.Clear()
			}
			report(b, spent)
		})
	}
}

// BenchmarkPlainRecvIdle is the price of finding nothing.
func BenchmarkPlainRecvIdle(b *testing.B) {
	port := openPlain(b, porttest.NewNamespace(b), host.TUNConfig{})
	batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
	b.ReportAllocs()
	for b.Loop() {
		if err := port.Recv(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlainSend writes packets that the kernel's IP layer then drops.
func BenchmarkPlainSend(b *testing.B) {
	for name, size := range benchSizes {
		b.Run(name, func(b *testing.B) {
			port := openPlain(b, porttest.NewNamespace(b), host.TUNConfig{})
			batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
			var spent time.Duration
			b.ReportAllocs()
			for done := 0; done < b.N; done += benchBatch {
				for range benchBatch {
					add(b, batch, size)
				}
				start := time.Now()
				err := port.Send(batch)
				spent += time.Since(start)
				if err != nil {
					b.Fatal(err)
				}
			}
			report(b, spent)
		})
	}
}

// report gives the time per packet that was spent in the port alone.
func report(b *testing.B, spent time.Duration) {
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/packet")
	b.ReportMetric(float64(b.N)/spent.Seconds(), "pps")
}
