// Package stats counts what workers do, so that others may read it while they
// run.
//
// Each [Worker] belongs to one worker, the only writer, who publishes totals
// once per batch with plain atomic stores: there is no shared counter and no
// locked instruction per packet. Readers take a [Snapshot] at any time; it is
// consistent to within one batch per counter.
package stats
