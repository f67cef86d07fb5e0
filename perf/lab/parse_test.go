package lab

import (
	"math"
	"os"
	"testing"
)

func TestParsePrefix(t *testing.T) {
	tests := []struct {
		in, prefix string
		pid        int
		ok         bool
	}{
		{"flanx-12-3", "flanx-12-3", 12, true},
		{"flanx-12-3-a", "flanx-12-3", 12, true},
		{"flanx-12-3-a-pod", "flanx-12-3", 12, true},
		{"flanx-demo-a", "", 0, false},
		{"flanx-12", "", 0, false},
		{"flanx-0-1-a", "", 0, false},
		{"flanx--1-1-a", "", 0, false},
		{"flanx-12-x-a", "", 0, false},
		{"other-12-3-a", "", 0, false},
		{"", "", 0, false},
	}
	for _, tt := range tests {
		prefix, pid, ok := parsePrefix(tt.in)
		if prefix != tt.prefix || pid != tt.pid || ok != tt.ok {
			t.Errorf("parsePrefix(%q) = %q, %d, %v", tt.in, prefix, pid, ok)
		}
	}
}

func TestAlive(t *testing.T) {
	if !alive(os.Getpid()) || !alive(1) {
		t.Error("a living process counts as dead")
	}
	if alive(math.MaxInt32) {
		t.Error("a number above the kernel's limit counts as living")
	}
}
