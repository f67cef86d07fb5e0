package config

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// envPrefix begins the name of every variable, as with flanneld.
const envPrefix = "FLANNELD_"

// EnvName returns the variable that stands for a flag: FLANNELD_ETCD_PREFIX for
// etcd-prefix.
func EnvName(flagName string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// argsOnly are flags without a variable: image builders like to set
// FLANNELD_VERSION to a version.
var argsOnly = []string{"version"}

// fromEnv sets the flags that the command line does not. Empty variables count
// as not set. A flag that may be repeated takes one value, as with flanneld: a
// regular expression may hold any character that could part a list.
func (r *raw) fromEnv(fs *flag.FlagSet, env []string) error {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	values := ourVariables(env)
	var err error
	fs.VisitAll(func(f *flag.Flag) {
		name := EnvName(f.Name)
		value, ok := values[name]
		delete(values, name)
		if !ok || err != nil || given[f.Name] || slices.Contains(argsOnly, f.Name) {
			return
		}
		if serr := fs.Set(f.Name, value); serr != nil {
			err = fmt.Errorf("%w: variable %s=%q: %w: correct or unset it", ErrUsage, name, value, serr)
		}
	})
	r.warnUnknown(values)
	return err
}

func ourVariables(env []string) map[string]string {
	values := map[string]string{}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && value != "" && strings.HasPrefix(name, envPrefix) {
			values[name] = value
		}
	}
	return values
}

// warnUnknown tells of variables that no flag answers to: a misspelt one would
// otherwise be missed in silence.
func (r *raw) warnUnknown(values map[string]string) {
	var unknown []string
	for name := range values {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		r.warn("variable %s is not known and has no effect", name)
	}
}
