package udpsock_test

import (
	"net/netip"
	"testing"
	"time"

	"flanx/dataplane/packet"
	"flanx/dataplane/porttest"
	"flanx/dataplane/udpsock"
)

const benchBatch = 64

// benchSizes are payloads in bytes: an inner packet of 46 bytes, and a full one.
var benchSizes = map[string]int{"small": 46, "full": 1400}

// BenchmarkRecv receives from a socket that always has a batch waiting. Only
// Recv is timed.
func BenchmarkRecv(b *testing.B) {
	for name, size := range benchSizes {
		b.Run(name, func(b *testing.B) {
			w := porttest.NewWire(b, "1500")
			port := open(b, w.Near, udpsock.Config{Local: near4})
			f := newFar(b, w.Far, far4, near4)
			batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
			pkt := make([]byte, size)
			var spent time.Duration
			b.ReportAllocs()
			for done := 0; done < b.N; done += benchBatch {
				for range benchBatch {
					if err := f.Send(pkt); err != nil {
						b.Fatal(err)
					}
				}
				for got := 0; got < benchBatch; {
					start := time.Now()
					err := port.Recv(batch)
					spent += time.Since(start)
					if err != nil {
						b.Fatal(err)
					}
					got += batch.Len()
					batch.Clear()
				}
			}
			report(b, spent)
		})
	}
}

// BenchmarkSend sends over a veth pair to a socket that nobody reads, so the
// far side's receive path is part of the price.
func BenchmarkSend(b *testing.B) {
	for name, size := range benchSizes {
		b.Run(name, func(b *testing.B) {
			w := porttest.NewWire(b, "1500")
			port := open(b, w.Near, udpsock.Config{Local: near4})
			newFar(b, w.Far, far4, near4)
			batch := packet.NewBatch(newPool(b, 4*benchBatch, packet.FrameSize2K), benchBatch)
			var spent time.Duration
			b.ReportAllocs()
			for done := 0; done < b.N; done += benchBatch {
				for range benchBatch {
					add(b, batch, 0, size, far4)
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

// BenchmarkRecvIdle is the price of finding nothing.
func BenchmarkRecvIdle(b *testing.B) {
	port, err := udpsock.Open(udpsock.Config{Local: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		b.Fatal(err)
	}
	defer port.Close()
	batch := packet.NewBatch(newPool(b, benchBatch, packet.FrameSize2K), benchBatch)
	b.ReportAllocs()
	for b.Loop() {
		if err := port.Recv(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// report gives the time per packet that was spent in the port alone.
func report(b *testing.B, spent time.Duration) {
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/packet")
	b.ReportMetric(float64(b.N)/spent.Seconds(), "pps")
}
