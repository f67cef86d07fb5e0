package capture

import (
	"math"
	"math/bits"
)

// clock says how an interface of a pcapng counts time (if_tsresol, if_tsoffset).
type clock struct {
	resolution uint8 // negative power of ten, or of two with the upper bit set
	offset     int64 // seconds to add
}

// microseconds is the clock of an interface that says nothing.
var microseconds = clock{resolution: 6}

// nanoseconds converts a time stamp to nanoseconds since 1970. It says no when
// the result is out of range: such stamps are as good as none.
func (c clock) nanoseconds(stamp uint64) (int64, bool) {
	perSecond, ok := c.unitsPerSecond()
	if !ok {
		return 0, false
	}
	seconds, rest := stamp/perSecond, stamp%perSecond
	hi, lo := bits.Mul64(rest, 1e9)
	nanos, _ := bits.Div64(hi, lo, perSecond) // rest < perSecond, so it fits
	const limit = math.MaxInt64 / 1_000_000_000
	if seconds > limit-1 {
		return 0, false
	}
	sum := int64(seconds) + c.offset
	if c.offset > limit || c.offset < -limit || sum < 0 || sum > limit-1 {
		return 0, false
	}
	return sum*1e9 + int64(nanos), true
}

func (c clock) unitsPerSecond() (uint64, bool) {
	power := c.resolution & 0x7f
	if c.resolution&0x80 != 0 {
		return 1 << (power & 63), power < 64
	}
	units := uint64(1)
	for range power {
		hi, lo := bits.Mul64(units, 10)
		if hi != 0 {
			return 0, false
		}
		units = lo
	}
	return units, true
}
