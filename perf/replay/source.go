package replay

import (
	"errors"
	"fmt"
	"io"

	"flanx/perf/replay/capture"
)

// ErrPreload says that the capture does not fit in the memory allowed for it.
var ErrPreload = errors.New("capture is too large to preload")

// source gives the records of a capture again and again: from the file, or from
// memory once it was read.
type source struct {
	open   func() (*capture.Reader, func(), error)
	limit  int64 // bytes to keep; 0 none
	format string

	reader *capture.Reader
	done   func()

	kept    []capture.Record
	slab    []byte
	loaded  bool
	loadErr error // how the file ended, if badly
	at      int
	noted   capture.Counts
}

func newSource(cfg Config) *source {
	return &source{open: cfg.Open, limit: cfg.Preload, done: func() {}}
}

// begin goes to the first record.
func (s *source) begin() error {
	s.at = 0
	if s.loaded {
		return nil
	}
	s.close()
	r, done, err := s.open()
	if err != nil {
		return err
	}
	s.reader, s.done, s.format = r, done, r.Format()
	if s.limit > 0 {
		return s.load()
	}
	return nil
}

// load reads all records into memory.
func (s *source) load() error {
	var rec capture.Record
	for {
		err := s.reader.Next(&rec)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.loadErr = err
			}
			break
		}
		const bookkeeping = 64 // bytes of a Record besides its data
		if int64(len(s.slab)+len(rec.Data)+(len(s.kept)+1)*bookkeeping) > s.limit {
			return fmt.Errorf("%w: more than %d bytes", ErrPreload, s.limit)
		}
		start := len(s.slab)
		s.slab = append(s.slab, rec.Data...)
		// The slab may move as it grows: only lengths are right until the end.
		rec.Data = s.slab[start:]
		s.kept = append(s.kept, rec)
	}
	rest := s.slab
	for i := range s.kept {
		n := len(s.kept[i].Data)
		s.kept[i].Data, rest = rest[:n:n], rest[n:]
	}
	s.loaded = true
	return nil
}

// next returns io.EOF at the end of each loop.
func (s *source) next(rec *capture.Record) error {
	if !s.loaded {
		return s.reader.Next(rec)
	}
	if s.at == len(s.kept) {
		if s.loadErr != nil {
			return s.loadErr
		}
		return io.EOF
	}
	*rec = s.kept[s.at]
	s.at++
	return nil
}

// counts returns what was met since the last call. Of a capture in memory that
// is the records, for each time that they are gone through.
func (s *source) counts() capture.Counts {
	if s.loaded && s.noted != (capture.Counts{}) {
		return capture.Counts{Records: uint64(s.at)}
	}
	if s.loaded {
		s.noted = s.reader.Counts()
		return s.noted
	}
	if s.reader == nil {
		return capture.Counts{}
	}
	return s.reader.Counts()
}

func (s *source) close() {
	if s.reader != nil {
		s.reader.Close()
	}
	s.done()
	s.reader, s.done = nil, func() {}
}
