package xsk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Mode says how packets pass between the device and the UMEM.
type Mode uint8

// The modes that can be asked for. What was granted is Port.ZeroCopy.
const (
	// Auto takes zero-copy where the driver offers it, else copies.
	Auto Mode = iota
	// Copy makes the kernel copy each packet, whatever the driver can.
	Copy
	// ZeroCopy lets the device read and write the frames itself, or fails.
	ZeroCopy
)

// flag returns the bind flag (linux/if_xdp.h).
func (m Mode) flag() uint16 {
	switch m {
	case Copy:
		return unix.XDP_COPY
	case ZeroCopy:
		return unix.XDP_ZEROCOPY
	}
	return 0
}

// String returns the mode's name as it stands in messages.
func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case Copy:
		return "copy"
	case ZeroCopy:
		return "zero-copy"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Config says what to bind, and how many frames the kernel may hold.
type Config struct {
	IfIndex int  // interface, by index
	Queue   int  // its queue, from 0
	Mode    Mode // copy, zero-copy, or what can be had

	// FillTarget is how many frames are kept ready for receiving. Default: half
	// of the pool.
	FillTarget int
	// TXLimit is the most frames that can be on their way out. Default: a
	// quarter of the pool.
	TXLimit int
}
