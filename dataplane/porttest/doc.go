// Package porttest is the suite that every dataplane.Port passes, whatever it
// is made of: a memory queue, a UDP socket, a TUN, an AF_XDP socket.
//
// A port's test says how to make a [Pair] (the port, its pool, and a [Far] end
// that plays the rest of the world) and calls [Run]. The suite opens a fresh
// pair for each case.
//
//	suite ── batches ──▶ Port ──▶ … wire … ──▶ Far ──▶ suite
//	suite ◀── batches ── Port ◀── … wire … ◀── Far ◀── suite
//
// What is held of every port: content and order both ways; an empty Recv is no
// error; Recv keeps to the batch's room and appends; Send leaves the batch
// empty, also without room and after Close; a sender that keeps to Room loses
// nothing; every frame is in the pool or accounted for; the descriptor becomes
// readable when a packet waits; a storm of signals changes nothing; Recv and
// Send do not allocate; Close may be called twice.
//
// [Namespace], [Wire] and [PacketFar] are helpers for ports that need the kernel's
// own devices; [Main] is a TestMain that fails on leaks.
package porttest
