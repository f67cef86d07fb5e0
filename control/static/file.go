package static

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flanx/control"
)

const (
	// pollInterval is how often the file is looked at.
	pollInterval = 500 * time.Millisecond
	// settleTime is how old a change must be before the same time stamp means
	// the same content: stamps of file systems are coarse.
	settleTime = 2 * time.Second
)

// File is a cluster in a file. It is safe for concurrent use; every call reads
// for itself.
type File struct {
	path string
	log  *slog.Logger
}

// New names the file; it need not exist yet. log may be nil.
func New(path string, log *slog.Logger) *File {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &File{path: path, log: log}
}

// stamp changes when the file is edited or replaced.
type stamp struct {
	inode    uint64
	size     int64
	modified time.Time
}

// read returns the bytes and their stamp.
func (f *File) read() ([]byte, stamp, error) {
	// Without O_NONBLOCK a named pipe would hold us until somebody writes.
	file, err := os.OpenFile(f.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, stamp{}, fmt.Errorf("%s is not a regular file", f.path)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	return data, stampOf(info), err
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = st.Ino
	}
	return s
}

// load reads and parses once; its errors are those of control.Source.Config.
func (f *File) load() (content, error) {
	data, _, err := f.read()
	if err != nil {
		return content{}, fmt.Errorf("%w: %w", control.ErrUnavailable, err)
	}
	return f.parse(data)
}

func (f *File) parse(data []byte) (content, error) {
	c, err := parse(data)
	switch {
	case errors.Is(err, errNoNetwork):
		return c, fmt.Errorf("%w: %s: %w", control.ErrNoConfig, f.path, err)
	case err != nil:
		return c, fmt.Errorf("%w: %s: %w", control.ErrBadConfig, f.path, err)
	}
	return c, nil
}

// reader looks at the file again and again.
type reader struct {
	file   *File
	stamp  stamp
	sum    [sha256.Size]byte // of the last content that was good
	began  bool              // there was one
	good   content
	failed int // looks in a row
	outage control.Outage
	warn   control.Warnings
}

func (f *File) reader() *reader {
	return &reader{file: f, outage: control.Outage{Log: f.log}, warn: control.Warnings{Log: f.log}}
}

// look says whether there is a new good content. One failure may be an editor at
// work; the second in a row is logged.
func (r *reader) look() (changed bool) {
	if r.failed == 0 && r.began && r.unchanged() {
		return false
	}
	changed, err := r.reload()
	if err == nil {
		r.failed = 0
		r.outage.Up("file can be read again", "file", r.file.path)
		return changed
	}
	r.failed++
	if r.failed > 1 {
		r.outage.Down("file cannot be read; its last good content stays in force", err, "file", r.file.path)
	}
	return false
}

func (r *reader) unchanged() bool {
	info, err := os.Stat(r.file.path)
	return err == nil && stampOf(info) == r.stamp && time.Since(r.stamp.modified) > settleTime
}

func (r *reader) reload() (changed bool, err error) {
	data, st, err := r.file.read()
	if err != nil {
		return false, err
	}
	sum := sha256.Sum256(data)
	if r.began && sum == r.sum {
		r.stamp = st
		return false, nil
	}
	c, err := r.file.parse(data)
	if err != nil {
		return false, err
	}
	for _, bad := range c.bad {
		r.warn.Warn("entry ignored", "file", r.file.path, "err", bad)
	}
	r.stamp, r.sum, r.began, r.good = st, sum, true, c
	return true, nil
}
