package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Progress hears what a run is doing.
type Progress interface {
	// Plan is called once, with the number of steps to come.
	Plan(steps int)
	// Step is called when the next step begins.
	Step(text string)
	// Row is called when a combination has been judged.
	Row(r Row)
}

// stepsPerRow is how often an act tells what it does, when nothing fails.
const stepsPerRow = 7

// Run plays all combinations and returns their outcome. The error is not about
// them, but about the stage (no root, no flanxd, no etcd) or the end of ctx;
// what was played until then is in the report all the same. With Keep, how to
// look around is printed to out.
func Run(ctx context.Context, c Config, p Progress, out io.Writer) (rep Report, err error) {
	if err := c.complete(); err != nil {
		return Report{}, err
	}
	var combos []combo
	configs := map[string]string{}
	for _, encap := range c.Encaps {
		for _, io := range c.IOs {
			combos = append(combos, combo{encap, io})
			configs[combo{encap, io}.prefix()+"/config"] = combo{encap, io}.config()
		}
	}
	rep = Report{Hosts: c.Hosts, Bytes: c.Bytes}
	p.Plan(len(combos)*stepsPerRow + 1)
	p.Step(fmt.Sprintf("building %d hosts, starting etcd", c.Hosts))
	s, err := build(ctx, c, configs)
	if err != nil {
		return rep, err
	}
	var left *act // still running, when kept
	defer func() { err = errors.Join(err, s.leave(left, err, out)) }()
	for i, co := range combos {
		a := &act{combo: co, stage: s, bytes: c.Bytes, seed: uint64(i), patience: c.Patience}
		a.tell = func(step string) { p.Step(fmt.Sprintf("%s, %s: %s", co.encap, co.io, step)) }
		a.play(ctx)
		if c.Keep && i == len(combos)-1 {
			left = a
		} else {
			a.stop()
		}
		if err := ctx.Err(); err != nil {
			return rep, err
		}
		rep.Rows = append(rep.Rows, a.row)
		p.Row(a.row)
	}
	return rep, nil
}

// leave closes the lab, or leaves it running and prints how to look around.
func (s *stage) leave(a *act, err error, out io.Writer) error {
	if a == nil || err != nil {
		return s.lab.Close()
	}
	a.writeTour(out)
	return s.lab.Leave()
}

// writeTour prints commands that work in this very lab.
func (a *act) writeTour(w io.Writer) {
	fmt.Fprintf(w, "\nLeft running: %s, %s. To look around:\n\n", a.encap, a.io)
	for _, d := range a.daemons {
		fmt.Fprintf(w, "  ip netns exec %s ip addr        # %s, underlay %s, overlay %s\n",
			d.node.host.Namespace(), d.name(), d.node.host.Addr(), d.subnet.gateway.Masked())
	}
	if len(a.daemons) > 1 && a.daemons[1].subnet.gateway.IsValid() {
		from, to := a.daemons[0], a.daemons[1]
		fmt.Fprintf(w, "  ip netns exec %s ping %s        # the second host, through the overlay\n", from.node.host.Namespace(), to.subnet.node())
		fmt.Fprintf(w, "  ip netns exec %s ping %s        # pod to pod\n", from.node.pod.Namespace(), to.subnet.pod())
	}
	fmt.Fprintf(w, "  tail -f %s/%s-%s/*/flanxd.log   # the daemons' logs\n", a.stage.lab.Dir(), a.encap, a.io)
	fmt.Fprintf(w, "\netcd is at %s inside. To remove it all:\n\n  flanx demo --clean\n", a.stage.endpoint)
}

// last returns the highest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func lines(s []string) string { return strings.Join(s, "\n") }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
