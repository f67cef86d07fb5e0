package bench

import "time"

// The two ends on one CPU, and on two. On a machine with one CPU the second fails
// and says so.
var (
	sameCPU = [2]int{1, 1}
	twoCPUs = [2]int{1, 2}
)

// Full is what a full run measures. loss is what a packet rate may lose, 0 to 1.
func Full(loss float64) []Workload {
	s := Search{Trial: 250 * time.Millisecond, Steps: 6, Loss: loss}
	return []Workload{
		TCP(1, time.Second), TCP(8, time.Second),
		PacketRate("pps-64", small, s), PacketRate("pps-imix", imix, s), PacketRate("pps-mtu", large, s),
		RoundTrip("rtt-hot-1cpu", 500*time.Millisecond, 0, sameCPU),
		RoundTrip("rtt-hot-2cpu", 500*time.Millisecond, 0, twoCPUs),
		RoundTrip("rtt-cold-2cpu", time.Second, 10*time.Millisecond, twoCPUs),
	}
}

// Quick is what --quick measures.
func Quick(loss float64) []Workload {
	return []Workload{
		TCP(1, 300*time.Millisecond),
		PacketRate("pps-64", small, Search{Trial: 100 * time.Millisecond, Steps: 4, Loss: loss}),
		RoundTrip("rtt-hot-2cpu", 200*time.Millisecond, 0, twoCPUs),
	}
}
