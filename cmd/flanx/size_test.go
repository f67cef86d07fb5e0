package main

import "testing"

func TestByteSize(t *testing.T) {
	tests := []struct {
		in   string
		want int64 // 0: refused
		out  string
	}{
		{"64MiB", 64 << 20, "64MiB"},
		{"1GiB", 1 << 30, "1GiB"},
		{"1024KiB", 1 << 20, "1MiB"},
		{"1500", 1500, "1500"},
		{"1500B", 1500, "1500"},
		{"4 KiB", 4096, "4KiB"},
		{"0", 0, ""},
		{"", 0, ""},
		{"-1", 0, ""},
		{"1.5MiB", 0, ""},
		{"64MB", 0, ""},
		{"99999999999999999999", 0, ""},
	}
	for _, tt := range tests {
		var s byteSize
		err := s.Set(tt.in)
		if (err != nil) != (tt.want == 0) || int64(s) != tt.want {
			t.Errorf("%q: %d, %v", tt.in, s, err)
		}
		if err == nil && s.String() != tt.out {
			t.Errorf("%q printed as %q", tt.in, s.String())
		}
	}
}
