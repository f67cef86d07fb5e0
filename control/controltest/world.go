package controltest

import (
	"testing"
	"time"

	"flanx/control"
)

// World is one store and the way around it. Keys are the last elements, as in
// lease.Subnets.Key; values are raw and may be malformed.
type World struct {
	Source control.Source

	SetConfig func(value string)
	Put       func(key, value string)
	Delete    func(key string)

	// Interrupt breaks the source's continuity, calls during while it is
	// broken, and mends it. Nil: this store cannot lose it.
	Interrupt func(during func())
}

// LeaserWorld is a store that allocates.
type LeaserWorld struct {
	// Open makes the leaser of one more node. A ttl of 0 is the default.
	Open func(ttl time.Duration) control.Leaser

	Put     func(key, value string) // without an etcd lease: a reservation
	PutFor  func(key, value string, ttl time.Duration)
	Delete  func(key string)
	Get     func(key string) (value string, found, reserved bool)
	Keys    func() []string
	Compact func() // forget history, so that old revisions cannot be used
}

// patience bounds every wait of the suites. What is waited for comes in
// milliseconds; the machine may be slow.
const patience = 20 * time.Second

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("in %s not seen: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
