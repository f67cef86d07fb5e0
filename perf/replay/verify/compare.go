package verify

import (
	"fmt"
	"strings"

	"flanx/perf/replay/pace"
)

// Report is what became of the packets.
type Report struct {
	Sent       uint64 `json:"sent"`
	Received   uint64 `json:"received"`   // first copies, unchanged
	Lost       uint64 `json:"lost"`       // of them nothing arrived
	Corrupted  uint64 `json:"corrupted"`  // arrived changed
	Duplicated uint64 `json:"duplicated"` // copies beyond those sent
	Reordered  uint64 `json:"reordered"`  // arrived after a packet that was sent later
	Foreign    uint64 `json:"foreign"`    // never sent by us; no fault
	Unnoted    uint64 `json:"unnoted"`    // beyond the memory for comparing

	Latency *Latency `json:"latency_microseconds,omitempty"`
}

// Latency is from giving a packet to the port until it was seen, in
// microseconds, of the packets received.
type Latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// OK says that everything arrived once, unchanged and in order.
func (r *Report) OK() bool {
	return r.Lost == 0 && r.Corrupted == 0 && r.Duplicated == 0 && r.Reordered == 0 && r.Unnoted == 0
}

// String is one line for people.
func (r *Report) String() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "verify: %d of %d received; %d lost, %d corrupted, %d duplicated, %d reordered",
		r.Received, r.Sent, r.Lost, r.Corrupted, r.Duplicated, r.Reordered)
	if r.Foreign > 0 {
		fmt.Fprintf(b, " (%d packets were not ours)", r.Foreign)
	}
	if r.Unnoted > 0 {
		fmt.Fprintf(b, "; %d beyond the memory for comparing", r.Unnoted)
	}
	if l := r.Latency; l != nil {
		fmt.Fprintf(b, "; latency median %.1f µs, p99 %.1f µs, most %.1f µs", l.P50, l.P99, l.Max)
	}
	return b.String()
}

// queue is the packets of one content that were sent and not yet seen, in order.
type queue struct {
	next, last int32 // indexes of sent; -1 none
}

// Compare matches what was sent with what arrived. timed says whether both
// journals were kept by one clock, so that latency means something.
func Compare(sent, received *Journal, timed bool) *Report {
	m := &matcher{
		sent:      sent.entries,
		following: make([]int32, len(sent.entries)),
		seen:      make([]bool, len(sent.entries)),
		byContent: make(map[uint64]queue, len(sent.entries)),
		timed:     timed,
		latest:    -1,
	}
	m.r.Sent = uint64(len(sent.entries))
	m.r.Unnoted = sent.lost + received.lost
	m.index()
	var strangers []entry
	for _, e := range received.entries {
		if !m.match(e) {
			strangers = append(strangers, e)
		}
	}
	m.kinship(strangers)
	if m.latency.Count() > 0 {
		micro := func(ns int64) float64 { return float64(ns) / 1e3 }
		m.r.Latency = &Latency{
			P50: micro(m.latency.Percentile(50)), P90: micro(m.latency.Percentile(90)),
			P99: micro(m.latency.Percentile(99)), Max: micro(m.latency.Max()),
		}
	}
	return &m.r
}

type matcher struct {
	sent      []entry
	following []int32 // the next packet sent with the same content
	seen      []bool
	byContent map[uint64]queue
	latest    int32 // the last packet sent of those seen so far
	timed     bool
	latency   pace.Histogram
	r         Report
}

func (m *matcher) index() {
	for i := range m.sent {
		m.following[i] = -1
		q, ok := m.byContent[m.sent[i].content]
		if !ok {
			q = queue{next: int32(i), last: int32(i)}
		} else {
			m.following[q.last] = int32(i)
			q.last = int32(i)
		}
		m.byContent[m.sent[i].content] = q
	}
}

// match says whether a received packet is one of ours: the earliest of its
// content that was not seen yet, or a copy too many.
func (m *matcher) match(e entry) bool {
	q, ok := m.byContent[e.content]
	if !ok {
		return false
	}
	i := q.next
	if i < 0 {
		m.r.Duplicated++
		return true
	}
	q.next = m.following[i]
	m.byContent[e.content] = q
	m.seen[i] = true
	m.r.Received++
	if i < m.latest {
		m.r.Reordered++
	}
	m.latest = max(m.latest, i)
	if m.timed {
		m.latency.Add(e.at - m.sent[i].at)
	}
	return true
}

// kinship tells lost packets from corrupted ones: something of the same header
// arrived in place of the latter.
func (m *matcher) kinship(strangers []entry) {
	kin := make(map[uint64]int, len(strangers))
	for _, e := range strangers {
		kin[e.kin]++
	}
	for i := range m.sent {
		if m.seen[i] {
			continue
		}
		if k := m.sent[i].kin; kin[k] > 0 {
			kin[k]--
			m.r.Corrupted++
			continue
		}
		m.r.Lost++
	}
	m.r.Foreign = uint64(len(strangers)) - m.r.Corrupted
}
