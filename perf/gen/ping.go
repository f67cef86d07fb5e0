package gen

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"
)

// PingConfig says whom to ping, and how. Zero values take the defaults.
type PingConfig struct {
	From, To netip.Addr
	Count    int           // 1 to 65,535; default 1
	Interval time.Duration // from one request to the next; default 10 ms
	Timeout  time.Duration // to wait after the last request; default 1 s
	Size     int           // payload bytes after the ICMP header, 8 to 65,000; default 56
}

func (c *PingConfig) complete() error {
	setDefault(&c.Count, 1)
	setDefault(&c.Interval, 10*time.Millisecond)
	setDefault(&c.Timeout, time.Second)
	setDefault(&c.Size, 56)
	switch {
	case !c.From.IsValid() || !c.To.IsValid() || c.From.Is4() != c.To.Is4():
		return fmt.Errorf("ping from %s to %s: want two addresses of one family", c.From, c.To)
	case c.Count < 0 || c.Count > 65535:
		return fmt.Errorf("ping %s: count %d is not 1 to 65535", c.To, c.Count)
	case c.Size < tokenBytes || c.Size > 65000:
		return fmt.Errorf("ping %s: size %d is not %d to 65000", c.To, c.Size, tokenBytes)
	}
	return nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// PingResult tells what came back.
type PingResult struct {
	Sent, Received int
	Duplicates     int             // replies beyond the first to a request
	RTT            []time.Duration // of the first replies, in the order they came
}

// OK says that every request was answered, once.
func (r PingResult) OK() bool {
	return r.Sent > 0 && r.Received == r.Sent && r.Duplicates == 0
}

// MedianRTT returns 0 if nothing came back.
func (r PingResult) MedianRTT() time.Duration {
	if len(r.RTT) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.RTT))
	return sorted[len(sorted)/2]
}

// Ping sends ICMP echo requests and waits for the replies. Silence is no error,
// it shows in the result; an error is a request that could not be sent at all
// (no such source address, no route). It needs CAP_NET_RAW.
func Ping(ctx context.Context, in Inside, c PingConfig) (PingResult, error) {
	if err := c.complete(); err != nil {
		return PingResult{}, err
	}
	p := &pinger{PingConfig: c, echo: echo{echoRequest4, echoReply4, uint16(rand.Uint32()), rand.Uint64()}}
	network := "ip4:icmp"
	if c.To.Is6() {
		p.echo.request, p.echo.reply = echoRequest6, echoReply6
		network = "ip6:ipv6-icmp"
	}
	err := in(func() (err error) {
		p.conn, err = (&net.ListenConfig{}).ListenPacket(ctx, network, c.From.String())
		return err
	})
	if err != nil {
		return PingResult{}, fmt.Errorf("ping from %s: %w", c.From, err)
	}
	defer p.conn.Close()
	defer endReadsWith(ctx, p.conn)()
	return p.run(ctx)
}

// endReadsWith makes conn's reads fail when ctx ends. The function that it
// returns undoes that.
func endReadsWith(ctx context.Context, conn interface{ SetReadDeadline(time.Time) error }) func() bool {
	return context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
}

type pinger struct {
	PingConfig
	conn net.PacketConn
	echo echo
	sent []time.Time // by sequence number
	seen []bool
	res  PingResult
}

const maxIPv4Header = 60

// run alternates between sending when it is time to, and reading until then.
func (p *pinger) run(ctx context.Context) (PingResult, error) {
	p.seen = make([]bool, p.Count)
	out := payload(p.echo.token, echoHeader+p.Size)
	// One byte more than a reply, to see longer ones for what they are; and IPv4's
	// header, which a raw socket delivers and net takes off.
	in := make([]byte, maxIPv4Header+echoHeader+p.Size+1)
	start := time.Now()
	for p.res.Sent < p.Count {
		p.echo.put(out, uint16(p.res.Sent))
		p.sent = append(p.sent, time.Now())
		if _, err := p.conn.WriteTo(out, &net.IPAddr{IP: p.To.AsSlice(), Zone: p.To.Zone()}); err != nil {
			return p.res, fmt.Errorf("ping %s: %w", p.To, err)
		}
		p.res.Sent++
		wait := start.Add(time.Duration(p.res.Sent) * p.Interval)
		if p.res.Sent == p.Count {
			wait = time.Now().Add(p.Timeout)
		}
		if err := p.collect(ctx, in, wait); err != nil {
			return p.res, err
		}
	}
	return p.res, nil
}

// collect reads replies until the deadline, or until the last one is here.
func (p *pinger) collect(ctx context.Context, buf []byte, deadline time.Time) error {
	if err := p.conn.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("ping %s: %w", p.To, err)
	}
	for p.res.Received < p.Count {
		if err := ctx.Err(); err != nil { // looked at after the deadline was set: never overwritten
			return fmt.Errorf("ping %s: %w", p.To, err)
		}
		n, from, err := p.conn.ReadFrom(buf)
		if isTimeout(err) {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("ping %s: %w", p.To, err)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("ping %s: %w", p.To, err)
		}
		p.take(buf[:n], from, time.Now())
	}
	return nil
}

// take counts a reply. Others' messages, which a raw socket gets too, it ignores.
func (p *pinger) take(b []byte, from net.Addr, now time.Time) {
	seq, ok := p.echo.get(b)
	ip, isIP := from.(*net.IPAddr)
	if !ok || !isIP || len(b) != echoHeader+p.Size || int(seq) >= p.res.Sent || !ip.IP.Equal(p.To.AsSlice()) {
		return
	}
	if p.seen[seq] {
		p.res.Duplicates++
		return
	}
	p.seen[seq] = true
	p.res.Received++
	p.res.RTT = append(p.res.RTT, now.Sub(p.sent[seq]))
}
