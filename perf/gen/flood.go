package gen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// FloodConfig says which datagrams to send. Zero values take the defaults.
type FloodConfig struct {
	From, To netip.AddrPort // port 0: any that is free
	Size     int            // bytes of UDP payload, 16 to 65,000; default 18 (a 60-byte frame)
	Rate     float64        // datagrams per second; 0: as fast as the socket takes them
	Duration time.Duration  // of sending; default 1 s
	Flows    int            // source ports, 1 to 1,024, served in turn; default 1
	Burst    int            // datagrams of one flow per system call, by UDP_SEGMENT; 1 to 64; default 1
	Settle   time.Duration  // how long nothing must arrive before the sink gives up; default 200 ms
	Seed     uint64
}

func (c *FloodConfig) complete() error {
	setDefault(&c.Size, 18)
	setDefault(&c.Duration, time.Second)
	setDefault(&c.Flows, 1)
	setDefault(&c.Burst, 1)
	setDefault(&c.Settle, 200*time.Millisecond)
	for _, v := range []struct {
		name           string
		value, low, up int
	}{
		{"size", c.Size, minDatagram, 65000},
		{"flows", c.Flows, 1, 1024},
		{"burst", c.Burst, 1, 64}, // UDP_MAX_SEGMENTS of older kernels (linux/udp.h)
		{"bytes of a burst", c.Burst * c.Size, 1, 65000},
	} {
		if v.value < v.low || v.value > v.up {
			return fmt.Errorf("flood %s: %s %d is not %d to %d", c.To, v.name, v.value, v.low, v.up)
		}
	}
	if c.Rate < 0 || c.Duration < 0 {
		return fmt.Errorf("flood %s: rate %g or duration %s is negative", c.To, c.Rate, c.Duration)
	}
	return nil
}

// FloodResult adds up: Sent = Received + Lost, unless datagrams older than the
// sink's memory (65,536 per flow) came twice.
type FloodResult struct {
	Sent       uint64 // taken by the socket
	Refused    uint64 // not taken: full queue, or an ICMP error came back
	Received   uint64 // first copies, unchanged
	Lost       uint64
	Reordered  uint64 // of those received, came after a later one of its flow
	Duplicates uint64
	Foreign    uint64 // arrived, but changed or not ours

	SendTime    time.Duration // from the first to after the last system call
	ReceiveTime time.Duration // from the first to the last arrival
}

// SendRate returns datagrams per second.
func (r FloodResult) SendRate() float64 { return perSecond(r.Sent, r.SendTime) }

// ReceiveRate returns datagrams per second, counted at the receiver.
func (r FloodResult) ReceiveRate() float64 { return perSecond(r.Received, r.ReceiveTime) }

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Flood sends numbered datagrams from one end and counts them at the other. Loss
// is no error, it shows in the result. When ctx ends early the result covers
// what was sent until then, and the error is ctx's.
func Flood(ctx context.Context, from, to Inside, c FloodConfig) (FloodResult, error) {
	if err := c.complete(); err != nil {
		return FloodResult{}, err
	}
	d := newDatagrams(c.Seed, c.Size)
	sk, err := newSink(ctx, to, c, d)
	if err != nil {
		return FloodResult{}, fmt.Errorf("listen on %s: %w", c.To, err)
	}
	src, err := newSource(ctx, from, c, d, sk.addr())
	if err != nil {
		sk.close()
		return FloodResult{}, fmt.Errorf("flood from %s to %s: %w", c.From, c.To, err)
	}
	go sk.run()
	sendErr := src.run(ctx)
	src.close()
	res := sk.finish(src.sent, c.Settle)
	res.Sent, res.Refused, res.SendTime = src.sent, src.refused, src.elapsed
	if res.Sent > res.Received {
		res.Lost = res.Sent - res.Received
	}
	if sendErr != nil {
		return res, fmt.Errorf("flood from %s to %s: %w", c.From, c.To, sendErr)
	}
	return res, nil
}

// source owns one connected socket per flow.
type source struct {
	FloodConfig
	datagrams datagrams
	conns     []*net.UDPConn
	next      []uint64 // sequence number per flow

	sent, refused uint64
	elapsed       time.Duration
}

func newSource(ctx context.Context, in Inside, c FloodConfig, d datagrams, to string) (*source, error) {
	s := &source{FloodConfig: c, datagrams: d, next: make([]uint64, c.Flows)}
	err := in(func() error {
		for i := range c.Flows {
			local := c.From
			if local.Port() != 0 {
				local = netip.AddrPortFrom(local.Addr(), local.Port()+uint16(i))
			}
			dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(local), Control: c.segment}
			conn, err := dialer.DialContext(ctx, "udp", to)
			if err != nil {
				return err
			}
			s.conns = append(s.conns, conn.(*net.UDPConn))
		}
		return nil
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// segment makes the kernel cut what is written into datagrams (udp(7)).
func (c FloodConfig) segment(_, _ string, raw syscall.RawConn) error {
	if c.Burst == 1 {
		return nil
	}
	return setOption(raw, unix.UDP_SEGMENT, c.Size)
}

func setOption(raw syscall.RawConn, option, value int) error {
	var errno error
	err := raw.Control(func(fd uintptr) { errno = unix.SetsockoptInt(int(fd), unix.SOL_UDP, option, value) })
	return errors.Join(err, errno)
}

func (s *source) close() {
	for _, c := range s.conns {
		_ = c.Close()
	}
}

// run sends burst after burst, each at its time counted from the start: a late
// one is not made up for by slowing down the rest.
func (s *source) run(ctx context.Context) error {
	buf := make([]byte, s.Burst*s.Size)
	for i := range s.Burst {
		s.datagrams.fill(buf[i*s.Size : (i+1)*s.Size])
	}
	start := time.Now()
	defer func() { s.elapsed = time.Since(start) }()
	for i := 0; ; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		due := s.due(i)
		now := time.Since(start)
		if due >= s.Duration || now >= s.Duration {
			return nil
		}
		if now < due {
			time.Sleep(due - now)
		}
		if err := s.burst(i%s.Flows, buf); err != nil {
			return err
		}
	}
}

// due says when burst number i is to be sent, after the start.
func (s *source) due(i int) time.Duration {
	if s.Rate == 0 {
		return 0
	}
	return time.Duration(float64(i*s.Burst) / s.Rate * float64(time.Second))
}

func (s *source) burst(flow int, buf []byte) error {
	for i := range s.Burst {
		s.datagrams.put(buf[i*s.Size:], uint16(flow), s.next[flow]+uint64(i))
	}
	_, err := s.conns[flow].Write(buf)
	switch {
	case err == nil:
		s.sent += uint64(s.Burst)
		s.next[flow] += uint64(s.Burst)
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ECONNREFUSED),
		errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		s.refused += uint64(s.Burst)
	default:
		return err
	}
	return nil
}
