package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/header"
	"flanx/perf/replay/capture"
	"flanx/perf/replay/linktype"
	"flanx/perf/replay/pace"
)

var (
	// ErrNothingSent says that the replay ended without a single packet sent.
	ErrNothingSent = errors.New("nothing was sent")
	// ErrStuck says that the port took nothing for a long time.
	ErrStuck = errors.New("the port takes no packets")
)

const (
	// stuckAfter is how long a port may take nothing before the replay ends.
	stuckAfter = 3 * time.Second
	// late is how far behind its due time a packet must be to wait for others
	// that are late too, and leave in one call with them.
	late = 30 * time.Microsecond
	// glance is how many packets are sent between looks at context and clock.
	glance = 64
)

// player is a replay at work.
type player struct {
	cfg   Config
	batch *packet.Batch
	space int // bytes in a frame for a packet, before wrapping
	sched *pace.Schedule
	clock pace.Clock
	dues  []int64 // of the packets in batch

	sum     Summary
	reasons [numReasons]uint64
	given   uint64 // packets that a batch was filled with
	loop    int
	turns   uint
	errors  pace.Histogram // of the time between packets

	lastSent, lastDue int64
	nextProgress      int64
}

// Run replays, and returns what came of it, also with an error. The error is
// ErrNothingSent, or wraps capture.ErrTruncated or capture.ErrMalformed when the
// file was damaged behind the packets sent, or says why the port failed. That
// ctx ended is no error: Summary.Interrupted tells.
func Run(ctx context.Context, cfg Config) (*Summary, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !cfg.Pace.Top {
		defer pace.Precise()()
	}
	p := &player{
		cfg: cfg, batch: packet.NewBatch(cfg.Output.Pool, cfg.Batch), dues: make([]int64, 0, cfg.Batch),
		space: cfg.Output.Pool.FrameSize() - packet.Headroom, sched: pace.New(cfg.Pace), clock: pace.Start(),
	}
	err := p.play(ctx)
	err = errors.Join(err, p.end(ctx))
	if p.sum.Sent == 0 && err == nil {
		err = p.sum.nothing()
	}
	return &p.sum, err
}

// play sends the capture as often as asked.
func (p *player) play(ctx context.Context) error {
	src := newSource(p.cfg)
	defer src.close()
	for ; p.cfg.Loops < 0 || p.loop < max(p.cfg.Loops, 1); p.loop++ {
		before := p.given
		if err := src.begin(); err != nil {
			return err
		}
		if p.given == 0 {
			p.clock = pace.Start() // reading ahead took time that is not the schedule's
		}
		done, err := p.once(ctx, src)
		p.note(src)
		if err != nil || done {
			return err
		}
		if p.given == before && p.cfg.Loops < 0 {
			return nil // it would go on for ever without sending anything
		}
		p.sched.Rewind()
	}
	return nil
}

// note adds what the reader passed over. A preloaded capture is read once.
func (p *player) note(src *source) {
	p.sum.Format = src.format
	c := src.counts()
	p.sum.Read += c.Records
	p.reasons[Oversized] += c.Oversized
	p.reasons[Malformed] += c.Malformed
}

// once sends the capture once. It says done when nothing more is to be sent.
func (p *player) once(ctx context.Context, src *source) (done bool, err error) {
	var rec capture.Record
	for {
		if p.turns++; p.turns%glance == 0 && p.over(ctx) {
			return true, nil
		}
		err := src.next(&rec)
		if errors.Is(err, io.EOF) {
			p.sum.Loops++
			return false, nil
		}
		if err != nil {
			return true, err
		}
		if done, err := p.one(ctx, &rec); done || err != nil {
			return true, err
		}
	}
}

// over says whether time is up, and shows progress.
func (p *player) over(ctx context.Context) bool {
	if ctx.Err() != nil {
		p.sum.Interrupted = true
		return true
	}
	now := p.clock.Now()
	if p.cfg.Progress != nil && now >= p.nextProgress {
		p.nextProgress = now + int64(200*time.Millisecond)
		p.cfg.Progress(Live{Sent: p.given, Bytes: p.sum.Bytes, Elapsed: time.Duration(now)})
	}
	return p.cfg.Duration > 0 && now >= int64(p.cfg.Duration)
}

// one sends one record, when it is due.
func (p *player) one(ctx context.Context, rec *capture.Record) (done bool, err error) {
	var pl plan
	reason, ok := p.plan(rec, &pl)
	if !ok {
		p.reasons[reason]++
		return false, nil
	}
	if p.cfg.Limit > 0 && p.given >= p.cfg.Limit {
		return true, nil
	}
	due := int64(0)
	if !p.cfg.Pace.Top {
		due = p.sched.Due(rec.Time, rec.Timed, p.lengthOf(&pl))
	}
	if due > 0 {
		if done, err := p.await(ctx, due); done || err != nil {
			return true, err
		}
	}
	if err := p.frame(ctx); err != nil {
		return true, err
	}
	p.commit(rec, &pl, due)
	if p.batch.Room() == 0 || !p.cfg.Pace.Top && p.aloneNow(due) {
		return false, p.flush(ctx)
	}
	return false, nil
}

// lengthOf is how much of a packet the port is given.
func (p *player) lengthOf(pl *plan) int {
	n := pl.length()
	if p.cfg.Output.Shape == Wrapped {
		n += p.cfg.Output.Codec.Overhead()
	}
	return n
}

// aloneNow says whether a packet leaves at once: it is in time, and the last of
// its burst.
func (p *player) aloneNow(due int64) bool {
	return p.given%uint64(max(p.cfg.Pace.Burst, 1)) == 0 && p.clock.Now()-due < int64(late)
}

// await waits until due, after sending what is due before.
func (p *player) await(ctx context.Context, due int64) (done bool, err error) {
	if p.clock.Now() >= due {
		return false, nil
	}
	if err := p.flush(ctx); err != nil {
		return true, err
	}
	if p.cfg.Duration > 0 && due >= int64(p.cfg.Duration) {
		p.clock.Wait(ctx, int64(p.cfg.Duration))
		return true, nil
	}
	for slice := p.clock.Now(); slice < due; {
		slice = min(due, slice+int64(200*time.Millisecond))
		if !p.clock.Wait(ctx, slice) {
			p.sum.Interrupted = true
			return true, nil
		}
		if slice < due {
			p.over(ctx) // for the progress
		}
	}
	return false, nil
}

// frame waits until the pool has a frame to fill.
func (p *player) frame(ctx context.Context) error {
	if p.cfg.Output.Pool.Free() > 0 {
		return nil
	}
	return errors.Join(p.flush(ctx), p.until(ctx, func() bool { return p.cfg.Output.Pool.Free() > 0 }))
}

// commit copies a packet into a frame and makes of it what the port takes.
func (p *player) commit(rec *capture.Record, pl *plan, due int64) {
	i, space, ok := p.batch.Extend()
	if !ok {
		return // frame has seen to it
	}
	n := copy(space, pl.data)
	clear(space[n : n+pl.pad])
	p.batch.Resize(i, n+pl.pad)
	out := &p.cfg.Output
	ip := p.batch.Bytes(i)
	if p.cfg.Editor != nil {
		p.edit(pl, ip)
	}
	switch {
	case out.Shape == Wrapped:
		hop, ok := out.Peers.lookup(ip)
		if !ok {
			p.batch.Undo()
			p.reasons[NoPeer]++
			return
		}
		buf := p.batch.At(i)
		buf.Hop, buf.Hash = hop, header.FlowHash(ip)
	case pl.prefix || out.Shape == Frames && (!out.SrcMAC.IsZero() || !out.DstMAC.IsZero()):
		p.link(i, pl.prefix, ip)
	}
	if out.Stamp != nil {
		out.Stamp(p.batch.At(i).Frame, rec.Time)
	}
	if !p.cfg.Pace.Top {
		p.dues = append(p.dues, due)
	}
	p.given++
}

// edit changes the IP packet, or the one inside a frame that was copied whole.
func (p *player) edit(pl *plan, data []byte) {
	if p.cfg.Output.Shape == Frames && !pl.prefix {
		ip, ok := linktype.FindIP(linktype.Ethernet, data)
		if !ok {
			return
		}
		data = ip
	}
	p.cfg.Editor.Edit(data, p.loop)
}

// link writes the Ethernet header, or the addresses that were asked for.
func (p *player) link(i int, prefix bool, ip []byte) {
	out := &p.cfg.Output
	if prefix {
		kind := uint16(header.EtherTypeIPv4)
		if header.IPVersion(ip) == 6 {
			kind = header.EtherTypeIPv6
		}
		dst := out.DstMAC
		if dst.IsZero() {
			dst = encap.MAC(header.Broadcast)
		}
		header.Ethernet(p.batch.Push(i, header.EthernetLen)).Encode(header.EthernetFields{Dst: dst, Src: out.SrcMAC, EtherType: kind})
		return
	}
	frame := header.Ethernet(p.batch.Bytes(i))
	if len(frame) < header.EthernetLen {
		return
	}
	if !out.DstMAC.IsZero() {
		frame.SetDst(out.DstMAC)
	}
	if !out.SrcMAC.IsZero() {
		frame.SetSrc(out.SrcMAC)
	}
}

// flush sends the batch.
func (p *player) flush(ctx context.Context) error {
	if p.batch.Len() == 0 {
		return nil
	}
	out := &p.cfg.Output
	if out.Shape == Wrapped {
		out.Codec.Push(p.batch, out.Peers.paths)
		p.batch.Compact()
	}
	n := p.batch.Len()
	if err := p.until(ctx, func() bool { return out.Port.Room() >= n }); err != nil {
		p.batch.Clear()
		p.given -= uint64(n)
		p.dues = p.dues[:0]
		return err
	}
	p.account()
	if err := out.Port.Send(p.batch); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// account notes when the batch leaves, and how far from its schedule.
func (p *player) account() {
	now := p.clock.Now()
	if p.sum.first == 0 {
		p.sum.first = max(now, 1)
	}
	if !p.cfg.Pace.Top {
		for i, due := range p.dues {
			if p.lastSent > 0 || i > 0 {
				gap := now - p.lastSent - (due - p.lastDue)
				p.errors.Add(max(gap, -gap))
			}
			p.lastSent, p.lastDue = now, due
		}
	}
	p.dues = p.dues[:0]
	p.sum.last = now
	for i := range p.batch.Len() {
		b := p.batch.Bytes(i)
		p.sum.Bytes += uint64(len(b))
		if p.cfg.Observe != nil {
			if p.cfg.Output.Shape == Wrapped {
				b = b[p.cfg.Output.Peers.paths[p.batch.At(i).Hop].Len:]
			}
			p.cfg.Observe.Sent(b, now)
		}
	}
}

// until pushes the port on until something holds. It gives up when ctx ends, and
// when the port makes no progress for long.
func (p *player) until(ctx context.Context, holds func() bool) error {
	if holds() {
		return nil
	}
	port := p.cfg.Output.Port
	for began := p.clock.Now(); ; {
		if err := port.Flush(); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		switch {
		case holds():
			return nil
		case ctx.Err() != nil:
			p.sum.Interrupted = true
			return nil
		case p.clock.Now()-began > int64(stuckAfter):
			return fmt.Errorf("%w for %s: is the link up?", ErrStuck, stuckAfter)
		}
		if fd := port.FD(); fd >= 0 {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 1) // the loop looks for itself
		}
	}
}

// end sends what is left and adds up.
func (p *player) end(ctx context.Context) error {
	err := p.flush(ctx)
	p.batch.Clear()
	if drain, ok := p.cfg.Output.Port.(interface{ Held() (rx, tx int) }); ok && err == nil {
		err = p.until(ctx, func() bool { _, tx := drain.Held(); return tx == 0 })
	} else if err == nil {
		err = p.until(ctx, func() bool { return p.cfg.Output.Port.Room() > 0 })
	}
	err = errors.Join(err, p.cfg.Output.Port.Flush())
	p.sum.finish(p)
	return err
}
