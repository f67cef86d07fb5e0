package replay

import (
	"testing"

	"flanx/dataplane/packet"
	"flanx/perf/replay/linktype"
	"flanx/perf/replay/pace"
)

// sink is a port that takes everything and does nothing.
type sink struct{}

func (sink) Recv(*packet.Batch) error   { return nil }
func (sink) Send(b *packet.Batch) error { b.Clear(); return nil }
func (sink) Room() int                  { return 1 << 20 }
func (sink) Flush() error               { return nil }
func (sink) FD() int                    { return -1 }
func (sink) Close() error               { return nil }

// BenchmarkRun is what replaying costs beside the port.
func BenchmarkRun(b *testing.B) {
	var recs []record
	for range 1000 {
		recs = append(recs, record{data: framed(0x0800, ipv4("payload of 18 byte"))})
	}
	file := pcapOf(linktype.Ethernet, recs...)
	const loops = 100
	pool := newPool(b)
	b.ReportAllocs()
	for b.Loop() {
		sum, err := Run(b.Context(), Config{
			Open: opener(file), Output: Output{Port: sink{}, Pool: pool}, Preload: 1 << 20, Loops: loops, Pace: pace.Config{Top: true},
		})
		if err != nil || sum.Sent != 1000*loops {
			b.Fatal(sum, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1000*loops), "ns/packet")
}
