// Package stat reduces repeated measurements to a median with a confidence
// interval, and says which of them differ. It is pure and deterministic.
package stat
