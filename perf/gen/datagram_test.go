package gen

import (
	"bytes"
	"testing"
)

func TestPayloadFollowsFromSeed(t *testing.T) {
	a, b := payload(1, 1000), payload(1, 1000)
	if !bytes.Equal(a, b) {
		t.Error("one seed, two payloads")
	}
	if bytes.Equal(a, payload(2, 1000)) {
		t.Error("two seeds, one payload")
	}
	if bytes.Equal(a[:500], a[500:]) {
		t.Error("the payload repeats")
	}
}

func TestDatagramRoundTrip(t *testing.T) {
	for _, size := range []int{minDatagram, 18, 1400} {
		d := newDatagrams(5, size)
		b := make([]byte, size)
		d.fill(b)
		d.put(b, 3, 1<<48-1)
		flow, seq, ok := d.get(b)
		if !ok || flow != 3 || seq != 1<<48-1 {
			t.Errorf("size %d: flow %d, number %d, %v", size, flow, seq, ok)
		}
		for i := range b {
			b[i] ^= 0x10
			if _, _, ok := d.get(b); ok {
				t.Errorf("size %d: byte %d was changed, and nobody saw", size, i)
			}
			b[i] ^= 0x10
		}
		if _, _, ok := d.get(b[:size-1]); ok {
			t.Errorf("size %d: short one accepted", size)
		}
		if _, _, ok := newDatagrams(6, size).get(b); ok {
			t.Errorf("size %d: another seed's accepted", size)
		}
	}
}

func TestDatagramsDoNotAllocate(t *testing.T) {
	d := newDatagrams(5, 64)
	b := make([]byte, 64)
	d.fill(b)
	var o order
	var seq uint64
	n := testing.AllocsPerRun(1000, func() {
		d.put(b, 1, seq)
		_, s, _ := d.get(b)
		o.take(s)
		seq++
	})
	if n != 0 {
		t.Errorf("%v allocations per datagram", n)
	}
}

func BenchmarkDatagram(b *testing.B) {
	d := newDatagrams(5, 18)
	buf := make([]byte, 18)
	d.fill(buf)
	var o order
	b.ReportAllocs()
	for i := range b.N {
		d.put(buf, 0, uint64(i))
		_, seq, _ := d.get(buf)
		o.take(seq)
	}
}

func FuzzDatagramGet(f *testing.F) {
	d := newDatagrams(5, 20)
	good := make([]byte, 20)
	d.fill(good)
	d.put(good, 1, 2)
	f.Add(good)
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if flow, seq, ok := d.get(b); ok {
			again := bytes.Clone(good)
			d.put(again, flow, seq)
			if !bytes.Equal(again, b) {
				t.Errorf("% x accepted as flow %d number %d, which is % x", b, flow, seq, again)
			}
		}
	})
}
