package gen

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sinkBuffer is what we ask for as receive buffer, bytes. Without privilege the
// kernel gives less (socket(7), rmem_max); with it, this.
const sinkBuffer = 8 << 20

// sink receives a flood on one socket and goroutine.
type sink struct {
	conn      *net.UDPConn
	datagrams datagrams
	flows     []order
	foreign   uint64
	first     time.Time
	last      time.Time

	arrived atomic.Uint64 // first copies so far, for finish to watch
	done    chan struct{}
}

func newSink(ctx context.Context, in Inside, c FloodConfig, d datagrams) (*sink, error) {
	s := &sink{datagrams: d, flows: make([]order, c.Flows), done: make(chan struct{})}
	err := in(func() error {
		conn, err := (&net.ListenConfig{Control: prepareSink}).ListenPacket(ctx, "udp", c.To.String())
		if err == nil {
			s.conn = conn.(*net.UDPConn)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// prepareSink asks for a large buffer, and for runs of datagrams in one piece
// where the kernel has them so: all of ours have one length, so the pieces need
// no further word on where to cut.
func prepareSink(_, _ string, raw syscall.RawConn) error {
	err := raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, sinkBuffer) != nil {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, sinkBuffer)
		}
	})
	if err != nil {
		return err
	}
	return setOption(raw, unix.UDP_GRO, 1)
}

func (s *sink) addr() string { return s.conn.LocalAddr().String() }

func (s *sink) close() { _ = s.conn.Close() }

// run reads until the socket is closed or its deadline has passed.
func (s *sink) run() {
	defer close(s.done)
	buf := make([]byte, 1<<16)
	for {
		n, _, err := s.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		s.last = time.Now()
		if s.first.IsZero() {
			s.first = s.last
		}
		s.take(buf[:n])
	}
}

// take counts the datagrams of one read.
func (s *sink) take(b []byte) {
	var n uint64
	for size := s.datagrams.size(); ; b = b[size:] {
		flow, seq, ok := s.datagrams.get(b[:min(size, len(b))])
		switch {
		case !ok || int(flow) >= len(s.flows):
			s.foreign++
		case s.flows[flow].take(seq):
			n++
		}
		if len(b) <= size {
			break
		}
	}
	s.arrived.Add(n)
}

// finish waits until all that was sent is here, or nothing has come for the
// settling time, and returns the counts.
func (s *sink) finish(sent uint64, settle time.Duration) FloodResult {
	const look = 5 * time.Millisecond
	before, quiet := s.arrived.Load(), time.Duration(0)
	for before < sent && quiet < settle {
		time.Sleep(look)
		quiet += look
		if now := s.arrived.Load(); now != before {
			before, quiet = now, 0
		}
	}
	s.close()
	<-s.done
	res := FloodResult{Foreign: s.foreign, ReceiveTime: s.last.Sub(s.first)}
	for i := range s.flows {
		res.Received += s.flows[i].received
		res.Reordered += s.flows[i].reordered
		res.Duplicates += s.flows[i].duplicates
	}
	return res
}
