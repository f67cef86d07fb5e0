package header

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// slowSum is RFC 1071 word by word, to test against.
func slowSum(b []byte, initial uint16) uint16 {
	sum := uint64(initial)
	for i := 0; i < len(b); i += 2 {
		sum += uint64(b[i]) << 8
		if i+1 < len(b) {
			sum += uint64(b[i+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestSumOfEveryLength(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := func(n int, v byte) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = v
		}
		return b
	}
	for n := range 400 {
		for name, b := range map[string][]byte{"random": randomBytes(rng, n), "ones": all(n, 0xff), "zeros": all(n, 0)} {
			for _, initial := range []uint16{0, 1, 0x1234, 0xfffe, 0xffff} {
				if got, want := Sum(b, initial), slowSum(b, initial); got != want {
					t.Fatalf("Sum of %d %s from %#x = %#x, want %#x", n, name, initial, got, want)
				}
			}
		}
	}
}

func TestSumOfLargePackets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1400, 1500, 9000, 65535, 1 << 20} {
		b := randomBytes(rng, n)
		if got, want := Sum(b, 0), slowSum(b, 0); got != want {
			t.Errorf("Sum of %d bytes = %#x, want %#x", n, got, want)
		}
		for i := range b {
			b[i] = 0xff
		}
		if got := Sum(b[:n&^1], 0); got != 0xffff {
			t.Errorf("Sum of %d ones = %#x", n&^1, got)
		}
	}
}

// TestSumZero holds that only zeros sum to zero: elsewhere the answer is the
// other form of zero, all ones.
func TestSumZero(t *testing.T) {
	cases := map[string]struct {
		b    []byte
		want uint16
	}{
		"nothing":            {nil, 0},
		"zeros":              {make([]byte, 80), 0},
		"a word and its not": {[]byte{0x12, 0x34, 0xed, 0xcb}, 0xffff},
		"ones":               {[]byte{0xff, 0xff}, 0xffff},
	}
	for name, c := range cases {
		if got := Sum(c.b, 0); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}

// TestSumExample is the example of RFC 1071 section 3.
func TestSumExample(t *testing.T) {
	b := []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}
	if got := Sum(b, 0); got != 0xddf2 {
		t.Errorf("Sum = %#x, want 0xddf2", got)
	}
}

func TestValid(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		b := randomBytes(rng, 20)
		b[10], b[11] = 0, 0
		c := ^Sum(b, 0)
		b[10], b[11] = byte(c>>8), byte(c)
		if !Valid(b, 0) {
			t.Fatalf("%x is not valid", b)
		}
		b[rng.IntN(20)] ^= 1 << rng.IntN(8)
		if Valid(b, 0) {
			t.Fatalf("%x is valid after damage", b)
		}
	}
}

// TestUpdateExample is the example of RFC 1624 section 4, where the older
// equation 2 gave -0.
func TestUpdateExample(t *testing.T) {
	if got := Update(0xdd2f, 0x5555, 0x3285); got != 0x0000 {
		t.Errorf("Update = %#x, want 0x0000", got)
	}
}

// TestUpdate patches every value of one word into headers, and compares with
// the checksum made anew.
func TestUpdate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	b := randomBytes(rng, 20)
	b[0] = 0x45 // no header is all zeros
	b[10], b[11] = 0, 0
	was := ^Sum(b, 0)
	old := uint16(b[2])<<8 | uint16(b[3])
	for v := range 1 << 16 {
		b[2], b[3] = byte(v>>8), byte(v)
		if got, want := Update(was, old, uint16(v)), ^Sum(b, 0); got != want {
			t.Fatalf("Update(%#x, %#x, %#x) = %#x, want %#x", was, old, v, got, want)
		}
	}
}

func TestAdd(t *testing.T) {
	cases := map[string]struct{ a, b, want uint16 }{
		"zeros": {0, 0, 0}, "no carry": {1, 2, 3}, "carry": {0xffff, 1, 1}, "both all ones": {0xffff, 0xffff, 0xffff},
	}
	for name, c := range cases {
		if got := Add(c.a, c.b); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}

func TestUDPChecksum(t *testing.T) {
	for sum, want := range map[uint16]uint16{0xffff: 0xffff, 0: 0xffff, 0x1234: 0xedcb} {
		if got := UDPChecksum(sum); got != want {
			t.Errorf("UDPChecksum(%#x) = %#x, want %#x", sum, got, want)
		}
	}
}

func FuzzSum(f *testing.F) {
	f.Add([]byte("some bytes of odd length"), uint16(1))
	f.Add([]byte{}, uint16(0xffff))
	f.Fuzz(func(t *testing.T, b []byte, initial uint16) {
		if got, want := Sum(b, initial), slowSum(b, initial); got != want {
			t.Fatalf("Sum(%x, %#x) = %#x, want %#x", b, initial, got, want)
		}
	})
}

var sink uint16

func BenchmarkSum(b *testing.B) {
	buf := make([]byte, 1500)
	for _, n := range []int{20, 64, 94, 1400} {
		b.Run(fmt.Sprintf("unrolled/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sink += Sum(buf[:n], 0)
			}
		})
		b.Run(fmt.Sprintf("words/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				sink += slowSum(buf[:n], 0)
			}
		})
	}
}
