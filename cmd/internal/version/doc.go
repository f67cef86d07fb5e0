// Package version says which build this is, from what the Go toolchain wrote
// into the binary. Nothing is set by the linker.
package version
