package wire

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"flanx/dataplane"
	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/udpsock"
)

// watchInterval is how often it is checked that the XDP program is still where
// we put it. Nothing tells us when somebody takes it off.
const watchInterval = time.Second

// climbInterval is how long a session stays on the UDP socket after AF_XDP was
// lost. Opening everything anew costs some packets.
const climbInterval = 30 * time.Second

// parts is everything that one session of the engine opened.
type parts struct {
	grant   *host.Grant
	workers []*dataplane.Worker
	closers []func() error
}

// close gives everything back in reverse order. The workers must have ended.
func (p *parts) close() error {
	var err error
	for _, c := range slices.Backward(p.closers) {
		err = errors.Join(err, c())
	}
	p.closers = nil
	return err
}

func (p *parts) own(c func() error) { p.closers = append(p.closers, c) }

// open opens one way onto the underlay for each worker, the TUN, and the
// workers between them. On error nothing is left open.
func (e *engine) open() (_ *parts, err error) {
	p := &parts{} // not a result: a return of nil must not take it from what is to be closed
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := e.climb(p); err != nil {
		return nil, err
	}
	tuns, err := e.tun.ports()
	if err != nil {
		return nil, err
	}
	for i := range e.workers {
		if err := e.openWorker(p, i, tuns[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// climb takes the best rung of AF_XDP that is asked for and can be had.
func (e *engine) climb(p *parts) (err error) {
	p.grant, err = host.Climb(host.XSKConfig{
		IfIndex: e.iface.Index, IPv4: e.iface.Addr4, Port: e.backend.port,
		Queues: e.workers, Frames: e.frames,
	}, e.io)
	if err != nil {
		return fmt.Errorf("%w: -io %s on %s: %w", ErrUnderlay, e.io, e.iface.Name, err)
	}
	if x := p.grant.XSK; x != nil {
		p.own(x.Close)
		for _, w := range x.Warnings() {
			e.log.Warn("interface fits AF_XDP badly", "what", w)
		}
	}
	return nil
}

// openWorker opens the i-th worker's UDP socket and joins its ports.
func (e *engine) openWorker(p *parts, i int, tun dataplane.Port) error {
	pool, fast, err := e.fast(p, i)
	if err != nil {
		return err
	}
	socket, err := udpsock.Open(udpsock.Config{
		Local: netip.AddrPortFrom(e.iface.Addr4, e.backend.port), DF: e.backend.df,
		Batch: e.batch, Shared: e.workers > 1,
		TunnelHeader: e.backend.tunnelHeader(), MaxInner: e.backend.maxInner(e.tun.mtu()),
	})
	if err != nil {
		return fmt.Errorf("open the tunnel's UDP socket: %w", err)
	}
	p.own(socket.Close)
	w, err := dataplane.NewWorker(dataplane.Config{
		Pool: pool, TUN: tun, Fast: fast, Table: e.table,
		Fallback: &dataplane.Underlay{Port: socket, Codec: e.codecs.fallback},
		Batch:    e.batch, Spin: e.spin, AcceptAnySource: e.anySource,
	})
	if err != nil {
		return err
	}
	p.own(w.Close)
	p.workers = append(p.workers, w)
	return nil
}

// fast returns the i-th AF_XDP port with its frames, or frames alone on the UDP
// rung.
func (e *engine) fast(p *parts, i int) (*packet.Pool, *dataplane.Underlay, error) {
	if x := p.grant.XSK; x != nil {
		return x.Ports[i].Pool(), &dataplane.Underlay{Port: x.Ports[i], Codec: e.codecs.fast}, nil
	}
	size, err := frameSize(e.iface.MTU)
	if err != nil {
		return nil, nil, err
	}
	pool, err := packet.NewPool(e.frames, size)
	if err != nil {
		return nil, nil, err
	}
	p.own(pool.Close)
	return pool, nil, nil
}

// errClimb ends a session on a lower rung than there has been.
var errClimb = errors.New("trying for a better way on the wire again")

// watch returns when the XDP program was taken off the interface, when it is
// time to climb again, or when ctx ends.
func (e *engine) watch(ctx context.Context, p *parts) error {
	if p.grant.XSK == nil {
		return e.waitToClimb(ctx, p)
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := p.grant.XSK.Check(); err != nil {
				return err
			}
		}
	}
}

// waitToClimb waits for a time to try for AF_XDP again, if there has been any: it
// may have been lost to something that passes. Otherwise it waits for ctx.
func (e *engine) waitToClimb(ctx context.Context, p *parts) error {
	var again <-chan time.Time
	if e.io == host.Auto && e.best < p.grant.Rung {
		again = time.After(climbInterval)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-again:
		return errClimb
	}
}
