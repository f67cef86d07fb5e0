package xsk

import (
	"errors"
	"testing"
)

func TestBudget(t *testing.T) {
	cases := map[string]struct {
		cfg    Config
		frames int
		want   budget
		sizes  sizes
		bad    bool
	}{
		"defaults":                {Config{}, 4096, budget{2048, 1024}, sizes{2048, 2048, 1024, 1024}, false},
		"rings are powers of two": {Config{FillTarget: 100, TXLimit: 65}, 200, budget{100, 65}, sizes{128, 128, 128, 128}, false},
		"one of each":             {Config{FillTarget: 1, TXLimit: 1}, 3, budget{1, 1}, sizes{1, 1, 1, 1}, false},
		"smallest default":        {Config{}, 4, budget{2, 1}, sizes{2, 2, 1, 1}, false},
		"nothing for batches":     {Config{FillTarget: 100, TXLimit: 100}, 200, budget{}, sizes{}, true},
		"pool too small":          {Config{}, 3, budget{}, sizes{}, true},
		"negative fill":           {Config{FillTarget: -1}, 100, budget{}, sizes{}, true},
		"negative tx":             {Config{TXLimit: -1}, 100, budget{}, sizes{}, true},
		"all for receiving":       {Config{FillTarget: 100}, 100, budget{}, sizes{}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := newBudget(c.cfg, c.frames)
			if errors.Is(err, ErrConfig) != c.bad || b != c.want {
				t.Fatalf("newBudget = %+v, %v; want %+v, error %v", b, err, c.want, c.bad)
			}
			if err == nil && b.sizes() != c.sizes {
				t.Errorf("sizes = %+v, want %+v", b.sizes(), c.sizes)
			}
		})
	}
}

func TestModeNames(t *testing.T) {
	for m, want := range map[Mode]string{Auto: "auto", Copy: "copy", ZeroCopy: "zero-copy", 9: "mode 9"} {
		if got := m.String(); got != want {
			t.Errorf("mode %d is named %q, want %q", uint8(m), got, want)
		}
	}
}
