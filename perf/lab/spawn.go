package lab

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// spawner is one thread that lives inside a host as long as the lab does, and
// starts its processes. A process that asks for a signal when its parent dies
// gets it when the parent's *thread* dies (prctl(2), PR_SET_PDEATHSIG), so
// threads that come and go must not start any.
type spawner struct {
	ns    *os.File
	start sync.Once
	stop  sync.Once
	jobs  chan func()
	quit  chan struct{}
	ready error // of entering; set before the first job runs
}

func newSpawner(ns *os.File) *spawner {
	return &spawner{ns: ns, jobs: make(chan func()), quit: make(chan struct{})}
}

// do runs fn on the spawner's thread and returns its error.
func (s *spawner) do(fn func() error) error {
	s.start.Do(func() { go s.run() })
	var err error
	done := make(chan struct{})
	job := func() {
		defer close(done)
		if err = s.ready; err == nil {
			err = fn()
		}
	}
	select {
	case s.jobs <- job:
		<-done
		return err
	case <-s.quit:
		return ErrClosed
	}
}

func (s *spawner) close() { s.stop.Do(func() { close(s.quit) }) }

// run never unlocks its thread, so the thread ends with it, and with the thread
// the processes that it started.
func (s *spawner) run() {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end, and would hold the namespace for good:
		// keep it locked here while another thread takes the job.
		moved := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(moved)
			s.serve()
		}()
		<-moved
		runtime.UnlockOSThread()
		return
	}
	s.serve()
}

func (s *spawner) serve() {
	s.ready = s.settle()
	for {
		select {
		case job := <-s.jobs:
			job()
		case <-s.quit:
			return
		}
	}
}

// settle moves the thread into the host, and gives it a /sys that shows the
// host's devices, as ip-netns(8) does.
func (s *spawner) settle() error {
	if err := enter(s.ns); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mounts: %w", err)
	}
	// Slave: unmounts outside still reach us, ours reach nobody.
	if err := unix.Mount("", "/", "none", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount /sys: %w", err)
	}
	return wrap(unix.Mount("sysfs", "/sys", "sysfs", 0, ""), "mount /sys")
}
