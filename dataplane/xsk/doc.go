// Package xsk is an AF_XDP socket as a port: packets are received into, and
// sent from, the frames of a [packet.Pool], which the kernel or the network
// card reads and writes in place.
//
// [Open] registers the pool's slab as the socket's UMEM, makes the four rings,
// and binds one queue of one interface. An XDP program on that interface
// (package xdpprog) must redirect packets to the socket; until it does, the
// port sends and receives nothing.
//
//	         fill ring              RX ring
//	pool ──▶ free frames ──▶ kernel ──▶ received packets ──▶ batch
//	pool ◀── sent frames ◀── kernel ◀── packets to send  ◀── batch
//	         completion ring        TX ring
//
// ring.go is arithmetic over plain memory and knows no kernel; umem.go and
// socket.go talk to the kernel; port.go joins them to batches; whatever needs
// unsafe stands in files named so.
//
// # The frame budget
//
// All frames of the pool are in one of six places: free, in the fill ring, in
// the RX ring, in the TX ring, in the completion ring (or with the driver in
// between), or in a batch. The port bounds what the kernel holds: at most
// FillTarget frames for receiving (fill ring to RX ring) and at most TXLimit
// for sending (TX ring to completion ring). So, of N frames,
//
//   - N - FillTarget - TXLimit are never with the kernel: the worker can always
//     hold a batch in each direction, however stuck the device is;
//   - while batches hold no more than those, the fill ring can be topped up to
//     FillTarget: sending never starves receiving;
//   - the RX and fill rings have FillTarget slots and the TX and completion
//     rings TXLimit (rounded up to powers of two): no ring of ours overflows.
//
// The defaults are a half for receiving and a quarter for sending. A burst that
// is longer than the fill ring is lost in the kernel and counted there
// ([Statistics].FillEmpty).
//
// # Kicks and wake-ups
//
// In copy mode the kernel sends only inside a system call, some tens of frames
// a call: the port calls until the TX ring is empty or nothing moves any more,
// and says Room zero while frames are left. In zero-copy mode, and for the fill
// ring, the port calls only when the kernel has set the ring's need-wakeup flag.
//
// # Link down, link gone
//
// While the interface is down the kernel refuses to send (ENETDOWN): the port
// drops what it is given, counted as packet.SendFailed, and goes on by itself
// when the link is back; received packets simply stop. Once the interface is
// deleted the kernel unbinds the socket for good, and every call returns
// [packet.ErrPortGone].
//
// # Concurrency and limits
//
// A Port belongs to one worker, on a locked thread: the calls that cannot block
// are made without telling the Go scheduler. [Port.Statistics] may be called
// from elsewhere until Close.
//
// The package loads and attaches no XDP program, chooses no mode, parses no
// packet, and uses neither shared UMEMs, multi-buffer frames nor TX metadata.
// It needs Linux 5.9 (need_wakeup, bpf_link for XDP).
package xsk
