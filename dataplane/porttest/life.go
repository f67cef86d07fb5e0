package porttest

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"
)

func lifeCases() []Case {
	return []Case{
		{"BothWays", testBothWays},
		{"Signals", testSignals},
		{"CloseTwice", testCloseTwice},
		{"AfterClose", testAfterClose},
	}
}

// exchange sends n packets each way, interleaved, and checks them all.
func (d *driver) exchange(n int) {
	d.t.Helper()
	for number := range n {
		size := d.sizeOf(number)
		d.farSends(number, size)
		d.awaitRoom(1)
		d.add(number, size)
		d.send()
		d.flush()
		d.await(1)
		d.checkIn(0, number, size)
		d.in.Clear()
		d.farGets(number, size)
	}
}

func testBothWays(_ *testing.T, d *driver) {
	d.exchange(500)
	d.farIsQuiet()
	d.settled("after an exchange")
}

// testSignals runs an exchange under a storm of signals: EINTR must not show.
func testSignals(t *testing.T, d *driver) {
	quiet := storm(t)
	defer quiet()
	d.exchange(300)
	d.settled("after an exchange under signals")
}

// storm sends this process a signal every few microseconds until quiet is called.
func storm(t *testing.T) (quiet func()) {
	t.Helper()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1)
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
				time.Sleep(20 * time.Microsecond)
			}
		}
	})
	return func() {
		close(stop)
		done.Wait()
		signal.Stop(caught)
	}
}

func testCloseTwice(t *testing.T, d *driver) {
	for range 3 {
		start := time.Now()
		if err := d.Port.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("Close took %v", took)
		}
	}
}

func testAfterClose(t *testing.T, d *driver) {
	d.add(0, d.Min)
	if err := d.Port.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	free := d.Pool.Free()
	if err := d.Port.Recv(d.in); err == nil || d.in.Len() != 0 {
		t.Errorf("Recv after Close: %d packets, error %v", d.in.Len(), err)
	}
	if err := d.Port.Flush(); err == nil {
		t.Error("Flush after Close: no error")
	}
	if err := d.Port.Send(d.out); err == nil {
		t.Error("Send after Close: no error")
	}
	if d.out.Len() != 0 || d.out.Drops() == nil || lost(d.out) != 1 || d.Pool.Free() != free+1 {
		t.Errorf("Send after Close: %d packets left, %d counted as lost, %d frames freed; want 0, 1, 1",
			d.out.Len(), lost(d.out), d.Pool.Free()-free)
	}
}
