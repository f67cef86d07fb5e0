package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"flanx/cmd/internal/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr, wire.Run)
	stop()
	os.Exit(int(code))
}
