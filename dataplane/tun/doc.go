// Package tun makes a dataplane.Port of one queue of a TUN device.
//
// [Plain] moves one IP packet per system call, straight between the kernel and
// the frame that the underlay port uses. It needs nothing of the kernel but a
// TUN.
//
//	kernel ─ read ─▶ frame at Headroom ─▶ batch
//	kernel ◀─ write ─ frame, wherever the packet starts ◀─ batch
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
// What it does not do: judge the packets, or hold any when a call has returned.
package tun
