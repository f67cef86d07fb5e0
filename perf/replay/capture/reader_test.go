package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

var le, be = binary.LittleEndian, binary.BigEndian

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zstded(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}

const second = int64(1e9)

func TestForms(t *testing.T) {
	plain := join(classic(le, magicMicro, 1), packed(le, 7, 5, 4, 9, "abcd"))
	tests := []struct {
		name string
		file []byte
		want seen
	}{
		{"little endian", plain, seen{Record{Time: 7*second + 5000, Timed: true, Length: 9, LinkType: 1}, "abcd"}},
		{"gzip", gzipped(plain), seen{Record{Time: 7*second + 5000, Timed: true, Length: 9, LinkType: 1}, "abcd"}},
		{"zstd", zstded(plain), seen{Record{Time: 7*second + 5000, Timed: true, Length: 9, LinkType: 1}, "abcd"}},
		{"big endian", join(classic(be, magicMicro, 113), packed(be, 7, 5, 4, 4, "abcd")), seen{Record{Time: 7*second + 5000, Timed: true, Length: 4, LinkType: 113}, "abcd"}},
		{"nanoseconds", join(classic(be, magicNano, 1), packed(be, 7, 5, 2, 2, "ab")), seen{Record{Time: 7*second + 5, Timed: true, Length: 2, LinkType: 1}, "ab"}},
		{"patched libpcap", join(classic(le, magicPatched, 1), packed(le, 7, 0, 2, 2, 3, 4, "ab")), seen{Record{Time: 7 * second, Timed: true, Length: 2, LinkType: 1}, "ab"}},
		{"frame check sequence", join(classic(le, magicMicro, 1|1<<26|2<<28), packed(le, 7, 0, 6, 6, "abFCS.")), seen{Record{Time: 7 * second, Timed: true, Length: 2, LinkType: 1}, "ab"}},
		{"more captured than there was", join(classic(le, magicMicro, 1), packed(le, 0, 0, 4, 2, "abcd")), seen{Record{Timed: true, Length: 4, LinkType: 1}, "abcd"}},
		{"pcapng", join(section(le), iface(le, 1), enhanced(le, 0, 3000001, 3, 5, "abc")), seen{Record{Time: 3*second + 1000, Timed: true, Length: 5, LinkType: 1}, "abc"}},
		{"pcapng big endian", join(section(be), iface(be, 101), enhanced(be, 0, 3000001, 3, 5, "abc")), seen{Record{Time: 3*second + 1000, Timed: true, Length: 5, LinkType: 101}, "abc"}},
		{"decimal resolution", join(section(le), iface(le, 1, uint16(9), uint16(1), "\x09\x00\x00\x00"), enhanced(le, 0, 5, 1, 1, "a")), seen{Record{Time: 5, Timed: true, Length: 1, LinkType: 1}, "a"}},
		{"binary resolution", join(section(le), iface(le, 1, uint16(9), uint16(1), "\x81\x00\x00\x00"), enhanced(le, 0, 5, 1, 1, "a")), seen{Record{Time: 2*second + second/2, Timed: true, Length: 1, LinkType: 1}, "a"}},
		{"time offset", join(section(le), iface(le, 1, uint16(14), uint16(8), uint64(100)), enhanced(le, 0, 5000000, 1, 1, "a")), seen{Record{Time: 105 * second, Timed: true, Length: 1, LinkType: 1}, "a"}},
		{"resolution beyond all", join(section(le), iface(le, 1, uint16(9), uint16(1), "\x7f\x00\x00\x00"), enhanced(le, 0, 5, 1, 1, "a")), seen{Record{Length: 1, LinkType: 1}, "a"}},
		{"simple block", join(section(le), iface(le, 1), block(le, ngSimplePacket, packed(le, 3, "abc"))), seen{Record{Length: 3, LinkType: 1}, "abc"}},
		{"obsolete block", join(section(le), iface(le, 1), block(le, ngPacket, packed(le, uint16(0), uint16(9), 0, 1000000, 2, 2, "ab"))), seen{Record{Time: second, Timed: true, Length: 2, LinkType: 1}, "ab"}},
		{"unknown blocks between", join(section(le), block(le, 0x0bad, []byte("what is this")), iface(le, 1), enhanced(le, 0, 0, 1, 1, "a")), seen{Record{Timed: true, Length: 1, LinkType: 1}, "a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := all(t, tt.file)
			if err != nil || len(got) != 1 {
				t.Fatalf("%d records, %v", len(got), err)
			}
			got[0].Data, tt.want.Data = nil, nil
			if got[0].data != tt.want.data || got[0].Time != tt.want.Time || got[0].Timed != tt.want.Timed ||
				got[0].Length != tt.want.Length || got[0].LinkType != tt.want.LinkType {
				t.Errorf("got %+v, want %+v", got[0], tt.want)
			}
		})
	}
}

// Sections may differ in everything, and interfaces are counted on.
func TestSections(t *testing.T) {
	file := join(
		section(le), iface(le, 1), iface(le, 113), enhanced(le, 1, 0, 1, 1, "a"),
		section(be), iface(be, 101), enhanced(be, 0, 0, 1, 1, "b"),
	)
	got, _, err := all(t, file)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	if got[0].Interface != 1 || got[0].LinkType != 113 || got[1].Interface != 2 || got[1].LinkType != 101 {
		t.Errorf("got %+v", got)
	}
}

// What cannot be used costs only itself.
func TestPassedOver(t *testing.T) {
	huge := strings.Repeat("x", MaxRecord+4)
	tests := []struct {
		name                 string
		file                 []byte
		oversized, malformed uint64
	}{
		{"oversized in pcap", join(classic(le, magicMicro, 1), packed(le, 0, 0, len(huge), len(huge), huge, 0, 0, 1, 1, "a")), 1, 0},
		{"oversized in pcapng", join(section(le), iface(le, 1), enhanced(le, 0, 0, len(huge), len(huge), huge), enhanced(le, 0, 0, 1, 1, "a")), 1, 0},
		{"no such interface", join(section(le), iface(le, 1), enhanced(le, 9, 0, 1, 1, "x"), enhanced(le, 0, 0, 1, 1, "a")), 0, 1},
		{"more than the block", join(section(le), iface(le, 1), enhanced(le, 0, 0, 1<<30, 1<<30, "x"), enhanced(le, 0, 0, 1, 1, "a")), 0, 1},
		{"short block", join(section(le), iface(le, 1), block(le, ngEnhancedPacket, []byte("abcd")), enhanced(le, 0, 0, 1, 1, "a")), 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, r, err := all(t, tt.file)
			if err != nil || len(got) != 1 || got[0].data != "a" {
				t.Fatalf("%d records, %v", len(got), err)
			}
			if c := r.Counts(); c.Oversized != tt.oversized || c.Malformed != tt.malformed || c.Records != 2 {
				t.Errorf("counts %+v", c)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name string
		file []byte
		want error
	}{
		{"empty", nil, ErrFormat},
		{"text", []byte("#!/bin/sh\n"), ErrFormat},
		{"two bytes", []byte{0xd4, 0xc3}, ErrFormat},
		{"future version", packed(le, magicMicro, uint16(3), uint16(0), 0, 0, 0, 1), ErrFormat},
		{"header cut", classic(le, magicMicro, 1)[:20], ErrTruncated},
		{"section without order", block(le, ngSectionHeader, packed(le, 0x12345678, 0, 0, 0)), ErrMalformed},
		{"block of nothing", join(section(le), packed(le, 1, 0, 0)), ErrMalformed},
		{"block of an odd length", join(section(le), packed(le, 5, 13, 0)), ErrMalformed},
		{"packet claims 4 GiB", join(classic(le, magicMicro, 1), packed(le, 0, 0, 0xffffffff, 1, "abc")), ErrTruncated},
		{"block claims 4 GiB", join(section(le), iface(le, 1), packed(le, 6, 0xfffffffc, 0, 0, 0, 0xffffffff, 1, "abc")), ErrTruncated},
		{"gzip with nothing in it", []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3}, ErrFormat},
		{"gzip of text", gzipped([]byte("hello, world")), ErrFormat},
		{"zstd cut", zstded(join(classic(le, magicMicro, 1), packed(le, 0, 0, 1, 1, "a")))[:20], ErrFormat},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := all(t, tt.file); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// A file cut anywhere gives all that came before the cut, and says that it is cut.
func TestCutAnywhere(t *testing.T) {
	files := map[string][]byte{
		"pcap":   join(classic(le, magicMicro, 1), packed(le, 0, 0, 4, 4, "abcd"), packed(le, 0, 0, 4, 4, "efgh")),
		"pcapng": join(section(le), iface(le, 1), enhanced(le, 0, 0, 4, 4, "abcd"), enhanced(le, 0, 0, 4, 4, "efgh")),
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			before := 0
			for n := range len(file) {
				got, _, err := all(t, file[:n])
				if err == nil && n > 0 && len(got) < before {
					t.Errorf("cut at %d: %d records, fewer than before", n, len(got))
				}
				if err != nil && !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrFormat) {
					t.Errorf("cut at %d: %v", n, err)
				}
				before = max(before, len(got))
			}
			if before != 1 {
				t.Errorf("%d records before the last", before)
			}
		})
	}
}

// A few bytes must not make a lot of memory.
func TestNoGiantAllocation(t *testing.T) {
	files := [][]byte{
		join(section(le), iface(le, 1), packed(le, 6, 0xfffffffc, 0, 0, 0, 0xffffffff, 0xffffffff)),
		join(classic(le, magicMicro, 1), packed(le, 0, 0, 0xfffffff0, 0xfffffff0)),
		{0x28, 0xb5, 0x2f, 0xfd, 0, 0xff, 0, 0, 0}, // zstd that asks for the largest window
	}
	for i, file := range files {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := all(t, file)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%d: no error", i)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20 {
			t.Errorf("%d: %d bytes allocated", i, grown)
		}
	}
}

// What the library makes of a file, we make of it too.
func TestAgreesWithLibrary(t *testing.T) {
	file := join(classic(le, magicNano, 1), packed(le, 7, 5, 4, 9, "abcd"), packed(le, 8, 6, 2, 2, "xy"))
	r, err := pcapgo.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	got, _, _ := all(t, file)
	for i := 0; ; i++ {
		data, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if got[i].data != string(data) || got[i].Time != ci.Timestamp.UnixNano() || got[i].Length != ci.Length {
			t.Errorf("record %d: %+v, want %q %v", i, got[i], data, ci)
		}
	}
}

func TestNextAllocs(t *testing.T) {
	file := join(classic(le, magicMicro, 1), bytes.Repeat(packed(le, 7, 5, 4, 4, "abcd"), 2000))
	r, err := New(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var rec Record
	if n := testing.AllocsPerRun(1000, func() { _ = r.Next(&rec) }); n != 0 {
		t.Errorf("%v allocations per record", n)
	}
}

// FuzzReader reads anything: no panic, no endless loop, no record longer than
// allowed.
func FuzzReader(f *testing.F) {
	f.Add(join(classic(le, magicMicro, 1), packed(le, 7, 5, 4, 9, "abcd")))
	f.Add(join(section(le), iface(le, 1, uint16(9), uint16(1), "\x89\x00\x00\x00"), enhanced(le, 0, 5, 3, 3, "abc"), block(le, ngSimplePacket, packed(le, 3, "abc"))))
	f.Add(join(section(be), iface(be, 1), block(be, ngPacket, packed(be, uint16(0), uint16(0), 0, 1, 2, 2, "ab"))))
	f.Add(gzipped(join(classic(be, magicNano, 101), packed(be, 7, 5, 1, 1, "a"))))
	f.Add(zstded(join(classic(be, magicPatched, 101), packed(be, 7, 5, 1, 1, 0, 0, "a"))))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, _, _ := all(t, file)
		for _, s := range got {
			if len(s.data) > MaxRecord || s.Length < len(s.data) {
				t.Errorf("record of %d bytes, length %d", len(s.data), s.Length)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	file := join(classic(le, magicMicro, 1), bytes.Repeat(packed(le, 7, 5, 64, 64, make([]byte, 64)), 10000))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		r, err := New(bytes.NewReader(file))
		if err != nil {
			b.Fatal(err)
		}
		var rec Record
		for r.Next(&rec) == nil {
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/packet")
}
