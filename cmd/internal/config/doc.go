// Package config is what flanxd can be told: flanneld's flags and FLANNELD_*
// variables with their names, defaults and meaning, and our own beside them.
//
// [Parse] takes a value from the command line, else from the environment, else
// the default. What makes no sense here is refused with a sentence that names
// the flag, its value and the cure; what is harmless but has no effect becomes a
// warning. Nothing is read from files, and nothing on the host is looked at.
//
// The package does not choose parts or start anything: cmd/internal/wire does.
package config
