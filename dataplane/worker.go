package dataplane

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"flanx/dataplane/fib"
	"flanx/dataplane/packet"
	"flanx/dataplane/stats"
	"flanx/encap"
)

// DefaultBatch is how many packets one direction carries per turn at most.
const DefaultBatch = 64

// fallbackRest is how many busy turns pass between two looks at a fallback that
// had nothing, beside a fast underlay: looking in vain is a system call that
// offers it a whole batch of frames. After a sleep it is looked at at once, for
// it may be what woke us.
const fallbackRest = 16

// Errors of a worker. Each of the last three wraps the cause.
var (
	// ErrWorkerConfig: a part that a worker needs is missing.
	ErrWorkerConfig = errors.New("incomplete worker configuration")
	// ErrTUN: the TUN port failed.
	ErrTUN = errors.New("TUN port")
	// ErrFast: the AF_XDP port failed; the fallback may still work.
	ErrFast = errors.New("fast underlay port")
	// ErrFallback: the UDP socket failed.
	ErrFallback = errors.New("fallback underlay port")
)

// Underlay is one way onto the underlay network: a port, and the codec that
// writes what this port sends.
type Underlay struct {
	Port  Port
	Codec encap.Codec
}

// Config is what a worker is made of. The worker closes none of it.
type Config struct {
	Pool     *packet.Pool
	TUN      Port
	Fast     *Underlay // an AF_XDP socket; nil when the ladder ended at the UDP socket
	Fallback *Underlay // the UDP socket
	Table    *fib.Table

	Batch int           // packets per direction and turn; 0 means DefaultBatch
	Spin  time.Duration // how long at most to look for work before sleeping; 0: not at all

	// AcceptAnySource turns off the check that a packet comes from the member
	// whose subnet holds its inner source.
	AcceptAnySource bool
}

// Worker carries packets both ways between one TUN queue and the underlay. It
// is one goroutine on one OS thread; see the package documentation.
type Worker struct {
	cfg      Config
	primary  *Underlay // Fast, or else Fallback
	stopping atomic.Bool
	wait     *waiter
	spin     spinner
	stats    stats.Worker

	holder interface{ Held() int } // the fallback's port, if it may hold packets back

	stuck int // sleeps in a row with a full underlay
	rest  int // turns until the fallback is looked at again

	out, slow *packet.Batch // egress, and the part of it that takes the fallback
	in        *packet.Batch // ingress, one underlay after the other
	sent      stats.Totals  // egress so far
	received  stats.Totals  // ingress so far
}

// NewWorker makes a worker. Close it after Run has returned.
func NewWorker(cfg Config) (*Worker, error) {
	if cfg.Pool == nil || cfg.TUN == nil || cfg.Fallback == nil || cfg.Table == nil {
		return nil, fmt.Errorf("%w: pool, TUN, fallback and table are needed", ErrWorkerConfig)
	}
	if cfg.Batch <= 0 {
		cfg.Batch = DefaultBatch
	}
	wait, err := newWaiter()
	if err != nil {
		return nil, err
	}
	w := &Worker{
		cfg:     cfg,
		primary: cfg.Fast,
		wait:    wait,
		spin:    newSpinner(cfg.Spin),
		out:     packet.NewBatch(cfg.Pool, cfg.Batch),
		slow:    packet.NewBatch(cfg.Pool, cfg.Batch),
		in:      packet.NewBatch(cfg.Pool, cfg.Batch),
	}
	if w.primary == nil {
		w.primary = cfg.Fallback
	}
	w.holder, _ = cfg.Fallback.Port.(interface{ Held() int })
	return w, nil
}

// Stats returns the worker's counters, which may be read at any time.
func (w *Worker) Stats() *stats.Worker { return &w.stats }

// Stop makes Run return. It may be called from any goroutine, more than once.
func (w *Worker) Stop() {
	w.stopping.Store(true)
	w.wait.wake()
}

// Close gives back what NewWorker opened. Run must have returned.
func (w *Worker) Close() error { return w.wait.close() }

// Run carries packets until Stop, then returns nil, or until a port fails, then
// returns ErrTUN, ErrFast or ErrFallback. It locks its goroutine to the thread.
func (w *Worker) Run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for !w.stopping.Load() {
		n, err := w.turn()
		if err != nil {
			return err
		}
		if w.spin.again(n > 0) {
			continue
		}
		if err := w.sleep(); err != nil {
			return err
		}
		w.rest = 0
	}
	return nil
}

// turn carries one batch each way and returns how many packets it met.
func (w *Worker) turn() (int, error) {
	s := w.cfg.Table.Load()
	if err := w.unblock(); err != nil {
		return 0, err
	}
	out, err := w.egress(s)
	if err != nil {
		return out, err
	}
	in, err := w.ingress(w.cfg.Fast, ErrFast, s)
	if err != nil {
		return out + in, err
	}
	aside, err := w.ingressAside(s)
	w.stats.Turns.Store(w.stats.Turns.Load() + 1)
	return out + in + aside, err
}

// ingressAside is ingress from the fallback, which rests while it has nothing
// and there is a fast underlay.
func (w *Worker) ingressAside(s *fib.Snapshot) (int, error) {
	if w.rest > 0 {
		w.rest--
		return 0, nil
	}
	n, err := w.ingress(w.cfg.Fallback, ErrFallback, s)
	if n == 0 && w.cfg.Fast != nil {
		w.rest = fallbackRest
	}
	return n, err
}

// unblock pushes on whatever a full port still holds.
func (w *Worker) unblock() error {
	if w.cfg.Fast != nil && w.cfg.Fast.Port.Room() == 0 {
		if err := w.cfg.Fast.Port.Flush(); err != nil {
			return fmt.Errorf("%w: %w", ErrFast, err)
		}
	}
	if w.cfg.Fallback.Port.Room() == 0 {
		if err := w.cfg.Fallback.Port.Flush(); err != nil {
			return fmt.Errorf("%w: %w", ErrFallback, err)
		}
		w.publishEgress(0)
	}
	return nil
}
