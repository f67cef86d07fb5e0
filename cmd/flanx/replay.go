package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"flanx/perf/replay"
	"flanx/perf/replay/capture"
	"flanx/perf/replay/verify"
)

// newReplay is "flanx replay".
func newReplay() *cobra.Command {
	f := newReplayFlags()
	cmd := &cobra.Command{
		Use:   "replay CAPTURE --to WHERE",
		Short: "Send a capture again: as it is or encapsulated, at any pace, and see whether it arrived",
		Long: `Replay reads a capture (pcap or pcapng, plain, gzip or zstd; "-" is standard
input) and sends its packets

  --to tun:NAME        into a TUN such as flannel0, as if pods had sent them
  --to dev:NAME        out of another interface, as they are
  --to underlay:NAME   out of an underlay interface, encapsulated (--encap)
  --to file:PATH       into a file: encapsulated (--encap), taken out of their
                       encapsulation (--decap), or only filtered and changed

at the pace they were captured at, or at --speed, --pps, --mbps or --top.
What cannot be sent is counted by reason, and the rest goes on.

Exit status: 0 all went well; 1 it failed, or nothing was sent; 2 wrong usage;
3 the capture is cut off or damaged, and what came before was sent; 4 --verify
found a difference.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%w: replay takes one capture, or - for standard input; see \"flanx replay --help\"", errUsage)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.capture = args[0]
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.InOrStdin())
		},
	}
	f.register(cmd.Flags())
	return cmd
}

// outcome is what is printed.
type outcome struct {
	*replay.Summary
	Verify *verify.Report `json:"verify,omitempty"`
}

// run checks the flags, opens what is needed, and replays.
func (f *replayFlags) run(ctx context.Context, stdout, stderr io.Writer, stdin io.Reader) error {
	if err := f.check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	f.stdin, f.stderr = stdin, stderr
	var out outcome
	var err error
	if f.decap != "" {
		out.Summary, err = f.decapsulate(ctx)
	} else {
		out, err = f.send(ctx)
	}
	if errors.Is(err, replay.ErrConfig) || errors.Is(err, errUsage) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if out.Summary != nil {
		out.Capture, out.To, out.DryRun = f.capture, f.to, f.dryRun
		if damaged(err) {
			out.Damage = err.Error()
		}
		if err := f.print(stdout, out); err != nil {
			return err
		}
	}
	return f.status(out, err)
}

// status makes an exit status of the end.
func (f *replayFlags) status(out outcome, err error) error {
	switch {
	case damaged(err):
		return &exitError{exitDamaged, fmt.Errorf("%s: %w", f.capture, err)}
	case err != nil:
		return fmt.Errorf("%s: %w", f.capture, err)
	case out.Verify != nil && !out.Verify.OK():
		return &exitError{exitDiffers, errors.New("what arrived is not what was sent")}
	}
	return nil
}

func damaged(err error) bool {
	return errors.Is(err, capture.ErrTruncated) || errors.Is(err, capture.ErrMalformed)
}

func (f *replayFlags) print(w io.Writer, out outcome) error {
	if f.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	}
	if err := out.WriteText(w); err != nil {
		return err
	}
	if out.Verify != nil {
		fmt.Fprintln(w, out.Verify)
	}
	return nil
}

// open begins the capture.
func (f *replayFlags) open() (*capture.Reader, func(), error) {
	return openCapture(f.capture, f.stdin)
}

func openCapture(path string, stdin io.Reader) (*capture.Reader, func(), error) {
	src, done := stdin, func() {}
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("open capture: %w", err)
		}
		src, done = file, func() { _ = file.Close() } // it was only read
	}
	r, err := capture.New(src)
	if err != nil {
		done()
		return nil, nil, err
	}
	return r, done, nil
}
