package host

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/perf/lab"
)

const (
	segments    = 40
	segmentSize = 1000
	bursts      = 25
)

// sendSuperPackets has the peer's stack send bursts of numbered segments, each
// burst as one packet of 40 kB if its device promises to segment (UDP_SEGMENT,
// udp(7)).
func (l *xskLab) sendSuperPackets() {
	l.tb.Helper()
	conn := l.listen(l.peer, l.peer.Addr())
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		l.tb.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segmentSize)
	}); cerr != nil || err != nil {
		l.tb.Fatal(cerr, err)
	}
	payload := make([]byte, segments*segmentSize)
	for burst := range bursts {
		for s := range segments {
			binary.BigEndian.PutUint32(payload[s*segmentSize:], uint32(burst*segments+s))
		}
		write(l.tb, conn, l.us.Addr(), payload)
		time.Sleep(2 * time.Millisecond) // not to overrun the receiver's ring
	}
}

// drain reads datagrams until none comes for a while.
func drain(tb testing.TB, conn *net.UDPConn) (got [][]byte) {
	tb.Helper()
	buf := make([]byte, 1<<16)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		n, err := conn.Read(buf)
		if err != nil {
			return got
		}
		got = append(got, append([]byte(nil), buf[:n]...))
	}
}

// TestSuperPacketsAreNotLost: whatever is granted on whatever wire, each segment
// that a GSO-sending peer sends arrives once, on the AF_XDP port or, where it
// could not be redirected, on the UDP socket beside it.
func TestSuperPacketsAreNotLost(t *testing.T) {
	cases := map[string]struct {
		wire    lab.Wire
		rung    Rung
		promise bool // which the peer then breaks
		onPort  bool // all of them, or none
	}{
		"wire, native":                      {lab.Wire{}, Native, false, true},
		"wire, generic":                     {lab.Wire{}, Generic, false, true},
		"default veth, auto":                {lab.Wire{Offloads: true}, Auto, false, true},
		"default veth, native":              {lab.Wire{Offloads: true}, Native, false, true},
		"default veth, generic on promise":  {lab.Wire{Offloads: true}, Generic, true, false},
		"default veth, generic, 4 KiB size": {lab.Wire{Offloads: true, MTU: 3000}, Generic, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l := newXSKLab(t, c.wire)
			cfg := l.config()
			cfg.Frames, cfg.WireSized = 4096, c.promise
			beside := l.listen(l.us, l.us.Addr())
			_ = beside.SetReadBuffer(8 << 20)
			g, err := l.climb(cfg, c.rung)
			if err != nil {
				t.Fatal(err)
			}
			l.sendSuperPackets()
			onPort := collect(t, g.XSK.Ports[0], segments*bursts, 500*time.Millisecond)
			onSocket := drain(t, beside)
			for i, frame := range onPort {
				onPort[i] = frame[14+20+8:]
			}
			checkSegments(t, append(onPort, onSocket...))
			if wantPort := map[bool]int{true: segments * bursts}[c.onPort]; len(onPort) != wantPort {
				st, err := g.XSK.Ports[0].Statistics()
				t.Errorf("%d segments on the port, %d on the socket; want %d on the port; %+v, %v", len(onPort), len(onSocket), wantPort, st, err)
			}
		})
	}
}

func checkSegments(t *testing.T, got [][]byte) {
	t.Helper()
	seen := map[uint32]int{}
	for _, s := range got {
		if len(s) != segmentSize {
			t.Fatalf("a segment of %d bytes", len(s))
		}
		seen[binary.BigEndian.Uint32(s)]++
	}
	for n := range uint32(segments * bursts) {
		if seen[n] != 1 {
			t.Errorf("segment %d arrived %d times (of %d segments)", n, seen[n], len(got))
			return
		}
	}
}

// TestWarningIsTrue: where there is a warning checksums do arrive unfinished,
// and where there is none they arrive complete.
func TestWarningIsTrue(t *testing.T) {
	for name, wire := range map[string]lab.Wire{"wire": {}, "default veth": {Offloads: true}} {
		t.Run(name, func(t *testing.T) {
			l := newXSKLab(t, wire)
			x := l.open(l.config(), Native)
			conn := l.listen(l.peer, l.peer.Addr())
			write(t, conn, l.us.Addr(), []byte("does its checksum hold?"))
			got := collect(t, x.Ports[0], 1, xskPatience)
			if len(got) != 1 {
				t.Fatal("nothing received")
			}
			if warned, ok := len(x.Warnings()) > 0, udpChecksumOK(got[0]); warned == ok {
				t.Errorf("checksum holds: %v; warnings %q", ok, x.Warnings())
			}
		})
	}
}
