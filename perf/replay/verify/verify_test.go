package verify

import (
	"bytes"
	"strings"
	"testing"

	"flanx/encap/header"
	"flanx/perf/replay/linktype"
)

func packet(payload string) []byte {
	b := make([]byte, header.IPv4Len+len(payload))
	header.IPv4(b).Encode(header.IPv4Fields{TotalLength: uint16(len(b)), TTL: 64, Protocol: 200, ID: uint16(len(payload))})
	copy(b[20:], payload)
	return b
}

func note(packets ...[]byte) *Journal {
	j := NewJournal(100)
	for i, p := range packets {
		j.Note(linktype.Raw, p, int64(i)*1000)
	}
	return j
}

func TestCompare(t *testing.T) {
	a, b, c := packet("a"), packet("bb"), packet("ccc")
	damaged := bytes.Clone(b)
	damaged[len(damaged)-1] ^= 1
	aged := bytes.Clone(b)
	header.IPv4(aged).DecrementTTL()
	padded := append(bytes.Clone(b), 0, 0, 0)
	tests := []struct {
		name           string
		sent, received *Journal
		want           Report
	}{
		{"all", note(a, b, c), note(a, b, c), Report{Sent: 3, Received: 3}},
		{"none", note(a, b), note(), Report{Sent: 2, Lost: 2}},
		{"routed and padded", note(a, b, b), note(a, aged, padded), Report{Sent: 3, Received: 3}},
		{"twice the same is no copy", note(a, a), note(a, a), Report{Sent: 2, Received: 2}},
		{"a copy", note(a, b), note(a, a, b), Report{Sent: 2, Received: 2, Duplicated: 1}},
		{"disorder", note(a, b, c), note(b, a, c), Report{Sent: 3, Received: 3, Reordered: 1}},
		{"damage", note(a, b, c), note(a, damaged, c), Report{Sent: 3, Received: 2, Corrupted: 1}},
		{"foreign", note(a), note(c, a), Report{Sent: 1, Received: 1, Foreign: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Compare(tt.sent, tt.received, false)
			if *got != tt.want {
				t.Errorf("%+v, want %+v", *got, tt.want)
			}
			if ok := tt.want.Lost+tt.want.Corrupted+tt.want.Duplicated+tt.want.Reordered == 0; got.OK() != ok {
				t.Errorf("OK = %v", got.OK())
			}
		})
	}
}

func TestLatency(t *testing.T) {
	sent, received := NewJournal(9), NewJournal(9)
	sent.Note(linktype.Raw, packet("a"), 1000)
	received.Note(linktype.Raw, packet("a"), 6000)
	r := Compare(sent, received, true)
	if r.Latency == nil || r.Latency.Max != 5 || r.Latency.P50 != 5 || !strings.Contains(r.String(), "latency median 5.0") {
		t.Errorf("%s", r)
	}
}

// Frames without IP are known by what follows tags, which receivers take off.
func TestOtherFrames(t *testing.T) {
	macs := make([]byte, 12)
	arp := append(bytes.Clone(macs), 8, 6, 1, 2, 3)
	tagged := append(bytes.Clone(macs), 0x81, 0, 0, 5, 8, 6, 1, 2, 3, 0, 0)
	sent, received := NewJournal(9), NewJournal(9)
	sent.Note(linktype.Ethernet, tagged, 0)
	received.Note(linktype.Ethernet, arp, 0)
	if r := Compare(sent, received, false); !r.OK() {
		t.Error(r)
	}
}

// A full journal says so, and nothing is then called right.
func TestFull(t *testing.T) {
	j := NewJournal(1)
	j.Note(linktype.Raw, packet("a"), 0)
	j.Note(linktype.Raw, packet("b"), 0)
	if r := Compare(j, j, false); r.OK() || j.Full() != 1 || j.Len() != 1 {
		t.Error(r)
	}
}

func FuzzNote(f *testing.F) {
	f.Add(uint16(1), packet("a"))
	f.Add(uint16(101), []byte{0x60})
	f.Fuzz(func(t *testing.T, link uint16, b []byte) {
		j := NewJournal(2)
		j.Note(link, b, 0)
		if r := Compare(j, j, false); !r.OK() {
			t.Error(r)
		}
	})
}

func BenchmarkNote(b *testing.B) {
	j, p := NewJournal(1<<20), packet(strings.Repeat("x", 1000))
	for b.Loop() {
		j.entries = j.entries[:0]
		j.Note(linktype.Raw, p, 0)
	}
}
