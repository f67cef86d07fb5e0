package verify

import (
	"hash/maphash"

	"flanx/encap/header"
	"flanx/perf/replay/linktype"
)

// seed makes the fingerprints of one run of the program comparable.
var seed = maphash.MakeSeed()

// entry is one packet.
type entry struct {
	content uint64 // of all that must arrive unchanged
	kin     uint64 // of what tells a changed packet's origin: addresses, ID, length
	at      int64  // nanoseconds on the run's clock
}

// Journal is a list of packets in the order they were seen.
type Journal struct {
	entries []entry
	scratch [64]byte
	max     int
	lost    uint64 // not noted, because the journal was full
}

// NewJournal makes a journal of at most limit packets.
func NewJournal(limit int) *Journal { return &Journal{max: limit} }

// Len returns how many packets were noted.
func (j *Journal) Len() int { return len(j.entries) }

// Full returns how many packets came when there was no more room.
func (j *Journal) Full() uint64 { return j.lost }

// Note adds a packet that was captured on a link of the type.
func (j *Journal) Note(linkType uint16, data []byte, at int64) {
	if len(j.entries) >= j.max {
		j.lost++
		return
	}
	e := entry{at: at}
	if ip, ok := linktype.FindIP(linkType, data); ok {
		e.content, e.kin = j.packet(ip)
	} else {
		e.content = maphash.Bytes(seed, body(data))
		e.kin = e.content
	}
	j.entries = append(j.entries, e)
}

// packet takes the fingerprints of an IP packet. The header is hashed from a
// copy in which what may change is zero.
func (j *Journal) packet(ip []byte) (content, kin uint64) {
	ip = trim(ip)
	var h maphash.Hash
	h.SetSeed(seed)
	n := copy(j.scratch[:], ip)
	head := j.scratch[:n]
	kinLen := 0
	switch v := header.IPVersion(ip); {
	case v == 4 && n >= header.IPv4Len:
		head[1] &^= 3
		head[8], head[10], head[11] = 0, 0, 0
		kinLen = header.IPv4Len
	case v == 6 && n >= header.IPv6Len:
		head[1] &^= 0x30
		head[7] = 0
		kinLen = header.IPv6Len
	}
	_, _ = h.Write(head)
	_, _ = h.Write(ip[n:])
	return h.Sum64(), maphash.Bytes(seed, head[:kinLen])
}

// trim cuts off what Ethernet padded.
func trim(ip []byte) []byte {
	n := len(ip)
	switch v := header.IPVersion(ip); {
	case v == 4 && n >= header.IPv4Len:
		n = header.IPv4(ip).TotalLength()
	case v == 6 && n >= header.IPv6Len:
		n = header.IPv6Len + header.IPv6(ip).PayloadLength()
	}
	if n < header.IPv4Len || n > len(ip) {
		return ip
	}
	return ip[:n]
}

// body is a frame without its link header, tags and padding.
func body(frame []byte) []byte {
	at := 12
	for len(frame) >= at+4 {
		t := uint16(frame[at])<<8 | uint16(frame[at+1])
		if t != header.EtherTypeVLAN && t != 0x88a8 && t != 0x9100 {
			break
		}
		at += 4
	}
	b := frame[min(at, len(frame)):]
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}
