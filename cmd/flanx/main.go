package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Signals end the context and nothing else: what was made is removed first,
	// also when somebody presses Ctrl-C twice.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
