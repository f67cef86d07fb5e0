package gen

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

// maxTransfer bounds the memory of one transfer: both ends hold all of it.
const maxTransfer = 1 << 30

// TransferConfig says what to move over TCP, and between which addresses.
type TransferConfig struct {
	From, To netip.AddrPort // port 0: any that is free
	Bytes    int            // 1 to 1 GiB
	Seed     uint64

	// Progress, if set, is called now and then with the bytes received so far,
	// from the receiving goroutine.
	Progress func(received int)
}

// TransferResult tells what arrived.
type TransferResult struct {
	Bytes          int           // received
	Elapsed        time.Duration // from the first write until the last byte was read
	Sent, Received [sha256.Size]byte
}

// Intact says that what was received is what was sent.
func (r TransferResult) Intact() bool { return r.Bytes > 0 && r.Sent == r.Received }

// BitsPerSecond returns the throughput of payload.
func (r TransferResult) BitsPerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Bytes) * 8 / r.Elapsed.Seconds()
}

// Transfer opens one TCP connection from one end to the other and moves
// pseudo-random bytes through it. Making and hashing them is outside the timed
// part. It ends with an error if the connection breaks or ctx ends before the
// last byte has arrived; bytes that arrive changed are no error, but not Intact.
func Transfer(ctx context.Context, from, to Inside, c TransferConfig) (TransferResult, error) {
	if c.Bytes < 1 || c.Bytes > maxTransfer {
		return TransferResult{}, fmt.Errorf("transfer %d bytes: want 1 to %d", c.Bytes, maxTransfer)
	}
	t := transfer{TransferConfig: c, data: payload(c.Seed, c.Bytes), got: make([]byte, c.Bytes)}
	if err := t.connect(ctx, from, to); err != nil {
		return TransferResult{}, fmt.Errorf("connect %s to %s: %w", c.From, c.To, because(ctx, err))
	}
	defer t.out.Close()
	defer t.in.Close()
	defer context.AfterFunc(ctx, t.abort)()
	n, elapsed, err := t.run()
	if err != nil {
		return TransferResult{}, fmt.Errorf("transfer from %s to %s: after %d of %d bytes: %w",
			c.From, c.To, n, c.Bytes, because(ctx, err))
	}
	return TransferResult{
		Bytes: n, Elapsed: elapsed,
		Sent: sha256.Sum256(t.data), Received: sha256.Sum256(t.got),
	}, nil
}

type transfer struct {
	TransferConfig
	data, got []byte
	out, in   net.Conn
}

// connect makes the connection: out is the sender's end, in the receiver's.
func (t *transfer) connect(ctx context.Context, from, to Inside) error {
	var ln net.Listener
	err := to(func() (err error) {
		ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", t.To.String())
		return err
	})
	if err != nil {
		return err
	}
	defer ln.Close()
	err = from(func() (err error) {
		dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(t.From)}
		t.out, err = dialer.DialContext(ctx, "tcp", ln.Addr().String())
		return err
	})
	if err != nil {
		return err
	}
	if t.in, err = accept(ctx, ln.(*net.TCPListener), t.out.LocalAddr()); err != nil {
		_ = t.out.Close()
	}
	return err
}

// accept waits for the connection from peer, and turns others away.
func accept(ctx context.Context, ln *net.TCPListener, peer net.Addr) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { _ = ln.SetDeadline(time.Unix(1, 0)) })()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return nil, err
		}
		if conn.RemoteAddr().String() == peer.String() {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func (t *transfer) abort() {
	_ = t.out.SetDeadline(time.Unix(1, 0))
	_ = t.in.SetDeadline(time.Unix(1, 0))
}

// run sends on one goroutine and receives on this one.
func (t *transfer) run() (n int, elapsed time.Duration, err error) {
	sent := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := t.out.Write(t.data)
		if err == nil {
			err = t.out.(*net.TCPConn).CloseWrite()
		}
		sent <- err
	}()
	n, err = t.receive()
	elapsed = time.Since(start)
	if err != nil {
		t.abort() // or the sender would wait for a window for ever
	}
	return n, elapsed, errors.Join(err, <-sent)
}

// receive reads exactly what was promised, and then the end.
func (t *transfer) receive() (n int, err error) {
	const step = 1 << 20
	for n < len(t.got) {
		m, err := io.ReadFull(t.in, t.got[n:min(n+step, len(t.got))])
		n += m
		if err != nil {
			return n, err
		}
		if t.Progress != nil {
			t.Progress(n)
		}
	}
	if m, err := t.in.Read(make([]byte, 1)); m > 0 || !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("want the end after %d bytes, got %d more: %w", n, m, errors.Join(err, io.ErrShortBuffer))
	}
	return n, nil
}

// because returns the context's error where that is what made err: a socket's
// deadline, taken from the context, may pass a moment before the context ends.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if end, ok := ctx.Deadline(); ok && isTimeout(err) && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return err
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
