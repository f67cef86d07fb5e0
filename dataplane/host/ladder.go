package host

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"flanx/dataplane/xdpprog"
	"flanx/dataplane/xsk"
)

// Grant is where a climb ended.
type Grant struct {
	Rung   Rung
	XSK    *XSK   // nil on the UDP rung
	Missed []Miss // the better rungs, best first; empty when the rung was demanded

	device Device
}

// Miss is a rung that could not be had.
type Miss struct {
	Rung Rung
	Err  error
}

// Climb opens the rung that is demanded, or, for Auto, the best one that works;
// the last, UDP, always does and opens nothing. It leaves nothing behind of the
// rungs that it tried.
func Climb(cfg XSKConfig, want Rung) (*Grant, error) {
	return climb(cfg, want, OpenXSK)
}

func climb(cfg XSKConfig, want Rung, open func(XSKConfig, Rung) (*XSK, error)) (*Grant, error) {
	device, err := Probe(cfg.IfIndex)
	if err != nil {
		return nil, err
	}
	g := &Grant{Rung: want, device: device}
	switch want {
	case UDP:
		return g, nil
	case Auto:
		g.Rung = UDP
		g.tryAll(cfg, open)
		return g, nil
	}
	if g.XSK, err = open(cfg, want); err != nil {
		return nil, fmt.Errorf("no %s on %s: %w", want.Words(), device.description(), err)
	}
	return g, nil
}

// tryAll goes down the rungs of AF_XDP until one opens, or none can.
func (g *Grant) tryAll(cfg XSKConfig, open func(XSKConfig, Rung) (*XSK, error)) {
	for _, rung := range []Rung{ZeroCopy, Native, Generic} {
		x, err := open(cfg, rung)
		if err == nil {
			g.Rung, g.XSK = rung, x
			return
		}
		g.Missed = append(g.Missed, Miss{rung, err})
		if hopeless(err) {
			return
		}
	}
}

// hopeless says whether the rungs below would fail by the same cause.
func hopeless(err error) bool {
	for _, cause := range []error{
		xdpprog.ErrForeignProgram, xdpprog.ErrConfig, xsk.ErrQueueBusy, xsk.ErrConfig,
		ErrMTU, ErrTooFewQueues, unix.EPERM, unix.EAFNOSUPPORT, unix.ENOSYS,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// String says in one line what was got and why nothing better, as in
// "native copy (no zero-copy: driver veth does not offer it)".
func (g *Grant) String() string {
	if why := g.Why(); why != "" {
		return fmt.Sprintf("%s (%s)", g.Rung.Words(), why)
	}
	return g.Rung.Words()
}

// Why says in one line why it is nothing better; empty when the rung was
// demanded, or is the best.
func (g *Grant) Why() string {
	var why []string
	for _, m := range g.Missed {
		what := m.Rung.Words()
		if hopeless(m.Err) {
			what = "AF_XDP"
		}
		why = append(why, fmt.Sprintf("no %s: %s", what, g.reason(m)))
	}
	return strings.Join(why, "; ")
}

// reason shortens the commonest error to what it means; others speak for
// themselves, on one line.
func (g *Grant) reason(m Miss) string {
	if m.Rung == ZeroCopy && errors.Is(m.Err, xsk.ErrNotSupported) && errors.Is(m.Err, unix.EOPNOTSUPP) {
		return "driver " + g.device.Driver + " does not offer it"
	}
	return strings.ReplaceAll(m.Err.Error(), "\n", "; ")
}
