package main

import (
	"fmt"
	"strconv"
	"strings"
)

// byteSize is a flag value such as 64MiB, 10KiB or 1500.
type byteSize int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String prints the size in the largest unit that leaves no rest.
func (s *byteSize) String() string {
	for _, u := range sizeUnits {
		if n := int64(*s); n != 0 && n%u.bytes == 0 && u.bytes > 1 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.suffix)
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set reads a whole number with or without a unit.
func (s *byteSize) Set(text string) error {
	unit := int64(1)
	digits := text
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(text, u.suffix); ok {
			digits, unit = d, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 32)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is no size such as 64MiB, 10KiB or 1500", text)
	}
	*s = byteSize(int64(n) * unit)
	return nil
}

// Type names the kind of value in the help.
func (*byteSize) Type() string { return "size" }
