package bench

import (
	"context"
	"math"
	"net/netip"
	"time"

	"flanx/perf/bench/stat"
	"flanx/perf/gen"
)

// Sample is one measurement of one path under one workload.
type Sample struct {
	Value float64 `json:"value"` // in the workload's unit

	// Latency are percentiles of the round trip in µs: p50, p90, p99, p99.9.
	Latency map[string]float64 `json:"latency_us,omitempty"`
	Lost    int                `json:"lost,omitempty"` // round trips without an answer
	// SenderLimited says that the fastest the sender could do arrived: the path may
	// carry more.
	SenderLimited bool `json:"sender_limited,omitempty"`
	// Trials are the steps of a search for the rate.
	Trials []Trial `json:"trials,omitempty"`

	// CPU time per delivered packet (per KiB for TCP), in ns; of the trial that
	// Value comes from.
	CPUSystem  float64 `json:"cpu_system_ns"`
	CPUDaemons float64 `json:"cpu_daemons_ns"`
}

// Trial is one step of a search: what was offered, what arrived.
type Trial struct {
	Sent      uint64  `json:"sent"`
	Received  uint64  `json:"received"`
	Offered   float64 `json:"offered_pps"`   // by the sender's clock
	Delivered float64 `json:"delivered_pps"` // received over the time of sending
}

// Loss returns the share that did not arrive, 0 to 1.
func (t Trial) Loss() float64 {
	if t.Sent == 0 {
		return 1
	}
	return 1 - float64(min(t.Received, t.Sent))/float64(t.Sent)
}

// Workload is one kind of traffic.
type Workload struct {
	Name, Unit    string
	LowerIsBetter bool
	CPUPer        string        // what CPU time is divided by
	Takes         time.Duration // roughly, for one measurement
	measure       func(context.Context, *Wire, Ends) (Sample, error)
}

// TCP fills connections; the figure is Gbit/s of payload at the receiver.
func TCP(streams int, d time.Duration) Workload {
	name := "tcp-1"
	if streams != 1 {
		name = "tcp-8"
	}
	return Workload{
		Name: name, Unit: "Gbit/s", CPUPer: "KiB", Takes: d + 50*time.Millisecond,
		measure: func(ctx context.Context, w *Wire, e Ends) (Sample, error) {
			before := readCPU(e.PIDs)
			res, err := gen.Stream(ctx, w.A.Do, w.B.Do, gen.StreamConfig{
				From: netip.AddrPortFrom(e.A, 0), To: netip.AddrPortFrom(e.B, 0), Streams: streams, Duration: d,
			})
			s := Sample{Value: res.BitsPerSecond() / 1e9}
			s.charge(readCPU(e.PIDs).since(before), float64(res.Bytes)/1024)
			return s, err
		},
	}
}

func (s *Sample) charge(c cpu, units float64) {
	if units > 0 {
		s.CPUSystem, s.CPUDaemons = float64(c.system)/units, float64(c.daemons)/units
	}
}

// RoundTrip bounces one datagram; the figure is the median round trip in µs.
func RoundTrip(name string, d, gap time.Duration, cpus [2]int) Workload {
	return Workload{
		Name: name, Unit: "µs", LowerIsBetter: true, CPUPer: "packet", Takes: d + 100*time.Millisecond,
		measure: func(ctx context.Context, w *Wire, e Ends) (Sample, error) {
			before := readCPU(e.PIDs)
			res, err := gen.RoundTrip(ctx, w.A.Do, w.B.Do, gen.RoundTripConfig{
				From: e.A, To: e.B, Duration: d, Gap: gap, CPUs: cpus,
			})
			if err != nil {
				return Sample{}, err
			}
			if len(res.RTT) == 0 {
				return Sample{}, errSilent
			}
			us := make([]float64, len(res.RTT))
			for i, t := range res.RTT {
				us[i] = float64(t) / 1e3
			}
			s := Sample{Lost: res.Lost, Latency: map[string]float64{}}
			for name, p := range map[string]float64{"p50": 50, "p90": 90, "p99": 99, "p99.9": 99.9} {
				s.Latency[name] = stat.Percentile(us, p)
			}
			s.Value = s.Latency["p50"]
			s.charge(readCPU(e.PIDs).since(before), 2*float64(len(us)))
			return s, nil
		},
	}
}

// Search says how the highest rate is looked for.
type Search struct {
	Trial time.Duration // of sending, each
	Steps int           // after the first trial, which sends as fast as it can
	Loss  float64       // that counts as none, 0 to 1
}

// share is one size of datagram and its part of the packets.
type share struct {
	size int // of the inner IP packet
	part float64
}

// Sizes of inner IP packets. imix is the "simple IMIX" of 7:4:1 (RFC 6985, section 4),
// its largest cut to what fits every tunnel here.
var (
	small = []share{{64, 1}}
	imix  = []share{{64, 7. / 12}, {576, 4. / 12}, {largest, 1. / 12}}
	large = []share{{largest, 1}}
)

// largest fits VXLAN over IPv4 on a wire of 1,500 bytes.
const largest = 1450

// PacketRate looks for the highest rate below a loss, halving the interval as
// RFC 2544 section 26.1 does, on a scale of ratios. The figure is what arrived in
// the best such trial, in thousands of packets per second; 0 if every trial lost more.
func PacketRate(name string, mix []share, s Search) Workload {
	return Workload{
		Name: name, Unit: "kpps", CPUPer: "packet",
		Takes: time.Duration(s.Steps+1) * (s.Trial + 150*time.Millisecond),
		measure: func(ctx context.Context, w *Wire, e Ends) (Sample, error) {
			var out Sample
			low, high := 0.0, 0.0
			for step := range s.Steps + 1 {
				rate := 0.0
				if step > 0 {
					rate = math.Sqrt(low * high)
				}
				before := readCPU(e.PIDs)
				t, err := offer(ctx, w, e, mix, rate, s.Trial)
				if err != nil {
					return out, err
				}
				used := readCPU(e.PIDs).since(before)
				out.Trials = append(out.Trials, t)
				ok := t.Loss() <= s.Loss
				if ok && t.Delivered/1e3 > out.Value {
					out.Value = t.Delivered / 1e3
					out.charge(used, float64(t.Received))
				}
				switch {
				case step == 0 && ok:
					out.SenderLimited = true
					return out, nil
				case step == 0:
					low, high = t.Offered/64, t.Offered
				case ok:
					low = rate
				default:
					high = rate
				}
			}
			return out, nil
		},
	}
}

// offer sends one trial: a flood for each size, at once.
func offer(ctx context.Context, w *Wire, e Ends, mix []share, rate float64, d time.Duration) (Trial, error) {
	type outcome struct {
		gen.FloodResult
		error
	}
	outcomes := make(chan outcome, len(mix))
	for i, m := range mix {
		go func() {
			res, err := gen.Flood(ctx, w.A.Do, w.B.Do, gen.FloodConfig{
				From: netip.AddrPortFrom(e.A, 0), To: netip.AddrPortFrom(e.B, 0),
				Size: m.size - 28, Rate: rate * m.part, Duration: d, Settle: 60 * time.Millisecond, Seed: uint64(i),
			})
			outcomes <- outcome{res, err}
		}()
	}
	var t Trial
	var failed error
	for range mix {
		o := <-outcomes
		if o.error != nil {
			failed = o.error
			continue
		}
		t.Sent += o.Sent
		t.Received += o.Received
		t.Offered += o.SendRate()
		if o.SendTime > 0 {
			t.Delivered += float64(o.Received) / max(o.SendTime, o.ReceiveTime).Seconds()
		}
	}
	return t, failed
}
