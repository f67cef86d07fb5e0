// Package xdpprog is the XDP program that hands the tunnel's packets to AF_XDP
// sockets, and leaves everything else to the kernel.
//
// [Load] assembles the program for one address pair and UDP port and puts it
// into the kernel with its socket map. [Program.Attach] hooks it to an
// interface; [Program.Register] enters a socket for a queue. A packet is
// redirected when all of this holds, and else passes:
//
//	Ethernet, untagged
//	IPv4: no options, no fragment      IPv6: no extension header
//	  destination is our address         destination is our address
//	UDP, destination port is ours
//	the frame is no longer than MaxFrame
//	a socket is registered for the queue that it came in on
//
// So fragments, options and VLANs reach the tunnel's UDP socket by way of the
// kernel, a queue without a socket loses nothing, and super-packets that would
// not fit a frame (generic XDP sees them; see MaxFrame) are not lost either. One
// tag the program cannot see: a VLAN tag that the device takes off and hands on
// beside the packet.
//
// # Who is attached
//
// Attaching is by bpf_link only, so the program is gone with the last
// descriptor: when the process ends, also by SIGKILL. Another's program is
// never replaced: Attach says [ErrForeignProgram].
//
// A Program may be used by several goroutines, but not during Close. The
// package opens no sockets and chooses no mode.
package xdpprog
