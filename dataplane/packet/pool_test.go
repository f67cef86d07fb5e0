package packet

import (
	"errors"
	"os"
	"regexp"
	"testing"
	"unsafe"
)

func TestNewPoolRefuses(t *testing.T) {
	cases := map[string]struct{ frames, size int }{
		"no frames":        {0, FrameSize2K},
		"negative":         {-1, FrameSize2K},
		"too many":         {1<<24 + 1, FrameSize2K},
		"too small":        {1, 1024},
		"too large":        {1, 2 * FrameSize64K},
		"not a power of 2": {1, 3000},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := NewPool(c.frames, c.size); !errors.Is(err, ErrPoolConfig) {
				t.Errorf("NewPool(%d, %d) = %v, want ErrPoolConfig", c.frames, c.size, err)
			}
		})
	}
}

func TestPoolGivesEachFrameOnce(t *testing.T) {
	p := newPool(t, 8)
	seen := map[uint32]bool{}
	for range 8 {
		f, ok := p.Get()
		if !ok || seen[f] || f >= 8 {
			t.Fatalf("Get = %d, %v; seen %v", f, ok, seen)
		}
		seen[f] = true
	}
	if _, ok := p.Get(); ok {
		t.Error("Get from an empty pool said yes")
	}
	p.Put(3)
	if f, ok := p.Get(); !ok || f != 3 {
		t.Errorf("Get after Put(3) = %d, %v", f, ok)
	}
}

func TestFramesDoNotOverlap(t *testing.T) {
	p := newPool(t, 3)
	for f := range uint32(3) {
		b := p.Frame(f)
		if len(b) != FrameSize2K || cap(b) != FrameSize2K {
			t.Fatalf("frame %d: len %d cap %d", f, len(b), cap(b))
		}
		for i := range b {
			b[i] = byte(f + 1)
		}
	}
	for f := range uint32(3) {
		for i, v := range p.Frame(f) {
			if v != byte(f+1) {
				t.Fatalf("frame %d byte %d is %d", f, i, v)
			}
		}
	}
}

func TestSlabIsPageAligned(t *testing.T) {
	p := newPool(t, 3)
	if addr := uintptr(unsafe.Pointer(&p.Slab()[0])); addr%4096 != 0 {
		t.Errorf("slab at %#x", addr)
	}
}

func TestOffsetLocate(t *testing.T) {
	p := newPool(t, 4)
	for f := range uint32(4) {
		for _, at := range []uint32{0, 1, Headroom, FrameSize2K - 1} {
			gotF, gotAt, ok := p.Locate(p.Offset(f, at))
			if !ok || gotF != f || gotAt != at {
				t.Errorf("Locate(Offset(%d, %d)) = %d, %d, %v", f, at, gotF, gotAt, ok)
			}
		}
	}
	for _, addr := range []uint64{4 * FrameSize2K, 1 << 40, ^uint64(0)} {
		if _, _, ok := p.Locate(addr); ok {
			t.Errorf("Locate(%#x) outside the slab said yes", addr)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	p := newPool(t, 1)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestReasonNames(t *testing.T) {
	seen := map[string]Reason{}
	for r := range NumReasons {
		name := r.String()
		if prev, dup := seen[name]; name == "" || name == "unknown" || dup {
			t.Errorf("reason %d is named %q (also %d)", r, name, prev)
		}
		seen[name] = r
	}
	if NumReasons.String() != "unknown" {
		t.Error("an unknown reason has a name")
	}
}

// TestDropsAreDocumented holds the table in docs/drops.md against the code.
func TestDropsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/drops.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	for r := range NumReasons {
		if !documented[r.String()] {
			t.Errorf("docs/drops.md does not have %s", r)
		}
		delete(documented, r.String())
	}
	for name := range documented {
		t.Errorf("docs/drops.md has %s, which is no reason", name)
	}
}
