package systemtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"flanx/control/embedetcd"
	"flanx/perf/lab"
)

// What all tests share, set by TestMain.
var (
	flanxd   string // the binary under test
	endpoint string // of the embedded etcd: a unix socket, which every namespace reaches
	etcd     *clientv3.Client
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run() // all skip, or fail under CI=true
	}
	dir, err := os.MkdirTemp("", "flanx-systemtest-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(dir)
	if flanxd, err = build(dir); err != nil {
		return complain(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := embedetcd.Start(ctx, embedetcd.Config{Listen: "unix://" + filepath.Join(dir, "etcd"), Dir: filepath.Join(dir, "data")})
	if err != nil {
		return complain(err)
	}
	defer server.Close()
	endpoint = server.URL()
	if etcd, err = connect(endpoint); err != nil {
		return complain(err)
	}
	defer etcd.Close()
	return m.Run()
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "systemtest:", err)
	return 1
}

func connect(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// build makes the daemon as "make build" does.
func build(dir string) (string, error) {
	if path := os.Getenv("FLANXD"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "flanxd")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "flanx/cmd/flanxd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build flanxd: %w\n%s", err, out)
	}
	return path, nil
}

// connectVia makes a client that dials from inside a host. gRPC dials on
// goroutines of its own, so being inside when it is made would not do.
func connectVia(h *lab.Host, endpoint string) (*clientv3.Client, error) {
	dial := func(ctx context.Context, addr string) (conn net.Conn, err error) {
		err = h.Do(func() (err error) {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return err
		})
		return conn, err
	}
	return clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)},
	})
}
