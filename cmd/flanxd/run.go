package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"flanx/cmd/internal/config"
	"flanx/cmd/internal/health"
	"flanx/cmd/internal/version"
	"flanx/control/hostnet"
)

// start makes this host a node until ctx ends; it is wire.Run.
type start func(ctx context.Context, cfg config.Daemon, log *slog.Logger, ready func(error)) error

// run is the whole program but for the process it runs in. It prints what the
// user asked to see to out, and everything else to errs.
func run(ctx context.Context, args, env []string, out, errs io.Writer, node start) exitCode {
	cfg, err := config.Parse(args, env, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err == nil && cfg.Version:
		fmt.Fprintf(out, "flanxd %s\n", version.String())
		return exitOK
	case err == nil:
		err = serve(ctx, cfg, newLogger(cfg, errs), node)
	}
	if err != nil {
		fmt.Fprintf(errs, "flanxd: %s\n", oneLine(err))
	}
	return codeOf(err)
}

// oneLine writes joined errors, which stand on a line each, in one.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// serve runs the node, and answers meanwhile how it is.
func serve(ctx context.Context, cfg config.Daemon, log *slog.Logger, node start) error {
	log.Info("flanxd starts", "version", version.String())
	for _, w := range cfg.Warnings {
		log.Warn("option without effect or unwise", "option", w)
	}
	defer ignoreHangup(log)()
	// First of all, so that a second instance says this and nothing else.
	lock, err := hostnet.TakeLock(hostnet.LockPath(cfg.SubnetFile))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }() // the process's end does the same
	checks := health.New(func() { health.NotifyReady(log) })
	if cfg.HealthzPort != 0 {
		stop, err := checks.Listen(cfg.HealthzIP, cfg.HealthzPort)
		if err != nil {
			return err
		}
		defer stop()
	}
	ended := make(chan struct{})
	told := tellEnd(ctx, ended, log)
	err = node(ctx, cfg, log, checks.Set)
	close(ended)
	<-told
	return err
}

// tellEnd tells the log and systemd that the daemon was told to end, as soon as
// it was, unless it ends by itself.
func tellEnd(ctx context.Context, ended <-chan struct{}, log *slog.Logger) (told <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-ended:
			if ctx.Err() == nil {
				return
			}
		}
		log.Info("flanxd ends")
		health.NotifyStopping(log)
	}()
	return done
}

// ignoreHangup keeps SIGHUP from ending the daemon half-way: sent out of habit to
// make a daemon read its configuration again, or by a terminal that closes.
func ignoreHangup(log *slog.Logger) (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	go func() {
		for range c {
			log.Info("SIGHUP ignored: flags and variables are read at the start only")
		}
	}()
	return func() {
		signal.Stop(c)
		close(c)
	}
}

// newLogger makes the daemon's logger.
func newLogger(cfg config.Daemon, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.LogLevel)) // checked by config.Parse
	opts := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
