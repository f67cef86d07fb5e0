// Package hostnet does to the host what a node of the overlay needs done: it
// chooses the underlay interface, gives the TUN device its address and routes,
// keeps the firewall rules, and writes subnet.env.
//
// Everything is read back from the kernel before it is changed, so that every
// call may be repeated: a second call with the same arguments changes nothing,
// and a call after a crash, a restart or somebody else's cleaning up puts right
// what is wrong. What was changed is returned in words, for the caller to log.
//
// The package owns one device (the TUN, which the data path opens), the routes
// and addresses on it, the nftables tables "ip flannel-ipv4" and "ip6
// flannel-ipv6", blackhole routes of its own metric, the subnet file and the
// lock beside it. It touches nothing else of the host; what else stands in the
// way is reported as [Advice] or as an error that names the cure. It starts no
// external program.
//
// Calls work in the network namespace of the calling thread. They are meant for
// one goroutine; calls on different things (rules, device, file) may overlap.
//
// It does not open the TUN, move packets, resolve next hops or follow changes
// by itself: callers repeat the calls.
package hostnet
