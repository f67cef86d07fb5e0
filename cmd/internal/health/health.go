package health

import (
	"errors"
	"sync"
)

// ErrStarting is why a node is not ready before anything was said.
var ErrStarting = errors.New("starting")

// Health holds whether the node serves. It is safe for use from anywhere.
type Health struct {
	onReady func()

	mu  sync.Mutex
	err error
}

// New returns a Health that is not ready. onReady, if not nil, is called the
// first time that it is.
func New(onReady func()) *Health { return &Health{onReady: onReady, err: ErrStarting} }

// Set says why the node does not serve; nil: it does.
func (h *Health) Set(err error) {
	h.mu.Lock()
	h.err = err
	var call func()
	if err == nil {
		call, h.onReady = h.onReady, nil
	}
	h.mu.Unlock()
	if call != nil {
		call()
	}
}

// Err returns why the node does not serve.
func (h *Health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
