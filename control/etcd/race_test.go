//go:build race

package etcd_test

// parallel is less under the race detector, which keeps the processors busy.
const parallel = "2"
