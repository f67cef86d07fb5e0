// Package pace says when each packet is due, waits until then, and measures how
// well that went.
//
// The schedule is absolute: every due time counts from the start, never from the
// packet before, so that neither rounding nor a late packet adds up to drift. A
// sender that is late catches up.
//
// A [Schedule] and a [Clock] belong to one goroutine on a locked thread.
package pace
