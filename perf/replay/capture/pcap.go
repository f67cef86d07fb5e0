package capture

import (
	"encoding/binary"
	"fmt"
)

// The magic numbers of pcap (draft-ietf-opsawg-pcap section 4) and of the form
// with longer record headers that old patched libpcaps wrote.
const (
	magicMicro    = 0xa1b2c3d4
	magicNano     = 0xa1b23c4d
	magicPatched  = 0xa1b2cd34
	fileHeaderLen = 24
)

// pcap reads the records of a classic file.
type pcap struct {
	order     binary.ByteOrder
	linkType  uint16
	fcs       int   // bytes of frame check sequence behind each frame
	unit      int64 // nanoseconds per unit of the second time word
	headerLen int   // of a record
}

func (*pcap) name() string { return "pcap" }

// detectPcap reads the file header, if one of the two readings of the first
// four bytes is a magic number.
func (r *Reader) detectPcap(le, be uint32) error {
	p := &pcap{unit: 1000, headerLen: 16}
	magic := le
	p.order = binary.LittleEndian
	if be == magicMicro || be == magicNano || be == magicPatched {
		magic, p.order = be, binary.BigEndian
	}
	switch magic {
	case magicMicro:
	case magicNano:
		p.unit = 1
	case magicPatched:
		p.headerLen = 24
	default:
		return fmt.Errorf("%w: it begins with %#08x", ErrFormat, be)
	}
	h, err := r.peek(fileHeaderLen)
	if err != nil {
		return err
	}
	if major := p.order.Uint16(h[4:]); major != 2 {
		return fmt.Errorf("%w: pcap version %d", ErrFormat, major)
	}
	network := p.order.Uint32(h[20:])
	p.linkType = uint16(network)
	if network&(1<<26) != 0 { // F: the upper four bits count FCS words of 16 bits
		p.fcs = int(network>>28) * 2
	}
	r.format = p
	return r.skip(fileHeaderLen)
}

func (p *pcap) next(r *Reader, rec *Record) error {
	for {
		h, err := r.begin(p.headerLen)
		if err != nil {
			return err
		}
		seconds, fraction := p.order.Uint32(h), p.order.Uint32(h[4:])
		captured, length := p.order.Uint32(h[8:]), p.order.Uint32(h[12:])
		if captured > MaxRecord {
			if err := r.skip(int64(p.headerLen) + int64(captured)); err != nil {
				return fmt.Errorf("packet claims %d bytes: %w", captured, err)
			}
			r.counts.Records++
			r.counts.Oversized++
			continue
		}
		b, err := r.peek(p.headerLen + int(captured))
		if err != nil {
			return err
		}
		*rec = Record{
			Time:     int64(seconds)*1e9 + int64(fraction)*p.unit,
			Timed:    true,
			LinkType: p.linkType,
		}
		r.deliver(rec, b[p.headerLen:], length, p.fcs)
		r.pending = len(b)
		return nil
	}
}

// deliver fills in what was captured, without the frame check sequence.
func (r *Reader) deliver(rec *Record, data []byte, length uint32, fcs int) {
	r.counts.Records++
	if uint64(len(data)) > uint64(length) {
		r.counts.LongerCap++
		length = uint32(len(data))
	}
	if n := len(data); n == int(length) && n >= fcs {
		data, length = data[:n-fcs], length-uint32(fcs)
	}
	rec.Data, rec.Length = data[:len(data):len(data)], int(length)
}
