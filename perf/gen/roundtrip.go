package gen

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// RoundTripConfig says how to bounce one datagram at a time between two ends.
type RoundTripConfig struct {
	From, To netip.Addr    // IPv4
	Size     int           // bytes of UDP payload, 8 to 1,400; default 18
	Duration time.Duration // default 1 s
	Gap      time.Duration // pause between round trips; 0: back to back
	CPUs     [2]int        // where the two ends are pinned, counted from 1; 0: not pinned
}

// RoundTripResult holds every round trip in the order of sending. The clock is
// CLOCK_MONOTONIC, read at the asking end only.
type RoundTripResult struct {
	Lost int // no answer within the time-out
	RTT  []time.Duration
}

// roundTripTimeout is how long an answer may take before it counts as lost.
const roundTripTimeout = 100 * time.Millisecond

// RoundTrip asks and answers on blocking sockets, each on a thread of its own:
// Go's poller would add more than most paths take. Each request carries a number
// (its tag, as RFC 8219 section 7.2 wants), so that a late answer passes for no other.
func RoundTrip(ctx context.Context, from, to Inside, c RoundTripConfig) (RoundTripResult, error) {
	setDefault(&c.Size, 18)
	setDefault(&c.Duration, time.Second)
	if !c.From.Is4() || !c.To.Is4() || c.Size < 8 || c.Size > 1400 || c.Duration < 0 {
		return RoundTripResult{}, fmt.Errorf("bounce from %s to %s: want two IPv4 addresses and 8 to 1400 bytes", c.From, c.To)
	}
	server, err := bound(to, c.To)
	if err != nil {
		return RoundTripResult{}, fmt.Errorf("bounce at %s: %w", c.To, err)
	}
	client, err := bound(from, c.From)
	if err != nil {
		_ = unix.Close(server)
		return RoundTripResult{}, fmt.Errorf("bounce from %s: %w", c.From, err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- pinned(c.CPUs[1], func() error { return echoAll(server, c.Size, stop) }) }()
	var res RoundTripResult
	asked := make(chan error, 1)
	go func() { asked <- pinned(c.CPUs[0], func() error { return res.ask(ctx, client, server, c) }) }()
	err = <-asked
	close(stop)
	err = errors.Join(err, <-done)
	_, _ = unix.Close(client), unix.Close(server)
	if err != nil {
		return res, fmt.Errorf("bounce from %s to %s: %w", c.From, c.To, err)
	}
	return res, nil
}

// bound opens a blocking socket with a time-out on any free port.
func bound(in Inside, a netip.Addr) (fd int, err error) {
	err = in(func() error {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		tv := unix.NsecToTimeval(roundTripTimeout.Nanoseconds())
		err = errors.Join(
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
			unix.Bind(fd, &unix.SockaddrInet4{Addr: a.As4()}),
		)
		if err != nil {
			_ = unix.Close(fd)
		}
		return err
	})
	return fd, err
}

// pinned runs fn on a thread of its own that ends with it, so that no other
// goroutine inherits its CPU.
func pinned(cpu int, fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread goes with the goroutine
		if cpu > 0 {
			var set unix.CPUSet
			set.Set(cpu - 1)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				result <- fmt.Errorf("pin to CPU %d: %w", cpu-1, err)
				return
			}
		}
		result <- fn()
	}()
	return <-result
}

func echoAll(fd, size int, stop <-chan struct{}) error {
	buf := make([]byte, size+1)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if err := unix.Sendto(fd, buf[:n], 0, from); err != nil {
			return err
		}
	}
}

func (r *RoundTripResult) ask(ctx context.Context, fd, server int, c RoundTripConfig) error {
	to, err := unix.Getsockname(server)
	if err != nil {
		return err
	}
	out, in := payload(2, c.Size), make([]byte, c.Size+1)
	end := time.Now().Add(c.Duration)
	for tag := uint64(1); ; tag++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		sent := time.Now()
		if sent.After(end) {
			return nil
		}
		binary.BigEndian.PutUint64(out, tag)
		if err := unix.Sendto(fd, out, 0, to); err != nil {
			return err
		}
		ok, err := answered(fd, in, tag)
		if err != nil {
			return err
		}
		if ok {
			r.RTT = append(r.RTT, time.Since(sent))
		} else {
			r.Lost++
		}
		if c.Gap > 0 {
			time.Sleep(c.Gap)
		}
	}
}

// answered waits for the answer with that tag and passes over older ones.
func answered(fd int, buf []byte, tag uint64) (bool, error) {
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err != nil:
			return false, err
		}
		if n == len(buf)-1 && binary.BigEndian.Uint64(buf) == tag {
			return true, nil
		}
	}
}
