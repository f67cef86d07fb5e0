package udpsock

import (
	"bytes"
	"testing"

	"flanx/dataplane/packet"
	"flanx/encap/header"
)

const (
	testTunnel = 22 // VXLAN and Ethernet
	testInner  = 1450
)

// segment builds a datagram that holds a TCP segment with that much payload, its
// checksum left unfinished as a kernel does, or finished.
func segment(payload int, flags uint8, finished bool) []byte {
	b := make([]byte, testTunnel+header.IPv4Len+header.TCPLen+payload)
	for i := range b {
		b[i] = byte(i * 7)
	}
	ip := header.IPv4(b[testTunnel:])
	ip.Encode(header.IPv4Fields{
		TotalLength: uint16(len(ip)), ID: 0xfffe, Fragment: header.IPv4DontFragment, TTL: 64,
		Protocol: header.ProtocolTCP, Src: [4]byte{10, 244, 1, 2}, Dst: [4]byte{10, 244, 2, 3},
	})
	tcp := header.TCP(ip[header.IPv4Len:])
	pseudo := ip.PseudoSum(header.ProtocolTCP, len(tcp))
	tcp.Encode(header.TCPFields{SrcPort: 1, DstPort: 2, Seq: 0xffffff00, Ack: 9, Flags: flags, Window: 99, Checksum: pseudo})
	if finished {
		tcp.SetChecksum(0)
		tcp.SetChecksum(^header.Sum(tcp, pseudo))
	}
	return b
}

func newSuper() *super {
	s := &super{inner: testTunnel, maxInner: testInner}
	s.start()
	return s
}

func (s *super) load(datagram []byte) (packet.Reason, bool) {
	return s.begin(copy(s.data, datagram))
}

// The pieces are sound packets, and make up what was cut.
func TestSuperCuts(t *testing.T) {
	const room = testInner - header.IPv4Len - header.TCPLen
	flags := uint8(header.TCPAck | header.TCPPsh | header.TCPFin | header.TCPCwr)
	for name, payload := range map[string]int{
		"two": room + 1, "exactly two": 2 * room, "one": room, "a byte": 1, "most": 65535 - 40,
	} {
		for _, finished := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				whole := segment(min(payload, superMax-1-testTunnel-40), flags, finished)
				s := newSuper()
				if reason, ok := s.load(whole); !ok {
					t.Fatalf("refused: %s", reason)
				}
				var got []byte
				space := make([]byte, 1792)
				for index := uint16(0); s.pending(); index++ {
					n := s.next(space)
					got = append(got, wantPiece(t, space[:n], index, len(got), s.pending())...)
				}
				if want := whole[testTunnel+40:]; !bytes.Equal(got, want) {
					t.Errorf("%d bytes of payload came out changed, of %d", len(got), len(want))
				}
			})
		}
	}
}

// wantPiece checks one piece and returns its payload.
func wantPiece(t *testing.T, b []byte, index uint16, at int, more bool) []byte {
	t.Helper()
	ip := header.IPv4(b[testTunnel:])
	if len(ip) > testInner || ip.TotalLength() != len(ip) || !ip.ValidChecksum(header.IPv4Len) || ip.ID() != 0xfffe+index {
		t.Errorf("piece %d: IP header of %d bytes, ID %#x, checksum ok: %v", index, ip.TotalLength(), ip.ID(), ip.ValidChecksum(header.IPv4Len))
	}
	tcp := header.TCP(ip[header.IPv4Len:])
	if !header.Valid(tcp, ip.PseudoSum(header.ProtocolTCP, len(tcp))) || tcp.Seq() != 0xffffff00+uint32(at) {
		t.Errorf("piece %d: sequence number %#x, checksum %#x", index, tcp.Seq(), tcp.Checksum())
	}
	want := uint8(header.TCPAck)
	if index == 0 {
		want |= header.TCPCwr
	}
	if !more {
		want |= header.TCPPsh | header.TCPFin
	}
	if tcp.Flags() != want {
		t.Errorf("piece %d: flags %#x, want %#x", index, tcp.Flags(), want)
	}
	for i, v := range b[:testTunnel] {
		if v != byte(i*7) {
			t.Errorf("piece %d: tunnel header changed", index)
			break
		}
	}
	return tcp[header.TCPLen:]
}

func TestSuperRefuses(t *testing.T) {
	bend := func(f func(ip header.IPv4)) []byte {
		b := segment(4000, header.TCPAck, false)
		f(b[testTunnel:])
		return b
	}
	fix := func(ip header.IPv4) {
		ip.SetChecksum(0)
		ip.SetChecksum(^header.Sum(ip[:header.IPv4Len], 0))
	}
	for name, tt := range map[string]struct {
		datagram []byte
		reason   packet.Reason
	}{
		"nothing":             {nil, packet.Truncated},
		"a tunnel header":     {make([]byte, testTunnel+19), packet.Truncated},
		"IPv6":                {bend(func(ip header.IPv4) { ip[0] = 0x60 }), packet.Truncated},
		"a short header":      {bend(func(ip header.IPv4) { ip[0] = 0x44 }), packet.Truncated},
		"cut off":             {segment(4000, header.TCPAck, false)[:3000], packet.Truncated},
		"bad IP checksum":     {bend(func(ip header.IPv4) { ip.SetChecksum(ip.Checksum() ^ 1) }), packet.Truncated},
		"UDP":                 {bend(func(ip header.IPv4) { ip[9] = header.ProtocolUDP; fix(ip) }), packet.Truncated},
		"a fragment":          {bend(func(ip header.IPv4) { ip[6] = 0x20; fix(ip) }), packet.Truncated},
		"bad TCP offset":      {bend(func(ip header.IPv4) { ip[32] = 0x40 }), packet.Truncated},
		"SYN":                 {segment(4000, header.TCPSyn, false), packet.Truncated},
		"urgent":              {segment(4000, header.TCPAck|header.TCPUrg, false), packet.Truncated},
		"changed on the way":  {bend(func(ip header.IPv4) { ip[36]++ }), packet.BadChecksum},
		"no payload but long": {segment(0, header.TCPAck, false), packet.Truncated},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuper()
			if reason, ok := s.load(tt.datagram); ok || reason != tt.reason || s.pending() {
				t.Errorf("accepted: %v, reason %s, want %s", ok, reason, tt.reason)
			}
		})
	}
}

func TestSuperDoesNotFit(t *testing.T) {
	s := newSuper()
	if _, ok := s.load(segment(4000, header.TCPAck, false)); !ok {
		t.Fatal("refused")
	}
	if n := s.next(make([]byte, testInner)); n != 0 {
		t.Errorf("wrote %d bytes where fewer fit", n)
	}
}

func TestSuperAllocatesNothing(t *testing.T) {
	s, whole, space := newSuper(), segment(60000, header.TCPAck, false), make([]byte, 1792)
	if n := testing.AllocsPerRun(10, func() {
		s.load(whole)
		for s.pending() {
			s.next(space)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever comes: no panic, no piece longer than allowed, an end.
func FuzzSuper(f *testing.F) {
	f.Add(segment(4000, header.TCPAck, false), 1792)
	f.Add(segment(4000, header.TCPAck, true), 100)
	f.Add(segment(1, header.TCPAck, false)[:30], 60)
	f.Fuzz(func(t *testing.T, datagram []byte, size int) {
		if len(datagram) > superMax {
			return
		}
		s := newSuper()
		space := make([]byte, min(max(size, 0), 1<<16))
		if _, ok := s.load(datagram); !ok {
			return
		}
		for pieces := 0; s.pending(); pieces++ {
			n := s.next(space)
			if n == 0 {
				return
			}
			if n > testTunnel+testInner || pieces > len(datagram) {
				t.Fatalf("piece %d of %d bytes", pieces, n)
			}
		}
	})
}
