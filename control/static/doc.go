// Package static keeps the cluster in a file: no store, no allocation. The file
// is the same on every node, as /etc/hosts is.
//
//	{
//	  "network": {"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan"}},
//	  "nodes": [
//	    {"subnet": "10.5.1.0/24", "publicIP": "192.0.2.1", "vtepMAC": "02:00:00:00:00:01"},
//	    {"subnet": "10.5.2.0/24", "publicIP": "192.0.2.2", "vtepMAC": "02:00:00:00:00:02"}
//	  ]
//	}
//
// "network" is flannel's network configuration, as under <prefix>/config. A node
// has
//
//	subnet        its IPv4 subnet; with SubnetLen and bounds as the network says
//	ipv6Subnet    its IPv6 subnet
//	publicIP      its IPv4 address on the underlay
//	publicIPv6    its IPv6 address on the underlay
//	vtepMAC       vxlan: the Ethernet address of its tunnel end; every node must
//	              use the one in the file
//	vtepMACv6     vxlan with IPv6: likewise, of the IPv6 tunnel
//	backendType   if it is not the network's
//	backendData   raw data of another backend, in place of vtepMAC
//
// Unknown fields and a second entry for a subnet are errors. A node that cannot
// be read costs only itself; a file that cannot be read as a whole leaves the
// last good one in force, with a warning. The file is looked at every half
// second and read when its time, size or inode changed, so it may be edited in
// place or replaced.
//
// A [File] is a [control.Source], and a [control.Leaser] that finds our own
// subnet by our public address and gives out nothing. It starts no goroutine.
package static

import "flanx/control"

var (
	_ control.Source = (*File)(nil)
	_ control.Leaser = (*File)(nil)
)
