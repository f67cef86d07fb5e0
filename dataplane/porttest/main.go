package porttest

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Main runs a package's tests, for its TestMain, and fails them when they leave
// descriptors or goroutines behind.
func Main(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	wakeRuntime()
	fds, goroutines := count()
	code := m.Run()
	if code != 0 {
		return code // tests that fail may leave things
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		nowFDs, nowGoroutines := count()
		if nowFDs <= fds && nowGoroutines <= goroutines {
			return 0
		}
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "the tests left %d descriptors and %d goroutines behind\n%s",
				nowFDs-fds, nowGoroutines-goroutines, stacks())
			return 1
		}
	}
}

// wakeRuntime has the runtime start what it starts once and keeps: its poller, and
// the goroutine that hands out signals.
func wakeRuntime() {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1)
	signal.Stop(caught)
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
}

func count() (fds, goroutines int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries), runtime.NumGoroutine()
}

func stacks() []byte {
	buf := make([]byte, 1<<16)
	return buf[:runtime.Stack(buf, true)]
}
