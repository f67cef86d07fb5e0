package config

import (
	"flag"
	"fmt"
	"strings"
)

// envPrefix begins the name of every variable, as with flanneld.
const envPrefix = "FLANNELD_"

// EnvName returns the variable that stands for a flag: FLANNELD_ETCD_PREFIX for
// etcd-prefix.
func EnvName(flagName string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// fromEnv sets the flags that the environment names. Empty variables count as
// not set, and so do those that no flag has a name for.
func fromEnv(fs *flag.FlagSet, env []string) error {
	values := map[string]string{}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && value != "" && strings.HasPrefix(name, envPrefix) {
			values[name] = value
		}
	}
	var err error
	fs.VisitAll(func(f *flag.Flag) {
		value, ok := values[EnvName(f.Name)]
		if !ok || err != nil {
			return
		}
		if serr := setEnv(fs, f, value); serr != nil {
			err = fmt.Errorf("%w: %s=%q: %w", ErrUsage, EnvName(f.Name), value, serr)
		}
	})
	return err
}

// setEnv sets one flag. A flag that may be repeated takes a list with commas.
func setEnv(fs *flag.FlagSet, f *flag.Flag, value string) error {
	if l, ok := f.Value.(*list); ok {
		for v := range strings.SplitSeq(value, ",") {
			if err := l.Set(v); err != nil {
				return err
			}
		}
		return nil
	}
	return fs.Set(f.Name, value)
}

// onlyFromArgs empties a repeatable flag that the command line gives too: the
// command line replaces what the environment said, it does not add to it.
func onlyFromArgs(args []string, name string, fromEnv list) list {
	for _, a := range args {
		given := strings.TrimLeft(a, "-")
		if strings.HasPrefix(a, "-") && (given == name || strings.HasPrefix(given, name+"=")) {
			return nil
		}
	}
	return fromEnv
}
