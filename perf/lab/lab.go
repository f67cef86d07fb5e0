package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// scratchRoot holds one folder per lab. Only root can write to /run, so nobody
// else can lay a link in our way.
const scratchRoot = "/run/flanx-lab"

// Options say what kind of lab it is. The zero value is right for tests.
type Options struct {
	// Name, if set, makes a lab that may outlive the program: its processes are
	// not bound to our life, Sweep spares it, and Leave leaves it running until
	// Remove(Name). Empty: the lab is named after the process and a counter.
	Name string
}

// Lab is a set of hosts and the wires between them.
type Lab struct {
	prefix string // of every namespace's name
	kept   bool   // named: processes may outlive us
	stop   func() bool

	mu     sync.Mutex
	closed bool
	hosts  []*Host // pods and switches too
	nodes  int     // hosts proper: numbers addresses
	wires  int     // numbers subnets
	once   sync.Once
	err    error // of Close
}

var (
	counter   atomic.Int64
	sweepOnce sync.Once
)

// New makes an empty lab. It is closed when ctx ends, or by Close. The first
// lab of a program also sweeps up after programs that died.
func New(ctx context.Context, opts Options) (*Lab, error) {
	if err := needRoot(); err != nil {
		return nil, err
	}
	sweepOnce.Do(func() { _, _ = Sweep() }) // what it cannot remove harms no new lab
	l := &Lab{prefix: fmt.Sprintf("flanx-%d-%d", os.Getpid(), counter.Add(1))}
	if opts.Name != "" {
		if err := checkName(opts.Name); err != nil {
			return nil, fmt.Errorf("name lab: %w", err)
		}
		l.prefix, l.kept = "flanx-"+opts.Name, true
	}
	if err := os.MkdirAll(scratchRoot, 0o755); err != nil {
		return nil, fmt.Errorf("make lab folder: %w", err)
	}
	if err := os.Mkdir(l.Dir(), 0o755); errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make lab %s: %w", l.prefix, ErrExists)
	} else if err != nil {
		return nil, fmt.Errorf("make lab folder: %w", err)
	}
	l.stop = context.AfterFunc(ctx, func() { _ = l.Close() })
	return l, nil
}

// Prefix returns what the name of each of the lab's namespaces begins with.
func (l *Lab) Prefix() string { return l.prefix }

// Dir returns the lab's scratch folder. It exists as long as the lab does.
func (l *Lab) Dir() string { return filepath.Join(scratchRoot, l.prefix) }

// Close kills every process in the lab's namespaces and removes the namespaces,
// their devices and the scratch folder. It is complete also after a failed
// construction. Later calls return the first one's error.
func (l *Lab) Close() error {
	l.once.Do(func() {
		l.release()
		l.err = remove(l.prefix)
	})
	return l.err
}

// Leave lets go of a named lab without ending it: only Remove does that now.
// An unnamed lab it closes.
func (l *Lab) Leave() error {
	if !l.kept {
		return l.Close()
	}
	l.once.Do(l.release)
	return l.err
}

// release gives back what this process holds: threads and descriptors.
func (l *Lab) release() {
	l.stop()
	l.mu.Lock()
	hosts := l.hosts
	l.closed = true
	l.mu.Unlock()
	for _, h := range hosts {
		h.spawner.close()
		_ = h.ns.Close() // read-only descriptor: nothing to lose
	}
}

// Remove ends the lab that was left running under name. It is no error when
// there is none: found tells.
func Remove(name string) (found bool, err error) {
	if err := needRoot(); err != nil {
		return false, err
	}
	if err := checkName(name); err != nil {
		return false, fmt.Errorf("remove lab: %w", err)
	}
	prefix := "flanx-" + name
	names, err := namespaces(prefix)
	if err != nil {
		return false, err
	}
	_, err = os.Stat(filepath.Join(scratchRoot, prefix))
	return len(names) > 0 || err == nil, remove(prefix)
}
