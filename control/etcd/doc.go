// Package etcd keeps the cluster in etcd v3, in flannel's schema: the network
// configuration under <prefix>/config and one key per node under
// <prefix>/subnets/. A [Store] is a [control.Source] and a [control.Leaser].
//
// # Reading
//
// The watch is a hint. What is true comes from listing the keys: at the start,
// whenever the watch broke, and periodically, when what the list says is compared
// by value with what was told. A heartbeat notices an etcd that hangs, was wiped
// or was restored, which a watch would wait for in silence. Only <prefix>/subnets/
// is read, so neighbours of the prefix cost nothing, and a key or value that
// nobody can read costs only itself, though its range stays taken.
//
// # Writing
//
// Everything written is a lease key that flannel can parse, by transactions that
// compare: a new key must not exist, an old one must still have the revision that
// made it ours. Keys without an etcd lease are reservations: they never get one.
//
// # Concurrency
//
// A Store is safe for concurrent use, and one connection serves everything. It
// connects at first use, so a missing etcd is an error of the calls, not of New.
// The Store starts no goroutine that outlives a call, except the connection's
// own, which Close ends.
package etcd

import "flanx/control"

var (
	_ control.Source = (*Store)(nil)
	_ control.Leaser = (*Store)(nil)
)
