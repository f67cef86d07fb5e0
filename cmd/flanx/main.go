package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// errReported ends the program with exitFailed, and nothing more is to be said.
var errReported = errors.New("failed, and said so")

// errUsage wraps what is wrong with the command line.
var errUsage = errors.New("usage")

func main() {
	// Signals end the context and nothing else: what was made is removed first,
	// also when somebody presses Ctrl-C twice.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, errUsage):
		fmt.Fprintf(stderr, "flanx: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "flanx: %v\n", err)
		return exitFailed
	}
}
