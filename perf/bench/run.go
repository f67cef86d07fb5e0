package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"flanx/perf/bench/stat"
	"flanx/perf/lab"
)

// Config says what to compare, and how often.
type Config struct {
	Paths     []Path
	Workloads []Workload
	Rounds    int           // measured; each path and workload once in each
	Limit     time.Duration // of measuring; 0: none. What is not done by then is left out
	Wire      lab.Wire
}

// Estimate says how long a run will take, roughly.
func (c Config) Estimate() time.Duration {
	const setup = 700 * time.Millisecond // of a path, with its warm-up
	var each time.Duration
	for _, w := range c.Workloads {
		each += w.Takes
	}
	d := time.Duration(c.Rounds) * time.Duration(len(c.Paths)) * each
	if c.Limit > 0 {
		d = min(d, c.Limit)
	}
	return d + time.Duration(len(c.Paths))*setup
}

// ErrNothing says that no path yielded a single figure.
var ErrNothing = errors.New("nothing was measured")

// Run measures. tell hears what comes next, and how many measurements are done of
// how many. A result with rows comes back also with an error: it holds what was
// measured until then.
func Run(ctx context.Context, c Config, tell func(done, of int, what string)) (res Result, err error) {
	began := time.Now()
	res = newResult(c)
	stage := &stage{Config: c, res: &res, tell: tell, total: c.Rounds * len(c.Paths) * len(c.Workloads)}
	defer func() { err = errors.Join(err, stage.close()) }()
	for i, p := range c.Paths {
		tell(0, stage.total, "starting "+p.Name())
		stage.open(ctx, i, p)
		if ctx.Err() != nil {
			break
		}
	}
	measuring := ctx
	if c.Limit > 0 {
		var cancel func()
		measuring, cancel = context.WithTimeout(ctx, c.Limit)
		defer cancel()
	}
	for round := range c.Rounds {
		stage.round(measuring, round)
	}
	res.finish(time.Since(began))
	if res.empty() {
		err = errors.Join(ErrNothing, res.failures())
	}
	return res, errors.Join(err, ctx.Err())
}

// stage holds the paths in service.
type stage struct {
	Config
	res         *Result
	tell        func(done, of int, what string)
	done, total int
	running     []running
	labs        []*lab.Lab
}

type running struct {
	index int // of the path
	wire  *Wire
	ends  Ends
}

func (s *stage) close() error {
	var errs []error
	for _, l := range s.labs {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// open starts a path and warms it up. Failing is told in the path's row.
func (s *stage) open(ctx context.Context, i int, p Path) {
	r, err := s.start(ctx, p)
	if err != nil {
		s.res.Paths[i].Failure = err.Error()
		return
	}
	r.index = i
	s.res.Paths[i].Granted = r.ends.Granted
	s.running = append(s.running, r)
}

func (s *stage) start(ctx context.Context, p Path) (running, error) {
	l, err := lab.New(context.WithoutCancel(ctx), lab.Options{})
	if err != nil {
		return running{}, err
	}
	s.labs = append(s.labs, l)
	w := &Wire{Dir: filepath.Join(l.Dir(), "path")}
	if err := os.Mkdir(w.Dir, 0o755); err != nil {
		return running{}, fmt.Errorf("make folder of path: %w", err)
	}
	if w.A, err = l.Host("a"); err == nil {
		if w.B, err = l.Host("b"); err == nil {
			err = l.Connect(s.Wire, w.A, w.B)
		}
	}
	if err != nil {
		return running{}, err
	}
	ends, err := p.Start(ctx, w)
	if err == nil {
		err = reach(ctx, w, ends)
	}
	if err == nil {
		_, err = TCP(1, 50*time.Millisecond).measure(ctx, w, ends) // warm-up, not counted
	}
	return running{wire: w, ends: ends}, err
}

// round measures every workload on every path once. Each round begins with
// another path, so that none always follows the same one.
func (s *stage) round(ctx context.Context, round int) {
	for wi, w := range s.Workloads {
		for k := range s.running {
			r := s.running[(k+round)%len(s.running)]
			if ctx.Err() != nil {
				s.res.Cut = true
				return
			}
			s.tell(s.done, s.total, fmt.Sprintf("round %d of %d: %s on %s", round+1, s.Rounds, w.Name, s.Paths[r.index].Name()))
			s.done++
			sample, err := w.measure(ctx, r.wire, r.ends)
			cell := &s.res.Cells[wi*len(s.Paths)+r.index]
			switch {
			case err == nil:
				cell.Samples = append(cell.Samples, sample)
			case ctx.Err() == nil:
				cell.Failure = err.Error()
			default:
				s.res.Cut = true
			}
		}
	}
}

// rank compares the paths under one workload.
func rank(cells []Cell, lowerIsBetter bool) {
	var with []int
	var s []stat.Summary
	for i, c := range cells {
		if len(c.Samples) > 0 {
			with, s = append(with, i), append(s, c.Summary)
		}
	}
	for i, r := range stat.Ranks(s, lowerIsBetter) {
		cells[with[i]].Rank = r
	}
}
