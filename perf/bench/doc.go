// Package bench answers which way of carrying packets between two hosts is best
// on this machine. Each [Path] gets two network namespaces and a wire of its own;
// all are in service at once, and the rounds are interleaved (A B C, A B C, …), so
// that what disturbs the machine disturbs all alike.
//
// What counts is what the receiver counted. A figure is the median over rounds
// with a bootstrap interval (package stat); paths are ranked only where intervals
// are apart, and never on fewer than stat.MinSamples rounds. CPU time is the whole
// machine's (/proc/stat), which holds the generators and what else ran, and the
// daemons' own (/proc/PID/stat); both tick at 10 ms.
//
// A path that cannot start is a row that says so. When the context ends, what was
// measured until then is the result.
//
// Run builds everything inside namespaces and removes it; one Run at a time, for
// two would measure each other. It needs root.
package bench
