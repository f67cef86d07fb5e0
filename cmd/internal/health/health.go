// Package health answers whether the daemon is alive and whether the node
// serves, over HTTP as flanneld does and to systemd.
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// errStarting is why a node is not ready before anything was said.
var errStarting = errors.New("starting")

// Health holds whether the node serves. It is safe for use from anywhere.
type Health struct {
	onReady func()

	mu  sync.Mutex
	err error
}

// New returns a Health that is not ready. onReady, if not nil, is called the
// first time that it is.
func New(onReady func()) *Health { return &Health{onReady: onReady, err: errStarting} }

// Notify returns a function that tells systemd that the service has started
// (sd_notify(3)). Without systemd it does nothing.
func Notify(log *slog.Logger) func() {
	return func() {
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
			log.Warn("systemd was not told that the service is ready", "error", err)
		}
	}
}

// Set says why the node does not serve; nil: it does.
func (h *Health) Set(err error) {
	h.mu.Lock()
	h.err = err
	first := err == nil && h.onReady != nil
	call := h.onReady
	if first {
		h.onReady = nil
	}
	h.mu.Unlock()
	if first {
		call()
	}
}

// Err returns why the node does not serve.
func (h *Health) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Listen answers GET /healthz and GET /readyz until stop is called.
func (h *Health) Listen(ip netip.Addr, port int) (stop func(), err error) {
	addr := net.JoinHostPort(ip.String(), strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("answer health checks on -healthz-ip %s -healthz-port %d: %w", ip, port, err)
	}
	srv := &http.Server{Handler: h.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = srv.Serve(l) }()
	return func() { _ = srv.Shutdown(context.Background()) }, nil
}

// Handler answers GET /healthz and GET /readyz.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "flanxd is running")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := h.Err(); err != nil {
			http.Error(w, "flanxd is not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "flanxd is ready")
	})
	return mux
}
