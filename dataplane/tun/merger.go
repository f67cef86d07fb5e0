package tun

import (
	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/encap/header"
)

// Bounds of one merger.
const (
	maxPackets = 1024 // packets between two flushes
	maxRuns    = 64   // flows at once; one more, and all are written
	maxPieces  = 64   // packets in a run: below UDP_MAX_SEGMENTS (linux/udp.h), and 64 KiB of full ones
	maxMerged  = 65535
	tableSize  = 4 * maxRuns // a power of two; sparse, so that a search is short
)

// run is a flow of which packets are waiting to be written as one; with none
// waiting it keeps the flow's place in the table.
type run struct {
	first    segment // of the first packet
	at       int     // the first packet's index in the batch
	last     int     // the last one's
	count    int     // packets waiting
	size     int     // length of the merged packet
	nextSeq  uint32  // TCP
	push     bool    // TCP: PSH was set on the last
	closed   bool    // nothing may follow
	verified bool    // the first packet's checksum was checked
}

// merger writes the packets of a batch to a TUN, those of one flow that follow
// each other as one. It keeps no packet between two batches.
//
// The order within a flow stays: a packet that cannot join its flow's run is
// written after it, and one whose flow cannot be told after all runs.
type merger struct {
	*queue
	b   *packet.Batch
	err error // the queue failed: everything else is dropped

	runs  [maxRuns]run
	n     int
	table [tableSize]uint8   // index into runs, plus one; 0 is free
	next  [maxPackets]uint16 // the packet behind this one in its run, by index modulo maxPackets

	vec          vector
	lead         [vnetLen + maxHead]byte
	noTCP, noUDP bool // the kernel refuses merged packets of that kind
}

// add takes the i-th packet of the batch.
func (m *merger) add(i int) {
	var s segment
	pkt := m.b.Bytes(i)
	if !s.inspect(pkt) {
		m.flush()
		m.write(i)
		return
	}
	if s.key.udp && m.noUDP || !s.key.udp && m.noTCP {
		s.open = false
	}
	r := m.find(header.FlowHash(pkt), &s, s.open)
	switch {
	case r == nil:
		m.write(i)
	case m.joins(r, &s, pkt):
		m.join(r, &s, i)
	default:
		m.writeRun(r)
		if s.open {
			r.start(&s, i)
		} else {
			m.write(i)
		}
	}
}

// find returns the flow's run. If there is none it makes one, empty, or returns
// nil if it is not to.
func (m *merger) find(hash uint32, s *segment, create bool) *run {
	slot := hash % tableSize
	for ; m.table[slot] != 0; slot = (slot + 1) % tableSize {
		if r := &m.runs[m.table[slot]-1]; r.first.key == s.key {
			return r
		}
	}
	if !create {
		return nil
	}
	if m.n == maxRuns {
		m.flush()
		slot = hash % tableSize
	}
	r := &m.runs[m.n]
	m.n++
	m.table[slot] = uint8(m.n)
	r.first.key, r.count = s.key, 0
	return r
}

// start makes the i-th packet the first of the run.
func (r *run) start(s *segment, i int) {
	*r = run{
		first: *s, at: i, last: i, count: 1, size: s.headLen + s.payload,
		nextSeq: s.seq + uint32(s.payload), push: s.push, closed: s.push,
	}
}

// joins says whether a packet can follow in the run.
func (m *merger) joins(r *run, s *segment, pkt []byte) bool {
	if r.count == 0 || r.closed || !s.open || s.headLen != r.first.headLen ||
		s.payload > r.first.payload || r.size+s.payload > maxMerged || r.count == maxPieces ||
		(!s.key.udp && s.seq != r.nextSeq) {
		return false
	}
	first := m.b.Bytes(r.at)
	if !s.alike(first, pkt, r.count) {
		return false
	}
	if !r.verified {
		r.verified = true
		r.closed = !s.valid(first)
	}
	return !r.closed && s.valid(pkt)
}

// join puts the i-th packet at the end of the run.
func (m *merger) join(r *run, s *segment, i int) {
	m.next[r.last%maxPackets] = uint16(i % maxPackets)
	r.last = i
	r.count++
	r.size += s.payload
	r.nextSeq += uint32(s.payload)
	r.push = s.push
	r.closed = s.push || s.payload < r.first.payload
}

// flush writes every run, in the order in which they began, and forgets them.
func (m *merger) flush() {
	if m.n == 0 {
		return
	}
	for i := range m.n {
		m.writeRun(&m.runs[i])
	}
	m.n = 0
	clear(m.table[:])
}

// writeRun writes what waits in the run, and leaves it empty.
func (m *merger) writeRun(r *run) {
	switch {
	case r.count == 1:
		m.write(r.at)
	case r.count > 1:
		m.writeMerged(r)
	}
	r.count = 0
}

// write writes the i-th packet alone, and gives it up.
func (m *merger) write(i int) bool {
	clear(m.lead[:vnetLen])
	m.vec.reset()
	m.vec.add(m.lead[:vnetLen])
	m.vec.add(m.b.Bytes(i))
	if errno := m.send("write"); errno != 0 {
		m.b.Drop(i, packet.TunWriteFailed)
		return false
	}
	m.b.Release(i)
	return true
}

// send writes the vector, unless the queue has failed already.
func (m *merger) send(what string) unix.Errno {
	if m.err != nil {
		return unix.EBADFD
	}
	for {
		_, errno := m.writev(&m.vec)
		if errno == 0 {
			return 0
		}
		v := judgeWrite(errno)
		if v == gone {
			m.err = failed(what, v, errno)
		}
		if v != again {
			return errno
		}
	}
}

// writeMerged writes the run as one packet. If the kernel refuses that, and not
// because the device is down or gone, the packets go one by one. Some kernels
// answer EINVAL to every merged packet of a kind: if the packets themselves
// pass then, that kind is not tried again.
func (m *merger) writeMerged(r *run) {
	m.vec.reset()
	m.vec.add(m.header(r))
	for n, i := 0, r.at; n < r.count; n, i = n+1, m.after(i) {
		m.vec.add(m.b.Bytes(i)[r.first.headLen:])
	}
	switch errno := m.send("write"); errno {
	case 0:
		m.each(r, (*packet.Batch).Release)
	case unix.EIO, unix.EBADFD, unix.EBADF, unix.ENODEV:
		m.each(r, dropRefused)
	default:
		if passed := m.writeSingly(r); passed && errno == unix.EINVAL {
			m.noUDP = m.noUDP || r.first.key.udp
			m.noTCP = m.noTCP || !r.first.key.udp
		}
	}
}

func dropRefused(b *packet.Batch, i int) { b.Drop(i, packet.TunWriteFailed) }

// after returns the index of the packet behind the i-th in its run.
func (m *merger) after(i int) int { return i - i%maxPackets + int(m.next[i%maxPackets]) }

// each gives up every packet of the run in one way.
func (m *merger) each(r *run, do func(b *packet.Batch, i int)) {
	for n, i := 0, r.at; n < r.count; n++ {
		following := m.after(i)
		do(m.b, i)
		i = following
	}
}

// writeSingly writes the packets of a run one by one, and says whether the
// kernel took them all.
func (m *merger) writeSingly(r *run) bool {
	passed := true
	for n, i := 0, r.at; n < r.count; n++ {
		following := m.after(i)
		passed = m.write(i) && passed
		i = following
	}
	return passed
}

// header builds the headers of the merged packet from those of its first, which
// stay as they are: the packets may yet have to be written one by one.
func (m *merger) header(r *run) []byte {
	s := &r.first
	lead := m.lead[:vnetLen+s.headLen]
	ip := lead[vnetLen:]
	copy(ip, m.b.Bytes(r.at))
	l4Len := r.size - s.l4
	var pseudo uint16
	if s.key.v4 {
		h := header.IPv4(ip)
		h.SetTotalLength(uint16(r.size))
		h.SetChecksum(0)
		h.SetChecksum(^header.Sum(ip[:s.l4], 0))
		pseudo = h.PseudoSum(s.protocol(), l4Len)
	} else {
		h := header.IPv6(ip)
		h.SetPayloadLength(uint16(r.size - header.IPv6Len))
		pseudo = h.PseudoSum(s.protocol(), l4Len)
	}
	fields := vnetFields{hdrLen: s.headLen, gsoSize: s.payload, csumStart: s.l4}
	fields.kind, fields.csumOffs = finishTransport(ip[s.l4:], s, r.push, l4Len, pseudo)
	vnet(lead).encode(fields)
	return lead
}

// finishTransport gives the TCP or UDP header of a merged packet its length,
// flags and pseudo-header sum, which is all of the checksum that the kernel wants.
func finishTransport(b []byte, s *segment, push bool, length int, pseudo uint16) (kind uint8, checksumAt int) {
	if s.key.udp {
		h := header.UDP(b)
		h.SetLength(uint16(length))
		h.SetChecksum(pseudo)
		return unix.VIRTIO_NET_HDR_GSO_UDP_L4, udpChecksum
	}
	h := header.TCP(b)
	h.SetChecksum(pseudo)
	if push {
		h.SetFlags(h.Flags() | header.TCPPsh)
	}
	if s.key.v4 {
		return unix.VIRTIO_NET_HDR_GSO_TCPV4, tcpChecksum
	}
	return unix.VIRTIO_NET_HDR_GSO_TCPV6, tcpChecksum
}
