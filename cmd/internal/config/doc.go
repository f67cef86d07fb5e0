// Package config is what flanxd can be told: flanneld's flags and FLANNELD_*
// variables with their names, defaults and meaning, and our own beside them.
//
// [Parse] reads, in this order, defaults, the environment and the command line;
// the later wins. What makes no sense here is refused with a sentence, never
// ignored. Nothing is read from files, and nothing on the host is looked at.
package config
