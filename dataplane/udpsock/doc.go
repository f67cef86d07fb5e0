// Package udpsock makes a dataplane.Port of a UDP socket on the tunnel port.
//
// One recvmmsg(2) or sendmmsg(2) moves up to 64 datagrams between the kernel
// and the frames of the pool. A Buf's Peer and PeerPort are where Send sends it
// to, and where Recv got it from.
//
//	Send ─▶ held ─ sendmmsg ─▶ kernel
//	         ▲ └ EAGAIN: stays, in order; Room is 0 until Flush got it out
//	         └ ICMP error, too big, no route: this one is dropped, the rest goes on
//
// # Ownership
//
// The port owns the frames of what the socket had no room for, at most
// Config.Batch of them, until Flush or Close gives them back to their pool.
// A packet that is lost in Flush is counted in the batch that brought it, which
// therefore must live as long as the port.
//
// # Concurrency
//
// A port belongs to one worker. Several workers on one tunnel port each open a
// socket of their own with Config.Shared, and the kernel spreads the flows.
//
// # Super-packets
//
// A kernel's VXLAN device on the other end of a veth with offloads on sends TCP
// segments of up to 64 KiB in one datagram. The first that does not fit its frame
// is dropped as Truncated; from then on datagrams are taken one at a time into
// memory that holds any, and cut. See [Config].MaxInner.
//
// What it does not do: outer headers (the kernel writes them), and segmentation
// offload (UDP_SEGMENT, UDP_GRO): one Buf is one message. Where several would
// become one, see outbox.load and inbox.offer.
package udpsock
