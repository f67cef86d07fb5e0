package pcapport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"flanx/dataplane/packet"
)

// Format is how a file is written.
type Format uint8

// The formats, both with times in nanoseconds.
const (
	PCAP   Format = iota // draft-ietf-opsawg-pcap
	PCAPNG               // draft-ietf-opsawg-pcapng
)

// ErrFormat says that there is no such format.
var ErrFormat = errors.New("unknown capture format")

// snapLen is what files are said to be cut at: nothing is longer.
const snapLen = 256 << 10

// Source gives packets: Next copies the next one into space and returns its
// length, which may exceed space. It returns io.EOF at the end.
type Source interface {
	Next(space []byte) (int, error)
}

// Config says what a port reads and writes; either side may be missing.
type Config struct {
	From     Source
	To       io.Writer
	Format   Format
	LinkType uint16 // of what is written
	Program  string // noted in a pcapng as its author
}

// writer is either of the library's writers.
type writer interface {
	WritePacket(ci gopacket.CaptureInfo, data []byte) error
}

// Port is a capture as a port. It satisfies dataplane.Port.
type Port struct {
	from  Source
	out   writer
	buf   *bufio.Writer
	flush func() error
	times []int64 // by frame, nanoseconds since 1970
	ended bool
}

// New makes a port, and writes the header of the file.
func New(cfg Config) (*Port, error) {
	p := &Port{from: cfg.From, flush: func() error { return nil }}
	if cfg.To == nil {
		return p, nil
	}
	p.buf = bufio.NewWriterSize(cfg.To, 1<<20)
	var err error
	switch cfg.Format {
	case PCAP:
		w := pcapgo.NewWriterNanos(p.buf)
		p.out, p.flush = w, p.buf.Flush
		err = w.WriteFileHeader(snapLen, layers.LinkType(cfg.LinkType))
	case PCAPNG:
		err = p.beginNG(cfg)
	default:
		err = fmt.Errorf("%w: %d", ErrFormat, cfg.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("begin capture: %w", err)
	}
	return p, nil
}

func (p *Port) beginNG(cfg Config) error {
	w, err := pcapgo.NewNgWriterInterface(p.buf, pcapgo.NgInterface{
		LinkType: layers.LinkType(cfg.LinkType), SnapLength: snapLen, TimestampResolution: 9,
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: cfg.Program}})
	if err != nil {
		return err
	}
	p.out = w
	p.flush = func() error { return errors.Join(w.Flush(), p.buf.Flush()) }
	return nil
}

// Stamp says at what time, in nanoseconds since 1970, the packet in a frame was
// captured. Without it the packet has that of the frame's last one.
func (p *Port) Stamp(frame uint32, nanoseconds int64) {
	for int(frame) >= len(p.times) {
		p.times = append(p.times, make([]int64, max(64, len(p.times)))...)
	}
	p.times[frame] = nanoseconds
}

// Recv appends packets of the source up to b's room; one longer than its frame
// is dropped as Truncated. It returns io.EOF when there are no more.
func (p *Port) Recv(b *packet.Batch) error {
	if p.from == nil || p.ended {
		return io.EOF
	}
	for {
		i, space, ok := b.Extend()
		if !ok {
			return nil
		}
		n, err := p.from.Next(space)
		if err != nil {
			b.Undo()
			p.ended = true
			return err
		}
		if n > len(space) {
			b.Drop(i, packet.Truncated)
			continue
		}
		b.Resize(i, n)
	}
}

// Send writes every packet of b. After an error the rest is dropped as
// SendFailed: a file that cannot be written to does not heal.
func (p *Port) Send(b *packet.Batch) error {
	var failed error
	for i := range b.Len() {
		if failed == nil {
			failed = p.write(b.At(i).Frame, b.Bytes(i))
		}
		if failed != nil {
			b.Drop(i, packet.SendFailed)
			continue
		}
		b.Release(i)
	}
	b.Reset()
	return failed
}

func (p *Port) write(frame uint32, data []byte) error {
	if p.out == nil {
		return fmt.Errorf("write packet: %w: the port only reads", errors.ErrUnsupported)
	}
	ci := gopacket.CaptureInfo{CaptureLength: len(data), Length: len(data)}
	if int(frame) < len(p.times) {
		ci.Timestamp = time.Unix(0, p.times[frame]).UTC()
	} else {
		ci.Timestamp = time.Unix(0, 0).UTC()
	}
	if err := p.out.WritePacket(ci, data); err != nil {
		return fmt.Errorf("write packet: %w", err)
	}
	return nil
}

// Room returns a large number: a file takes everything.
func (*Port) Room() int { return 1 << 20 }

// Flush writes out what is buffered.
func (p *Port) Flush() error { return p.flush() }

// FD returns -1: a file is always ready.
func (*Port) FD() int { return -1 }

// Close writes out what is buffered. The file stays open.
func (p *Port) Close() error { return p.flush() }
