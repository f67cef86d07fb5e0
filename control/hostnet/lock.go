package hostnet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// LockPath returns the lock file that goes with a subnet file. Daemons with
// separate subnet files do not meet.
func LockPath(subnetFile string) string { return subnetFile + ".lock" }

// Lock is held by the one instance that works with a subnet file. It ends with
// the process, also when that is killed; the file stays.
type Lock struct {
	file *os.File
}

// TakeLock takes the lock (flock(2)) or fails at once with [ErrLocked], naming
// the holder. The folder is made if need be. The holder is not disturbed.
func TakeLock(path string) (*Lock, error) {
	if err := makeDir(path); err != nil {
		return nil, fmt.Errorf("take lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, fmt.Errorf("take lock: %w", explainFile(err))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer func() { _ = f.Close() }()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w%s: it holds %s: stop it, or give this one its own -subnet-file", ErrLocked, holderPID(f), path)
		}
		return nil, fmt.Errorf("take lock %s: %w", path, err)
	}
	l := &Lock{file: f}
	l.writePID()
	return l, nil
}

// writePID leaves our process id for the message that a second instance prints.
// The lock holds without it.
func (l *Lock) writePID() {
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if n, err := l.file.WriteAt([]byte(pid), 0); err == nil {
		_ = l.file.Truncate(int64(n))
	}
}

func holderPID(f *os.File) string {
	var b [24]byte
	n, _ := f.ReadAt(b[:], 0)
	pid, err := strconv.Atoi(trimLine(b[:n]))
	if err != nil || pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// Release gives the lock up.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release lock: %w", err)
	}
	return nil
}

func makeDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return explainFile(err)
	}
	return nil
}

// explainFile adds the cure to an error of a file that we have to write.
func explainFile(err error) error {
	const choose = "choose another place with -subnet-file"
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: mount it writable, or %s", err, choose)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: free some space, or %s", err, choose)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: run as root, or %s", err, choose)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%w: remove what stands there, or %s", err, choose)
	}
	return err
}
