package capture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	// MaxRecord is the longest packet taken, in bytes: libpcap's
	// MAXIMUM_SNAPLEN. Longer ones are passed over and counted.
	MaxRecord = 256 << 10
	// MaxWindow is the longest zstd window taken, in bytes: four times what
	// any decoder must take (RFC 8878 section 3.1.1.1.2), and what zstd uses up
	// to level 19.
	MaxWindow = 32 << 20

	// bufferSize holds the longest record with its headers.
	bufferSize = MaxRecord + 64<<10
)

// Record is one packet as captured.
type Record struct {
	Data      []byte // what was captured; valid until the next call of Next
	Length    int    // bytes on the wire, at least len(Data)
	Time      int64  // nanoseconds since 1970, if Timed
	Timed     bool   // false where the format has no time or it is out of range
	LinkType  uint16 // LINKTYPE_ of tcpdump.org/linktypes.html
	Interface int    // counted from 0 over the whole file
}

// Cut says whether less was captured than was on the wire.
func (r *Record) Cut() bool { return len(r.Data) < r.Length }

// Counts says what a Reader met.
type Counts struct {
	Records   uint64 // read, those passed over included
	Oversized uint64 // passed over: longer than MaxRecord
	Malformed uint64 // passed over: contradicts its block or names no interface
	LongerCap uint64 // delivered, though more was captured than was on the wire
}

// Reader reads one file.
type Reader struct {
	br      *bufio.Reader
	pending int // bytes of the buffer that the last Record shows
	format  interface {
		next(r *Reader, rec *Record) error
		name() string
	}
	counts Counts
	close  func()
}

// New finds out what kind of file src is and reads its header. The error wraps
// ErrFormat, ErrTruncated or ErrMalformed, or is src's own.
func New(src io.Reader) (*Reader, error) {
	r := &Reader{br: bufio.NewReaderSize(src, bufferSize), close: func() {}}
	if err := r.unpack(); err != nil {
		return nil, err
	}
	if err := r.detect(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// Close gives back what decompression holds. The source stays open.
func (r *Reader) Close() { r.close() }

// Format names what was found: "pcap" or "pcapng".
func (r *Reader) Format() string { return r.format.name() }

// Counts returns what was met so far.
func (r *Reader) Counts() Counts { return r.counts }

// Next reads one packet into rec. It returns io.EOF at the end; any other error
// is final too.
func (r *Reader) Next(rec *Record) error {
	if err := r.release(); err != nil {
		return err
	}
	return r.format.next(r, rec)
}

// unpack puts a decompressor between where the file says so.
func (r *Reader) unpack() error {
	magic, _ := r.br.Peek(4) // what is too short is judged by detect
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(r.br)
		if err != nil {
			return fmt.Errorf("open gzip: %w: %w", ErrFormat, err)
		}
		r.br = bufio.NewReaderSize(z, bufferSize)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(r.br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxWindow))
		if err != nil {
			return fmt.Errorf("open zstd: %w: %w", ErrFormat, err)
		}
		r.close = z.Close
		r.br = bufio.NewReaderSize(z, bufferSize)
	}
	return nil
}

func (r *Reader) detect() error {
	magic, err := r.br.Peek(4)
	if err != nil {
		return fmt.Errorf("read capture: %w: %w", ErrFormat, unwanted(err))
	}
	switch le := binary.LittleEndian.Uint32(magic); le {
	case ngSectionHeader:
		r.format = &pcapng{order: binary.LittleEndian}
		return nil
	default:
		return r.detectPcap(le, binary.BigEndian.Uint32(magic))
	}
}

// unwanted makes an end of file inside something what it is.
func unwanted(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// release gives up what the last Record showed.
func (r *Reader) release() error {
	n := r.pending
	r.pending = 0
	return r.skip(int64(n))
}

// skip passes over n bytes, however many, in constant memory.
func (r *Reader) skip(n int64) error {
	for n > 0 {
		done, err := r.br.Discard(int(min(n, 1<<30)))
		n -= int64(done)
		if err != nil {
			return r.cut(err)
		}
	}
	return nil
}

// peek shows the next n bytes, at most bufferSize.
func (r *Reader) peek(n int) ([]byte, error) {
	b, err := r.br.Peek(n)
	if err != nil {
		return nil, r.cut(err)
	}
	return b, nil
}

// begin is peek where a file may end: it returns io.EOF only there.
func (r *Reader) begin(n int) ([]byte, error) {
	b, err := r.br.Peek(n)
	if err == nil {
		return b, nil
	}
	if len(b) == 0 && errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	return nil, r.cut(err)
}

// cut says where a file ended early. What a decompressor says of its own input
// counts as the same.
func (r *Reader) cut(err error) error {
	return fmt.Errorf("%w after packet %d: %w", ErrTruncated, r.counts.Records, unwanted(err))
}
