package gen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// StreamConfig says how many TCP connections to fill, and for how long.
type StreamConfig struct {
	From, To netip.AddrPort // port 0: any that is free
	Streams  int            // 1 to 64; default 1
	Duration time.Duration  // of sending; default 1 s
}

// StreamResult is what the receiver counted.
type StreamResult struct {
	Bytes   int64
	Elapsed time.Duration // from the first write until the last byte was read
}

// BitsPerSecond returns the throughput of payload of all streams together.
func (r StreamResult) BitsPerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Bytes) * 8 / r.Elapsed.Seconds()
}

// Stream fills TCP connections for a while and counts at the receiver. Contents
// are not looked at: Transfer does that.
func Stream(ctx context.Context, from, to Inside, c StreamConfig) (StreamResult, error) {
	setDefault(&c.Streams, 1)
	setDefault(&c.Duration, time.Second)
	if c.Streams < 1 || c.Streams > 64 || c.Duration < 0 {
		return StreamResult{}, fmt.Errorf("stream to %s: %d streams for %s: want 1 to 64 and a positive time", c.To, c.Streams, c.Duration)
	}
	var pairs []*transfer
	defer func() {
		for _, t := range pairs {
			_ = t.out.Close()
			_ = t.in.Close()
		}
	}()
	for range c.Streams {
		t := &transfer{TransferConfig: TransferConfig{From: c.From, To: c.To}}
		if err := t.connect(ctx, from, to); err != nil {
			return StreamResult{}, fmt.Errorf("connect %s to %s: %w", c.From, c.To, because(ctx, err))
		}
		pairs = append(pairs, t)
		defer context.AfterFunc(ctx, t.abort)()
	}
	res, err := fill(pairs, c.Duration)
	if err != nil {
		return res, fmt.Errorf("stream from %s to %s: %w", c.From, c.To, because(ctx, err))
	}
	return res, nil
}

// fill sends on all connections at once until the time is over, then reads what
// is still under way.
func fill(pairs []*transfer, d time.Duration) (StreamResult, error) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		res  StreamResult
		errs []error
	)
	start := time.Now()
	for _, t := range pairs {
		wg.Add(2)
		go func() {
			defer wg.Done()
			if err := pour(t.out, start.Add(d)); err != nil {
				t.abort() // or the receiver would wait for ever
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		}()
		go func() {
			defer wg.Done()
			// Not io.Copy to io.Discard: its buffer is 8 KiB, a system call for each.
			n, err := drain(t.in)
			mu.Lock()
			defer mu.Unlock()
			res.Bytes += n
			errs = append(errs, err)
		}()
	}
	wg.Wait()
	res.Elapsed = time.Since(start)
	return res, errors.Join(errs...)
}

const streamChunk = 256 << 10

// pour writes until the deadline, then the end of the stream. A connection that
// takes nothing any more ends with the deadline, and a grace beyond it.
func pour(conn net.Conn, deadline time.Time) error {
	const grace = 5 * time.Second
	if err := conn.SetDeadline(deadline.Add(grace)); err != nil {
		return err
	}
	buf := payload(1, streamChunk)
	for time.Now().Before(deadline) {
		if _, err := conn.Write(buf); err != nil {
			return err
		}
	}
	return conn.(*net.TCPConn).CloseWrite()
}

func drain(conn net.Conn) (n int64, err error) {
	buf := make([]byte, streamChunk)
	for {
		m, err := conn.Read(buf)
		n += int64(m)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
