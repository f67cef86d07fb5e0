// Package pcapport is a capture file as a port: what is sent to it is written
// as pcap or pcapng, and what a source gives is received from it.
//
//	batch ─ Send ─▶ pcap or pcapng          Source ─ Recv ─▶ batch
//
// A file has times and a batch has none: the caller says with [Port.Stamp] which
// time belongs to a frame before it sends it, so that a capture which only
// changes its wrapping keeps its times.
//
// # Ownership and concurrency
//
// The port owns neither the file nor the source; Close writes out what is still
// buffered and closes nothing. A Port belongs to one goroutine.
//
// Reading the many forms of captures is not done here: see perf/replay/capture.
package pcapport
