package encaptest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// golden compares the bytes of the sample packets with the file: one line of
// hex digits per packet. A change there is a change on the wire.
func (s Suite) golden(t *testing.T) {
	if s.Golden == "" {
		t.Skip("no golden file for this suite")
	}
	wire := s.node(t).push(s.samples()...)
	if s.Update {
		var text strings.Builder
		for _, p := range wire {
			fmt.Fprintf(&text, "%x\n", p)
		}
		if err := os.WriteFile(s.Golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := ReadGolden(t, s.Golden)
	if len(want) != len(wire) {
		t.Fatalf("%s has %d packets, want %d; run with -update after looking why", s.Golden, len(want), len(wire))
	}
	for i := range wire {
		if !bytes.Equal(wire[i], want[i]) {
			t.Errorf("packet %d\n got %x\nwant %x", i, wire[i], want[i])
		}
	}
}

// ReadGolden reads the packets of a golden file.
func ReadGolden(tb testing.TB, path string) [][]byte {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	var out [][]byte
	for i, line := range strings.Fields(string(text)) {
		p, err := hex.DecodeString(line)
		if err != nil {
			tb.Fatalf("%s, packet %d: %v", path, i, err)
		}
		out = append(out, p)
	}
	return out
}
