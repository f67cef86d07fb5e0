// Package embedetcd runs etcd inside the process, for the demo and for tests.
//
// One member, no fsync, everything in a temporary directory that goes when the
// server is closed: nothing to keep data in. It is never linked into flanxd,
// which a test holds.
package embedetcd
