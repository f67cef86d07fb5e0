package embedetcd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func client(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.URL()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestServerAnswersAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := start(t, Config{})
	if !strings.HasPrefix(s.URL(), "http://127.0.0.1:") || strings.HasSuffix(s.URL(), ":0") {
		t.Errorf("URL is %s", s.URL())
	}
	c := client(t, s)
	if _, err := c.Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestServerOnSocket(t *testing.T) {
	s := start(t, Config{Listen: "unix://" + filepath.Join(t.TempDir(), "etcd")})
	if _, err := client(t, s).Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
}

func TestGivenDirectoryKeepsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, Config{Dir: dir})
	c := client(t, s)
	if _, err := c.Put(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	listen := s.URL()
	s.Close()
	s = start(t, Config{Dir: dir, Listen: listen})
	if s.URL() != listen {
		t.Errorf("URL is %s, asked for %s", s.URL(), listen)
	}
	resp, err := client(t, s).Get(t.Context(), "a")
	if err != nil || len(resp.Kvs) != 1 {
		t.Errorf("data after a restart: %v, %v", resp, err)
	}
}

func TestStartFails(t *testing.T) {
	first := start(t, Config{})
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for name, cfg := range map[string]Config{
		"port taken":  {Listen: first.URL()},
		"no URL":      {Listen: "://"},
		"name":        {Listen: "http://example.test:0"},
		"no TLS file": {Listen: "https://127.0.0.1:0", TLS: TLS{CertFile: "/nonexistent", KeyFile: "/nonexistent"}},
	} {
		if s, err := Start(t.Context(), cfg); err == nil {
			t.Errorf("%s: started at %s", name, s.URL())
			s.Close()
		}
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStartEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Start(ctx, Config{}); err == nil {
		s.Close() // it was quicker than the context
	}
}
