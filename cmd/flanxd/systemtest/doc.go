// Package systemtest runs the real flanxd among real counterparts and holds it
// to what an operator relies on. There is nothing here but tests.
//
// Each test makes a world: hosts as network namespaces joined by veth
// (perf/lab), and an etcd prefix of its own. In them run the daemon's binary as
// an operator would start it, and what it has to get along with: the kernel's
// VXLAN device set up as flannel sets it up, a peer that speaks flannel's udp
// backend, the real flanneld where there is one, strangers who send crafted
// packets, a store that goes away, a foreign XDP program. Looked at is only what
// can be seen from outside: packets at both ends, keys and values in the store,
// files, devices, routes, firewall rules, log lines, exit codes.
//
// # Environment
//
// The tests need root. FLANXD names a binary to test in place of a fresh build;
// FLANNELD a flanneld (with an iptables binary beside it in PATH) for the tests
// that run both in one cluster; FLANX_ETCD an etcd, if it is not in PATH.
//
// # Ownership and concurrency
//
// A world belongs to its test and is gone when it ends. Worlds share nothing but
// the binary and one embedded etcd, so tests run side by side, two at a time: more
// would only take each other's processor, and some tests look at the clock.
package systemtest
