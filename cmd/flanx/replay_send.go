package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/pcapport"
	"flanx/perf/replay"
	"flanx/perf/replay/pace"
)

// decapsulate is "flanx replay --decap".
func (f *replayFlags) decapsulate(ctx context.Context) (*replay.Summary, error) {
	o, err := f.openOutput(ctx)
	if err != nil {
		return nil, err
	}
	cfg := replay.DecapConfig{
		Open: f.open, To: o.Port.(*pcapport.Port), Pool: o.Pool, Wrapping: f.wrapping(f.decap),
		Cut: f.cutRecords, Limit: f.limit,
	}
	if f.filter != nil {
		cfg.Filter = f.filter
	}
	sum, err := replay.Decapsulate(ctx, cfg)
	return sum, errors.Join(err, o.close())
}

func (f *replayFlags) wrapping(encapsulation string) replay.Wrapping {
	return replay.Wrapping{VXLAN: encapsulation == "vxlan", Port: f.tunnelPort(encapsulation), VNI: f.vni}
}

// send replays to wherever --to says, and compares if asked to.
func (f *replayFlags) send(ctx context.Context) (out outcome, err error) {
	if f.dryRun {
		f.plainFile()
	}
	var o *output
	if err := inNamespace(f.netns, func() (err error) { o, err = f.openOutput(ctx); return err }); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if o.way != "" && !f.json {
		fmt.Fprintf(f.stderr, "sending to %s by %s\n", f.to, o.way)
	}
	cfg := f.config(o)
	watch, err := f.watch()
	if err != nil {
		return out, err
	}
	if watch != nil {
		cfg.Observe = watch
	}
	line := newRateLine(f.stderr)
	cfg.Progress = line.show
	out.Summary, err = replay.Run(ctx, cfg)
	line.end()
	if watch != nil {
		out.Verify = watch.finish(ctx)
	}
	return out, err
}

// plainFile turns a dry run into a replay to nowhere, of the same shape.
func (f *replayFlags) plainFile() {
	f.kind, f.target = "file", "-"
}

func (f *replayFlags) config(o *output) replay.Config {
	cfg := replay.Config{
		Open: f.open, Output: o.Output, Pace: f.pace, Loops: f.loops, Limit: f.limit,
		Duration: f.duration, Preload: int64(f.preload), Cut: f.cutRecords, RepairLengths: f.rules.Repair,
	}
	if f.kind == "file" {
		cfg.Pace = pace.Config{Top: true}
	}
	if !f.rules.Zero() {
		cfg.Editor = &f.rules
	}
	if f.filter != nil {
		cfg.Filter = f.filter
	}
	return cfg
}

// inNamespace runs fn on a thread inside a network namespace that "ip netns"
// knows; an empty name is our own.
func inNamespace(name string, fn func() error) error {
	if name == "" {
		return fn()
	}
	ns, err := os.Open("/run/netns/" + name)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer ns.Close()
	done := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and nobody else
		// meets its namespace.
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace %s: %w", name, err)
			return
		}
		done <- fn()
	}()
	return <-done
}

// rateLine shows the rate on a terminal, and nothing elsewhere.
type rateLine struct {
	progress *progress
	last     replay.Live
	shown    bool
}

func newRateLine(w io.Writer) *rateLine {
	return &rateLine{progress: newProgress(w)}
}

func (r *rateLine) show(l replay.Live) {
	if !r.progress.tty {
		return
	}
	pps, mbps := 0.0, 0.0
	if d := (l.Elapsed - r.last.Elapsed).Seconds(); d > 0 {
		pps = float64(l.Sent-r.last.Sent) / d
		mbps = float64(l.Bytes-r.last.Bytes) * 8 / d / 1e6
	}
	r.last, r.shown = l, true
	fmt.Fprintf(r.progress.w, "\r\x1b[K%s  %d packets  %.0f packets/s  %.1f Mbit/s", l.Elapsed.Round(100*time.Millisecond), l.Sent, pps, mbps)
}

func (r *rateLine) end() {
	if r.shown {
		fmt.Fprint(r.progress.w, "\r\x1b[K")
	}
}

// journalLimit is how many packets are kept for comparing, at each end: some
// 800 MiB in all at the most.
const journalLimit = 16 << 20
