package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"flanx/control/hostnet"
	"flanx/dataplane"
	"flanx/dataplane/fib"
	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/stats"
	"flanx/encap"
)

// Waits between two tries to open the data path anew.
const (
	reopenMin = 50 * time.Millisecond
	reopenMax = 2 * time.Second
	// steady is how long a session must have lasted for the next wait to be
	// the shortest again.
	steady = 10 * time.Second
)

// engine is the packet half of a node: it opens the ways onto the underlay,
// runs the workers, and starts over with whatever can be had when one fails.
type engine struct {
	io        host.Rung // asked for
	workers   int
	frames    int // per worker
	batch     int
	spin      time.Duration
	anySource bool

	log     *slog.Logger
	iface   hostnet.Interface
	backend backend
	table   *fib.Table
	codecs  struct{ fast, fallback encap.Codec }
	tun     tunOpener

	best  host.Rung   // the best there has been; UDP before the first session
	serve func(error) // told whether packets are carried, and why not

	mu      sync.Mutex
	running []*stats.Worker
	retired stats.Snapshot // of workers that ended
}

// stats sums all workers there have been.
func (e *engine) stats() stats.Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := stats.Sum(e.running)
	s.Egress.Add(e.retired.Egress)
	s.Ingress.Add(e.retired.Ingress)
	return s
}

// run carries packets until ctx ends. The first session's failure to open is an
// error, for then something is wrong with the configuration or the host; later
// ones are tried again for as long as it takes. opened is called once, when the
// first session carries packets.
func (e *engine) run(ctx context.Context, opened func()) error {
	wait := reopenMin
	for first := true; ; first = false {
		began := time.Now()
		err := e.session(ctx, opened)
		if ctx.Err() != nil {
			return nil
		}
		var open openError
		if first && errors.As(err, &open) {
			return err
		}
		opened = func() {}
		if time.Since(began) > steady {
			wait = reopenMin
		}
		e.log.Warn("data path interrupted; opening it again", "error", err, "wait", wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, reopenMax)
	}
}

// errReopening is why a node does not serve between two sessions.
var errReopening = errors.New("the data path is being opened again")

// openError is a failure to open the data path, as against one of running it.
type openError struct{ error }

func (e openError) Unwrap() error { return e.error }

// session opens the data path, runs it until ctx ends or a part fails, and
// closes it.
func (e *engine) session(ctx context.Context, opened func()) (err error) {
	p, err := e.open()
	if err != nil {
		return openError{err}
	}
	e.announce(p)
	opened()
	err = e.carry(ctx, p)
	e.tellXSK(p)
	e.retire()
	err = errors.Join(err, p.close())
	if errors.Is(err, dataplane.ErrTUN) {
		err = errors.Join(err, e.tun.reset())
	}
	return err
}

// carry runs the workers until ctx ends, one of them fails, or the way on the
// wire is lost.
func (e *engine) carry(ctx context.Context, p *parts) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, len(p.workers)+1)
	go func() { ends <- e.watch(ctx, p) }()
	for _, w := range p.workers {
		go func() { ends <- w.Run() }()
	}
	err := <-ends
	cancel()
	for _, w := range p.workers {
		w.Stop()
	}
	for range p.workers {
		err = errors.Join(err, <-ends)
	}
	return err
}

// announce says how packets get on the wire from now on.
func (e *engine) announce(p *parts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range p.workers {
		e.running = append(e.running, w.Stats())
	}
	e.best = min(e.best, p.grant.Rung)
	e.serve(nil)
	e.log.Info("way on the wire", "asked", e.io.String(), "granted", p.grant.Rung.Words(), "why", p.grant.Why(),
		"interface", e.iface.Name, "workers", len(p.workers))
}

// sum logs what was carried and what was lost, when the data path has ended.
func (e *engine) sum() {
	s := e.stats()
	for _, d := range []struct {
		name string
		t    *stats.Totals
	}{{"egress", &s.Egress}, {"ingress", &s.Ingress}} {
		e.log.Info("packets carried", "direction", d.name, "received", d.t.Received,
			"delivered", d.t.Delivered, "dropped", d.t.Dropped(), "drops", drops(d.t))
	}
}

// drops lists the reasons that counted anything.
func drops(t *stats.Totals) slog.Value {
	var attrs []slog.Attr
	for r, n := range t.Drops {
		if n > 0 {
			attrs = append(attrs, slog.Uint64(packet.Reason(r).String(), n))
		}
	}
	return slog.GroupValue(attrs...)
}

// tellXSK logs what the kernel counted on the AF_XDP sockets.
func (e *engine) tellXSK(p *parts) {
	if p.grant.XSK == nil {
		return
	}
	for _, port := range p.grant.XSK.Ports {
		s, err := port.Statistics()
		if err != nil { // the device is gone, and its counts with it
			continue
		}
		e.log.Info("kernel's AF_XDP counts", "queue", port.Queue(), "zerocopy", port.ZeroCopy(),
			"dropped", s.Dropped, "ring_full", s.RingFull, "fill_empty", s.FillEmpty,
			"bad_rx", s.BadRX, "bad_tx", s.BadTX)
	}
}

// retire keeps the counts of workers that ended.
func (e *engine) retire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := stats.Sum(e.running)
	e.retired.Egress.Add(last.Egress)
	e.retired.Ingress.Add(last.Ingress)
	e.running = nil
	e.serve(errReopening)
}

// makeCodecs prepares both layers.
func (e *engine) makeCodecs() (err error) {
	if e.codecs.fast, err = e.backend.codec(encap.Ethernet, e.iface.MTU); err != nil {
		return fmt.Errorf("prepare %s for AF_XDP: %w", e.backend.kind, err)
	}
	if e.codecs.fallback, err = e.backend.codec(encap.Datagram, e.iface.MTU); err != nil {
		return fmt.Errorf("prepare %s for the UDP socket: %w", e.backend.kind, err)
	}
	return nil
}
