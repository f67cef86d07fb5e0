package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitDamaged = 3 // replay: the capture is cut off or damaged
	exitDiffers = 4 // replay --verify: what arrived is not what was sent
)

// errReported ends the program with exitFailed, and nothing more is to be said.
var errReported = errors.New("failed, and said so")

// errUsage wraps what is wrong with the command line.
var errUsage = errors.New("usage")

// exitError ends the program with a status of its own.
type exitError struct {
	status int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errReported) {
		return exitFailed
	}
	fmt.Fprintf(stderr, "flanx: %v\n", err)
	var own *exitError
	switch {
	case errors.As(err, &own):
		return own.status
	case errors.Is(err, errUsage):
		return exitUsage
	}
	return exitFailed
}
