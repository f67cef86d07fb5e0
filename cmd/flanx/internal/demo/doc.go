// Package demo shows the overlay at work: hosts out of network namespaces on one
// switched wire, an etcd, one flanxd process per host, and for each encapsulation
// on each way to the wire the proof that packets get through whole.
//
//	host1 ── pod      host2 ── pod      host3 ── pod      etcd
//	  │ eth0            │ eth0            │ eth0            │ eth0
//	  └─────────────────┴──── bridge ─────┴─────────────────┘
//
// [Run] builds this in a [flanx/perf/lab.Lab], tries the combinations one after
// another, each under an etcd prefix of its own, and returns a [Report]. A
// combination that fails does not end the run.
//
// # Ownership
//
// Run owns the lab and all in it, and closes it before it returns, also when the
// context ends. With Config.Keep it is left running instead, the last
// combination's daemons with it, until [Clean].
//
// # Concurrency
//
// Runs may go on at once, except for those that keep: there is one such lab per
// machine.
package demo
