package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/perf/replay"
	"flanx/perf/replay/capture"
	"flanx/perf/replay/linktype"
	"flanx/perf/replay/pace"
	"flanx/perf/replay/packetsock"
	"flanx/perf/replay/verify"
)

const (
	// quiet is how long nothing must arrive for the receiver to stop waiting.
	quiet = 300 * time.Millisecond
	// patience bounds that wait where other traffic never ends.
	patience = 3 * time.Second
)

// watcher notes what is sent and what arrives.
type watcher struct {
	clock    pace.Clock
	sentLink uint16 // of what Sent is given
	sent     *verify.Journal
	received *verify.Journal
	inner    *replay.Wrapping // what arrives may be wrapped like that
	timed    bool

	port  *packetsock.Port // nil: comparing with a file
	pool  *packet.Pool
	link  uint16
	stop  atomic.Bool
	count atomic.Int64 // packets received
	done  chan error
}

// Sent is part of replay.Observer.
func (w *watcher) Sent(data []byte, _ int64) { w.sent.Note(w.sentLink, data, w.clock.Now()) }

// watch opens the far end that --verify names; nil if there is none.
func (f *replayFlags) watch() (*watcher, error) {
	if f.verify == "" {
		return nil, nil
	}
	w := &watcher{
		clock: pace.Start(), sent: verify.NewJournal(journalLimit), received: verify.NewJournal(journalLimit),
		sentLink: linktype.Ethernet, done: make(chan error, 1),
	}
	if f.kind == "tun" || f.encap != "" {
		w.sentLink = linktype.Raw
	}
	if f.encap != "" {
		wrapping := f.wrapping(f.encap)
		w.inner = &wrapping
	}
	kind, where, _ := strings.Cut(f.verify, ":")
	namespace, device := "", where
	switch kind {
	case "file":
		return w, w.read(where)
	case "dev":
	case "netns":
		namespace, device, _ = strings.Cut(where, "/")
	default:
		return nil, fmt.Errorf("%w: --verify %q is not dev:NAME, netns:NAMESPACE/DEV or file:PATH", errUsage, f.verify)
	}
	if err := inNamespace(namespace, func() error { return w.listen(device) }); err != nil {
		return nil, fmt.Errorf("watch %s: %w", where, err)
	}
	w.timed = true
	go func() { w.done <- w.receive() }()
	return w, nil
}

// listen opens the socket, in the thread's namespace.
func (w *watcher) listen(device string) error {
	iface, kind, err := findInterface(device)
	if err != nil {
		return err
	}
	w.link = linktype.Ethernet
	if kind == unix.ARPHRD_NONE {
		w.link = linktype.Raw
	}
	if w.port, err = packetsock.Open(packetsock.Config{IfIndex: iface.Index, Receive: true, Buffer: 64 << 20}); err != nil {
		return err
	}
	if w.pool, err = packet.NewPool(128, packet.FrameSize64K); err != nil {
		return errors.Join(err, w.port.Close())
	}
	return nil
}

// receive notes what arrives until stop is set.
func (w *watcher) receive() error {
	b := packet.NewBatch(w.pool, 64)
	poll := []unix.PollFd{{Fd: int32(w.port.FD()), Events: unix.POLLIN}}
	for !w.stop.Load() {
		if err := w.port.Recv(b); err != nil {
			return err
		}
		if b.Len() == 0 {
			_, _ = unix.Poll(poll, 20) // the loop looks for itself
			continue
		}
		now := w.clock.Now()
		n := 0
		for i := range b.Len() {
			if b.Live(i) {
				w.arrived(w.link, b.Bytes(i), now)
				n++
			}
		}
		w.count.Add(int64(n))
		b.Compact()
		b.Clear()
	}
	return nil
}

// arrived notes one packet, taken out of the tunnel if it is in one.
func (w *watcher) arrived(link uint16, data []byte, now int64) {
	if w.inner != nil && link == linktype.Ethernet {
		if inner, _, ok := w.inner.Unwrap(data); ok {
			w.received.Note(w.inner.LinkType(), inner, now)
			return
		}
	}
	w.received.Note(link, data, now)
}

// read notes what a capture holds.
func (w *watcher) read(path string) error {
	r, done, err := openCapture(path, nil)
	if err != nil {
		return fmt.Errorf("compare with %s: %w", path, err)
	}
	defer done()
	defer r.Close()
	var rec capture.Record
	for {
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("compare with %s: %w", path, err)
		}
		w.arrived(rec.LinkType, rec.Data, rec.Time)
	}
}

// finish waits for what is still on its way, and compares.
func (w *watcher) finish(ctx context.Context) *verify.Report {
	if w.port != nil {
		w.settle(ctx)
		w.stop.Store(true)
		<-w.done // what broke it shows as loss
		_ = w.port.Close()
		_ = w.pool.Close()
	}
	return verify.Compare(w.sent, w.received, w.timed)
}

// settle returns when nothing has arrived for a while.
func (w *watcher) settle(ctx context.Context) {
	began, since, last := time.Now(), time.Now(), w.count.Load()
	for time.Since(since) < quiet && time.Since(began) < patience && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
		if n := w.count.Load(); n != last {
			last, since = n, time.Now()
		}
	}
}
