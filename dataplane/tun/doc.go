// Package tun makes a dataplane.Port of one queue of a TUN device, in one of
// two modes.
//
// [Plain] moves one IP packet per system call, straight between the kernel and
// the frame that the underlay port uses. It needs nothing of the kernel but a
// TUN.
//
//	kernel ─ read ─▶ frame at Headroom ─▶ batch
//	kernel ◀─ write ─ frame, wherever the packet starts ◀─ batch
//
// [Offload] moves runs of one TCP or UDP flow per system call, by the
// virtio-net header (struct virtio_net_hdr) before each packet. Between the two
// edges a Buf stays one packet of one MTU, with all its checksums.
//
//	kernel ─ readv ─▶ 64 KiB packet ─ cut (super.go) ─▶ frames ─▶ batch
//	kernel ◀─ writev ─ header, and the payloads where they lie ◀─ merge (merger.go) ◀─ batch
//
// A packet of less than one MTU is read into its frame in place. A larger one
// overflows into a buffer of the port's, from which the pieces are copied.
// Merging copies nothing but one header. What merging would hide from the
// receiver (a wrong checksum, another TOS, a flag) keeps a packet out of a run,
// and the order within a flow stays.
//
// host.OpenTUN opens the descriptors; a port owns the one it is given.
//
// # When the device is down or gone
//
// A device that is down gives nothing to read, which is no error, and refuses
// every write, which drops the packet as TunWriteFailed. A device that was
// deleted, or whose namespace is gone, makes Recv and Send return
// packet.ErrPortGone, and the descriptor stays ready for polling (POLLERR), so
// whoever polls finds out at once.
//
// # Concurrency
//
// A port belongs to one worker. Its system calls do not tell Go's scheduler,
// because none of them can block.
//
// What it does not do: judge the packets, beyond what cutting and merging them
// takes, or hold a frame when a call has returned. Offload's Recv may hold the
// bytes of a packet that has more pieces than the batch had room.
package tun
