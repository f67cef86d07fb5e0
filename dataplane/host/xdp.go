package host

import (
	"errors"
	"fmt"
)

// Errors of opening AF_XDP. Those of packages xsk and xdpprog come through too.
var (
	// ErrSuperPackets says that packets longer than the MTU can reach the
	// program, which generic XDP would lose.
	ErrSuperPackets = errors.New("super-packets can reach generic XDP")
	// ErrMTU says that the MTU is too large for AF_XDP.
	ErrMTU = errors.New("MTU is too large for AF_XDP")
	// ErrTooFewQueues says that more queues were asked for than there are.
	ErrTooFewQueues = errors.New("too few queues")
	// ErrNotZeroCopy says that the kernel bound a socket without zero-copy
	// although that was demanded.
	ErrNotZeroCopy = errors.New("zero-copy was not granted")
	// ErrRung says that there is no such rung.
	ErrRung = errors.New("unknown way of I/O")
)

// Rung is a way of getting packets on and off the wire.
type Rung uint8

// The rungs, the best first after Auto.
const (
	Auto     Rung = iota // the best that works
	ZeroCopy             // native XDP, and the device reads and writes our frames
	Native               // native XDP, and the kernel copies
	Generic              // XDP in the network stack, and the kernel copies
	UDP                  // a UDP socket, without AF_XDP
)

// rungs are the words of each rung: as an option's value, and in messages.
var rungs = [...]struct{ option, words string }{
	Auto:     {"auto", "automatic"},
	ZeroCopy: {"zerocopy", "zero-copy"},
	Native:   {"native", "native copy"},
	Generic:  {"generic", "generic"},
	UDP:      {"udp", "UDP socket"},
}

// ParseRung reads an option's value: auto, zerocopy, native, generic or udp.
func ParseRung(s string) (Rung, error) {
	for r, w := range rungs {
		if w.option == s {
			return Rung(r), nil
		}
	}
	return 0, fmt.Errorf("%w %q: want auto, zerocopy, native, generic or udp", ErrRung, s)
}

// String returns the option's value that ParseRung reads.
func (r Rung) String() string {
	if int(r) < len(rungs) {
		return rungs[r].option
	}
	return fmt.Sprintf("rung %d", uint8(r))
}

// Words returns how messages call the rung.
func (r Rung) Words() string {
	if int(r) < len(rungs) {
		return rungs[r].words
	}
	return r.String()
}
