package main

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"

	"flanx/cmd/flanx/internal/demo"
)

// progress shows what the demo is doing: a bar where somebody watches, lines
// where a file or a pipe does.
type progress struct {
	w     io.Writer
	tty   bool
	bar   *progressbar.ProgressBar
	steps int
	done  int
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, tty: ok && isTerminal(int(f.Fd()))}
}

// isTerminal asks for the settings that only terminals have (ioctl_tty(2)).
func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// Plan is part of demo.Progress.
func (p *progress) Plan(steps int) {
	p.steps = steps
	if !p.tty {
		return
	}
	p.bar = progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetWidth(24),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(false),
	)
}

// Step is part of demo.Progress.
func (p *progress) Step(text string) {
	p.done++
	if p.bar == nil {
		fmt.Fprintf(p.w, "[%d/%d] %s\n", min(p.done, p.steps), p.steps, text)
		return
	}
	p.bar.Describe(text)
	_ = p.bar.Set(min(p.done-1, p.steps-1)) // the step has only begun; a bar that cannot be drawn harms nobody
}

// Row is part of demo.Progress.
func (p *progress) Row(r demo.Row) {
	if p.bar == nil {
		verdict := "ok"
		if !r.OK() {
			verdict = "FAILED: " + r.Failure
		}
		fmt.Fprintf(p.w, "        %s, %s: %s\n", r.Encap, r.Asked, verdict)
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
