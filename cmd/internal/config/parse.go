package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// Parse reads the configuration. args is the command line without the program's
// name, env the environment in the form of os.Environ. When help is asked for,
// it is written to out and the error is flag.ErrHelp. Every other error is
// [ErrUsage] or [ErrMargin].
func Parse(args, env []string, out io.Writer) (Daemon, error) {
	r := &raw{}
	fs := newFlags(r)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(out, Help())
		return Daemon{}, flag.ErrHelp
	case err != nil:
		return Daemon{}, fmt.Errorf("%w: %w (flanxd -help lists the flags)", ErrUsage, err)
	case fs.NArg() > 0:
		return Daemon{}, fmt.Errorf("%w: %q is no flag, and flanxd takes no other arguments%s", ErrUsage, fs.Arg(0), hint(fs.Arg(0)))
	case r.d.Version:
		return r.d, nil // whatever else is said
	}
	if err := r.fromEnv(fs, env); err != nil {
		return Daemon{}, err
	}
	return r.check(fs)
}

// hint explains the commonest way to get an argument that is no flag.
func hint(arg string) string {
	switch strings.ToLower(arg) {
	case "true", "false":
		return ": write -flag=" + arg
	}
	return ""
}
