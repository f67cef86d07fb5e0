package health

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Bounds for clients that are slow or mean harm; a check takes milliseconds.
const (
	clientTime  = 5 * time.Second
	idleTime    = time.Minute
	headerBytes = 8 << 10
	stopTime    = time.Second
)

// Listen answers GET /healthz and GET /readyz until stop is called, which may
// take a second for answers under way.
func (h *Health) Listen(ip netip.Addr, port int) (stop func(), err error) {
	l, err := net.Listen("tcp", net.JoinHostPort(ip.String(), strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("answer health checks on -healthz-ip %s -healthz-port %d: %w", ip, port, err)
	}
	return h.serve(l), nil
}

func (h *Health) serve(l net.Listener) (stop func()) {
	srv := &http.Server{
		Handler:     h.Handler(),
		ReadTimeout: clientTime, WriteTimeout: clientTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends with stop
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		<-done
	}
}

// Handler answers GET /healthz, with 200 as long as the process lives, and GET
// /readyz, with 200 while the node serves, else 503 and the reason.
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
