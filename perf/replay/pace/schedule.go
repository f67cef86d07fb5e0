package pace

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrConfig says that a pace contradicts itself.
var ErrConfig = errors.New("invalid pace")

// Config says how fast to send. At most one of Speed, PPS, Mbps and Top is set;
// none is the original timing.
type Config struct {
	Speed float64 // multiplies the original timing
	PPS   float64 // packets per second
	Mbps  float64 // megabits per second of what the port is given, link header included
	Top   bool    // as fast as the port takes them

	// MaxGap bounds the pause between two packets of the original timing, before
	// Speed divides it; 0 leaves gaps as they are.
	MaxGap time.Duration
	// Burst sends packets in groups of that many at once, at the same rate.
	Burst int
}

// Check says whether the pace can be kept.
func (c Config) Check() error {
	set := 0
	for _, v := range []float64{c.Speed, c.PPS, c.Mbps} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: %v is no rate", ErrConfig, v)
		}
		if v > 0 {
			set++
		}
	}
	if c.Top {
		set++
	}
	if set > 1 {
		return fmt.Errorf("%w: only one of speed, pps, mbps and top can be kept", ErrConfig)
	}
	if c.MaxGap < 0 || c.Burst < 0 {
		return fmt.Errorf("%w: gap %s, burst %d", ErrConfig, c.MaxGap, c.Burst)
	}
	return nil
}

// Schedule tells the due times of one replay. Its zero value is of no use: see
// New.
type Schedule struct {
	cfg     Config
	packets uint64
	bits    float64
	virtual int64 // nanoseconds of capture time since the first packet, gaps capped
	last    int64 // capture time of the latest packet
	begun   bool
	due     int64
	capped  uint64
}

// New begins a schedule.
func New(cfg Config) *Schedule {
	if cfg.Speed == 0 {
		cfg.Speed = 1
	}
	cfg.Burst = max(cfg.Burst, 1)
	return &Schedule{cfg: cfg}
}

// Rewind says that the capture begins again: the first packet of the next loop
// is due with the last of this one.
func (s *Schedule) Rewind() { s.begun = false }

// Capped returns how many gaps were shortened to MaxGap.
func (s *Schedule) Capped() uint64 { return s.capped }

// Due returns when the next packet is to leave, in nanoseconds from the start.
// captured is its time in the capture, if timed; bytes its length. Due times
// never go back.
func (s *Schedule) Due(captured int64, timed bool, bytes int) int64 {
	n, bits := s.packets, s.bits
	s.packets++
	s.bits += float64(bytes) * 8
	var due int64
	switch {
	case s.cfg.Top:
		return 0
	case s.cfg.PPS > 0:
		due = nanoseconds(float64(n) * 1e9 / s.cfg.PPS)
	case s.cfg.Mbps > 0:
		due = nanoseconds(bits * 1e3 / s.cfg.Mbps)
	default:
		due = nanoseconds(float64(s.advance(captured, timed)) / s.cfg.Speed)
	}
	if n%uint64(s.cfg.Burst) == 0 && due > s.due {
		s.due = due
	}
	return s.due
}

// nanoseconds rounds, and stays in range for absurd rates and times.
func nanoseconds(f float64) int64 { return int64(min(f, math.MaxInt64/2)) }

// stepBack is how far a capture's clock must jump back to count as set anew.
// Less is disorder between queues or interfaces, and waited out.
const stepBack = int64(time.Second)

// advance moves capture time on by the gap to this packet.
func (s *Schedule) advance(captured int64, timed bool) int64 {
	if !timed {
		return s.virtual
	}
	if !s.begun {
		s.begun, s.last = true, captured
		return s.virtual
	}
	gap := captured - s.last
	if gap < 0 {
		if gap < -stepBack {
			s.last = captured
		}
		return s.virtual
	}
	s.last = captured
	if limit := int64(s.cfg.MaxGap); limit > 0 && gap > limit {
		gap = limit
		s.capped++
	}
	if s.virtual < math.MaxInt64/4 && gap < math.MaxInt64/4 {
		s.virtual += gap
	}
	return s.virtual
}
