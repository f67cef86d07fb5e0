//go:build race

package packet

import "testing"

func TestFreedFramesArePoisoned(t *testing.T) {
	p := newPool(t, 1)
	f, _ := p.Get()
	p.Frame(f)[100] = 1
	p.Put(f)
	if got := p.Frame(f)[100]; got != poison {
		t.Errorf("freed byte is %#x, want %#x", got, poison)
	}
}

func TestDoubleFreePanics(t *testing.T) {
	p := newPool(t, 2)
	f, _ := p.Get()
	p.Put(f)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	p.Put(f)
}
