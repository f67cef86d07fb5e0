package replay

import (
	"errors"
	"fmt"
	"time"

	"flanx/dataplane"
	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/perf/replay/capture"
	"flanx/perf/replay/pace"
)

// ErrConfig says that a Config cannot be carried out.
var ErrConfig = errors.New("invalid replay")

// Shape is what a port takes.
type Shape uint8

const (
	// Frames: whole Ethernet frames. What was captured on another kind of link
	// gets an Ethernet header in front of its IP packet.
	Frames Shape = iota
	// Packets: bare IP packets.
	Packets
	// Wrapped: IP packets, which the codec wraps for the port.
	Wrapped
)

// Cut says what to do with records of which only a part was captured.
type Cut uint8

// The choices, as an option names them.
const (
	CutSkip Cut = iota // leave them out
	CutPad             // fill up with zeros to the length on the wire
	CutSend            // send what there is
)

// ParseCut reads an option's value: skip, pad or send.
func ParseCut(s string) (Cut, error) {
	for c, name := range []string{"skip", "pad", "send"} {
		if s == name {
			return Cut(c), nil
		}
	}
	return 0, fmt.Errorf("%w: %q is not skip, pad or send", ErrConfig, s)
}

// Editor changes an IP packet in place before it is sent. It keeps its length,
// but for what a header claims.
type Editor interface {
	Edit(ip []byte, loop int)
}

// Filter says whether a packet is to be sent. ip is nil when the frame holds
// none.
type Filter interface {
	Match(ip []byte) bool
}

// Observer sees every packet as it is given to the port, before it is wrapped.
type Observer interface {
	Sent(data []byte, at int64)
}

// Output is where packets go.
type Output struct {
	Port  dataplane.Port
	Pool  *packet.Pool
	Shape Shape
	Codec encap.Codec // for Wrapped
	Peers *Peers      // for Wrapped
	// MTU bounds the IP packet that the port is given, in bytes; 0 does not.
	MTU int
	// SrcMAC and DstMAC, if not zero, are the addresses of frames.
	SrcMAC, DstMAC encap.MAC
	// Stamp, if set, is told the capture time of the packet in a frame.
	Stamp func(frame uint32, nanoseconds int64)
}

// Config says what to replay, and how.
type Config struct {
	// Open begins the capture. It is called once for each loop; the function it
	// returns ends that.
	Open   func() (*capture.Reader, func(), error)
	Output Output
	Pace   pace.Config

	Loops    int           // times to send it all; 0 is one, below zero without end
	Limit    uint64        // packets to send; 0 is all
	Duration time.Duration // after which no packet is begun; 0 is without end
	Preload  int64         // bytes of packets to keep in memory, and read but once; 0 none

	Cut Cut
	// RepairLengths takes a packet whose header claims length 0, as captured
	// before hardware segmented it, for as long as it is. The Editor writes it.
	RepairLengths bool
	Filter        Filter   // may be nil
	Editor        Editor   // may be nil
	Observe       Observer // may be nil

	// Batch is the most packets given to the port at once, 1 to 1,024; 0 is 64.
	Batch int
	// Progress, if set, is called about five times a second.
	Progress func(Live)
}

// Live is how far a replay has come.
type Live struct {
	Sent, Bytes uint64
	Elapsed     time.Duration
}

func (c *Config) check() error {
	switch o := &c.Output; {
	case c.Open == nil || o.Port == nil || o.Pool == nil:
		return fmt.Errorf("%w: capture, port or pool is missing", ErrConfig)
	case o.Shape == Wrapped && (o.Codec == nil || o.Peers == nil):
		return fmt.Errorf("%w: wrapping needs a codec and peers", ErrConfig)
	case c.Batch < 0 || c.Batch > 1024 || c.Preload < 0 || c.Duration < 0:
		return fmt.Errorf("%w: batch %d, preload %d, duration %s", ErrConfig, c.Batch, c.Preload, c.Duration)
	}
	if c.Batch == 0 {
		c.Batch = 64
	}
	return c.Pace.Check()
}
