package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// heartbeat bounds one sleep, so that a worker without traffic still shows
// progress to whoever watches its Turns.
const heartbeat = time.Second

// stuckTries is how many sleeps in a row wait for a full port to be writable.
const stuckTries = 4

// waiter is the one blocking call of a worker: ppoll on every port, and on an
// eventfd that Stop writes to.
type waiter struct {
	fds  [4]unix.PollFd
	n    int
	stop int
}

func newWaiter() (*waiter, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create stop eventfd: %w", err)
	}
	return &waiter{stop: fd}, nil
}

// reset forgets all descriptors but the stop event's.
func (p *waiter) reset() {
	p.fds[0] = unix.PollFd{Fd: int32(p.stop), Events: unix.POLLIN}
	p.n = 1
}

// add waits for events on a port's descriptor; a port without one (-1), or
// nothing to wait for, is left out.
func (p *waiter) add(fd int, events int16) {
	if fd < 0 || events == 0 {
		return
	}
	p.fds[p.n] = unix.PollFd{Fd: int32(fd), Events: events}
	p.n++
}

// forgetWritable leaves only what there is to read to wait for.
func (p *waiter) forgetWritable() {
	for i := range p.fds[:p.n] {
		p.fds[i].Events &^= unix.POLLOUT
	}
}

// block sleeps until a descriptor is ready or the time is over.
func (p *waiter) block(limit time.Duration) error {
	timeout := unix.NsecToTimespec(int64(limit))
	_, err := unix.Ppoll(p.fds[:p.n], &timeout, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("poll ports: %w", err)
	}
	return nil
}

// wake ends block, now or the next time.
func (p *waiter) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(p.stop, one[:]) // fails only when it is already awake
}

func (p *waiter) close() error { return unix.Close(p.stop) }

// sleep waits until a port has something, or has room again. A side whose far
// port is full is not waited for: its packets stay with the kernel.
func (w *Worker) sleep() error {
	w.stats.Waits.Store(w.stats.Waits.Load() + 1)
	tunEvents, inEvents := int16(unix.POLLIN), int16(unix.POLLIN)
	if w.primary.Port.Room() == 0 {
		tunEvents = 0
	}
	if w.cfg.TUN.Room() == 0 {
		tunEvents |= unix.POLLOUT
		inEvents = 0
	}
	w.wait.reset()
	w.wait.add(w.cfg.TUN.FD(), tunEvents)
	if w.cfg.Fast != nil {
		w.wait.add(w.cfg.Fast.Port.FD(), inEvents|writable(w.cfg.Fast.Port))
	}
	w.wait.add(w.cfg.Fallback.Port.FD(), inEvents|writable(w.cfg.Fallback.Port))
	return w.wait.block(w.patience())
}

// stuckSleep is how long a worker whose underlay stays full sleeps without
// waiting for room: an AF_XDP socket says that it is writable while half of its
// ring is free, also when the rest does not move.
const stuckSleep = time.Millisecond

// patience bounds a sleep. A full port is flushed anew after a while, whatever
// its descriptor says; one that stays full is not asked at every turn.
func (w *Worker) patience() time.Duration {
	if w.primary.Port.Room() > 0 {
		w.stuck = 0
		return heartbeat
	}
	if w.stuck++; w.stuck <= stuckTries {
		return heartbeat
	}
	w.wait.forgetWritable()
	return stuckSleep
}

// writable is POLLOUT for a port that is full, else nothing.
func writable(p Port) int16 {
	if p.Room() == 0 {
		return unix.POLLOUT
	}
	return 0
}
