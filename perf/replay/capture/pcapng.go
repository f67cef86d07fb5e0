package capture

import (
	"encoding/binary"
	"fmt"
)

// Block types of pcapng (draft-ietf-opsawg-pcapng section 4).
const (
	ngSectionHeader   = 0x0a0d0d0a
	ngInterface       = 1
	ngPacket          = 2 // obsolete, still found
	ngSimplePacket    = 3
	ngEnhancedPacket  = 6
	ngByteOrderMagic  = 0x1a2b3c4d
	ngBlockOverhead   = 12 // type, length, length again
	ngMaxInterfaces   = 1 << 16
	ngMaxOptionsBytes = 64 << 10 // of an interface that are looked at
)

// ngInterfaceInfo is what an interface description says of its packets.
type ngInterfaceInfo struct {
	clock    clock
	snapLen  uint32
	linkType uint16
	fcs      uint8
}

// pcapng reads blocks, section by section.
type pcapng struct {
	order      binary.ByteOrder
	interfaces []ngInterfaceInfo // of this section
	earlier    int               // interfaces of the sections before
}

func (*pcapng) name() string { return "pcapng" }

func (p *pcapng) next(r *Reader, rec *Record) error {
	for {
		h, err := r.begin(ngBlockOverhead)
		if err != nil {
			return err
		}
		if p.order.Uint32(h) == ngSectionHeader { // reads the same in both orders
			if err := p.section(r, h); err != nil {
				return err
			}
			continue
		}
		kind, total := p.order.Uint32(h), p.order.Uint32(h[4:])
		if total < ngBlockOverhead || total%4 != 0 {
			return fmt.Errorf("%w after packet %d: a block of %d bytes", ErrMalformed, r.counts.Records, total)
		}
		found, err := p.block(r, rec, kind, total)
		if found || err != nil {
			return err
		}
	}
}

// section takes a section header: byte order and interfaces begin anew.
func (p *pcapng) section(r *Reader, h []byte) error {
	switch {
	case binary.LittleEndian.Uint32(h[8:]) == ngByteOrderMagic:
		p.order = binary.LittleEndian
	case binary.BigEndian.Uint32(h[8:]) == ngByteOrderMagic:
		p.order = binary.BigEndian
	default:
		return fmt.Errorf("%w after packet %d: a section without byte order", ErrMalformed, r.counts.Records)
	}
	total := p.order.Uint32(h[4:])
	if total < 28 || total%4 != 0 {
		return fmt.Errorf("%w after packet %d: a section header of %d bytes", ErrMalformed, r.counts.Records, total)
	}
	p.earlier += len(p.interfaces)
	p.interfaces = p.interfaces[:0]
	return r.skip(int64(total))
}

// block reads one block and says whether it was a packet that can be used.
func (p *pcapng) block(r *Reader, rec *Record, kind, total uint32) (found bool, err error) {
	switch kind {
	case ngInterface:
		return false, p.describe(r, total)
	case ngEnhancedPacket, ngPacket:
		return p.packet(r, rec, total, kind == ngPacket)
	case ngSimplePacket:
		return p.simple(r, rec, total)
	default:
		return false, r.skip(int64(total))
	}
}

// describe takes an interface description block.
func (p *pcapng) describe(r *Reader, total uint32) error {
	if total < 20 || len(p.interfaces) == ngMaxInterfaces {
		return fmt.Errorf("%w after packet %d: interface %d cannot be described in %d bytes", ErrMalformed, r.counts.Records, len(p.interfaces), total)
	}
	b, err := r.peek(int(min(total, ngMaxOptionsBytes)))
	if err != nil {
		return err
	}
	info := ngInterfaceInfo{linkType: p.order.Uint16(b[8:]), snapLen: p.order.Uint32(b[12:]), clock: microseconds}
	options := b[16:]
	if int(total) == len(b) {
		options = b[16 : total-4]
	}
	p.options(options, &info)
	p.interfaces = append(p.interfaces, info)
	return r.skip(int64(total))
}

// options reads those of an interface that matter (section 4.2).
func (p *pcapng) options(b []byte, info *ngInterfaceInfo) {
	for len(b) >= 4 {
		code, n := p.order.Uint16(b), int(p.order.Uint16(b[2:]))
		b = b[4:]
		if code == 0 || n > len(b) {
			return
		}
		switch value := b[:n]; {
		case code == 9 && n >= 1: // if_tsresol
			info.clock.resolution = value[0]
		case code == 13 && n >= 1: // if_fcslen, bits or bytes depending on who wrote it
			info.fcs = fcsBytes(value[0])
		case code == 14 && n >= 8: // if_tsoffset
			info.clock.offset = int64(p.order.Uint64(value))
		}
		b = b[min((n+3)&^3, len(b)):]
	}
}

// fcsBytes reads an if_fcslen, which the draft gives in bytes in one revision
// and in bits in another; Ethernet's is 4 bytes.
func fcsBytes(n uint8) uint8 {
	if n > 8 {
		n /= 8
	}
	return min(n, 8)
}

// packet takes an enhanced or an obsolete packet block: they differ in how the
// interface is written.
func (p *pcapng) packet(r *Reader, rec *Record, total uint32, obsolete bool) (bool, error) {
	const before = 28 // block type, length, and five words
	if total < before+4 {
		return p.pass(r, total, &r.counts.Malformed)
	}
	h, err := r.peek(before)
	if err != nil {
		return false, err
	}
	index := p.order.Uint32(h[8:])
	if obsolete {
		index = uint32(p.order.Uint16(h[8:]))
	}
	stamp := uint64(p.order.Uint32(h[12:]))<<32 | uint64(p.order.Uint32(h[16:]))
	captured, length := p.order.Uint32(h[20:]), p.order.Uint32(h[24:])
	switch {
	case captured > total-before-4 || int64(index) >= int64(len(p.interfaces)):
		return p.pass(r, total, &r.counts.Malformed)
	case captured > MaxRecord:
		return p.pass(r, total, &r.counts.Oversized)
	}
	info := &p.interfaces[index]
	*rec = Record{LinkType: info.linkType, Interface: p.earlier + int(index)}
	rec.Time, rec.Timed = info.clock.nanoseconds(stamp)
	return p.show(r, rec, total, before, captured, length, info)
}

// simple takes a simple packet block: no time, and always the first interface.
func (p *pcapng) simple(r *Reader, rec *Record, total uint32) (bool, error) {
	const before = 12
	if total < before+4 || len(p.interfaces) == 0 {
		return p.pass(r, total, &r.counts.Malformed)
	}
	h, err := r.peek(before)
	if err != nil {
		return false, err
	}
	info := &p.interfaces[0]
	length := p.order.Uint32(h[8:])
	captured := min(length, total-before-4)
	if info.snapLen > 0 {
		captured = min(captured, info.snapLen)
	}
	if captured > MaxRecord {
		return p.pass(r, total, &r.counts.Oversized)
	}
	*rec = Record{LinkType: info.linkType, Interface: p.earlier}
	return p.show(r, rec, total, before, captured, length, info)
}

// show delivers the packet that begins at before. The rest of the block, which
// may be longer than the buffer, is passed over on the next call.
func (p *pcapng) show(r *Reader, rec *Record, total, before, captured, length uint32, info *ngInterfaceInfo) (bool, error) {
	want := int(min(total, bufferSize))
	b, err := r.peek(want)
	if err != nil {
		return false, err
	}
	r.deliver(rec, b[before:before+captured], length, int(info.fcs))
	r.pending = int(total)
	return true, nil
}

// pass passes over a packet that cannot be used.
func (p *pcapng) pass(r *Reader, total uint32, counter *uint64) (bool, error) {
	if err := r.skip(int64(total)); err != nil {
		return false, err
	}
	r.counts.Records++
	*counter++
	return false, nil
}
