package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"flanx/cmd/internal/config"
	"flanx/cmd/internal/health"
	"flanx/cmd/internal/version"
	"flanx/cmd/internal/wire"
)

// run is the whole program but for the process it runs in. It prints what the
// user asked to see to out, and everything else to errs.
func run(ctx context.Context, args, env []string, out, errs io.Writer) exitCode {
	cfg, err := config.Parse(args, env, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(errs, "flanxd: %v\n", err)
		return codeOf(err)
	case cfg.Version:
		fmt.Fprintf(out, "flanxd %s\n", version.String())
		return exitOK
	}
	err = serve(ctx, cfg, newLogger(cfg, errs))
	if err != nil {
		fmt.Fprintf(errs, "flanxd: %v\n", err)
	}
	return codeOf(err)
}

// serve answers health checks, if asked to, while the node runs.
func serve(ctx context.Context, cfg config.Daemon, log *slog.Logger) error {
	log.Info("flanxd starts", "version", version.String())
	checks := health.New(health.Notify(log))
	if cfg.HealthzPort != 0 {
		stop, err := checks.Listen(cfg.HealthzIP, cfg.HealthzPort)
		if err != nil {
			return err
		}
		defer stop()
	}
	return wire.Run(ctx, cfg, log, checks.Set)
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
