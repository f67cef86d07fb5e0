package health

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHealth(t *testing.T) {
	calls := 0
	h := New(func() { calls++ })
	if !errors.Is(h.Err(), ErrStarting) {
		t.Errorf("at first: %v", h.Err())
	}
	cause := errors.New("lease lost")
	for _, step := range []struct {
		set   error
		calls int
	}{{cause, 0}, {nil, 1}, {nil, 1}, {cause, 1}, {nil, 1}} {
		h.Set(step.set)
		if !errors.Is(h.Err(), step.set) || calls != step.calls {
			t.Errorf("after %v: %v, told %d times", step.set, h.Err(), calls)
		}
	}
	New(nil).Set(nil) // nobody to tell
}

func TestHealthFromManySides(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	h := New(func() { mu.Lock(); calls++; mu.Unlock() })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				h.Set(errors.New("no"))
				h.Set(nil)
				_ = h.Err()
			}
		})
	}
	wg.Wait()
	if calls != 1 {
		t.Errorf("told %d times", calls)
	}
}

func TestHandler(t *testing.T) {
	tests := []struct {
		name, method, path string
		err                error
		status             int
		body               string
	}{
		{"alive, not ready", "GET", "/healthz", ErrStarting, 200, "running"},
		{"not ready", "GET", "/readyz", errors.New("no lease"), 503, "no lease"},
		{"ready", "GET", "/readyz", nil, 200, "ready"},
		{"head", "HEAD", "/readyz", nil, 200, ""},
		{"other method", "POST", "/readyz", nil, 405, ""},
		{"other path", "GET", "/", nil, 404, ""},
		{"path below", "GET", "/healthz/x", nil, 404, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := New(nil)
			h.Set(test.err)
			w := httptest.NewRecorder()
			h.Handler().ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.body) {
				t.Errorf("%d %q", w.Code, w.Body)
			}
		})
	}
}

func TestListen(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 loopback: %v", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	h := New(nil)
	if _, err := h.Listen(netip.IPv6Loopback(), port); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("-healthz-port %d", port)) {
		t.Errorf("port taken: %v", err)
	}
	_ = l.Close()
	stop, err := h.Listen(netip.IPv6Loopback(), port)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := client.Get(fmt.Sprintf("http://[::1]:%d/healthz", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	// A client that says nothing does not hold up the end.
	silent, err := net.Dial("tcp", fmt.Sprintf("[::1]:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, _ = silent.Write([]byte("GET /healthz HTTP/1.1\r\n"))
	begin := time.Now()
	stop()
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("[::1]:%d", port)); err == nil {
		_ = c.Close()
		t.Error("still listening")
	}
}

func TestNotify(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))

	t.Setenv("NOTIFY_SOCKET", "")
	NotifyReady(logger)
	if log.Len() > 0 {
		t.Errorf("without systemd: %s", &log)
	}
	path := filepath.Join(t.TempDir(), "notify")
	t.Setenv("NOTIFY_SOCKET", path)
	NotifyReady(logger)
	if !strings.Contains(log.String(), "READY=1") {
		t.Errorf("nobody listens: logged %q", &log)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for want, notify := range map[string]func(*slog.Logger){"READY=1": NotifyReady, "STOPPING=1": NotifyStopping} {
		notify(logger)
		b := make([]byte, 64)
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := conn.Read(b); err != nil || string(b[:n]) != want {
			t.Errorf("told %q, %v; want %s", b[:n], err, want)
		}
	}
}
