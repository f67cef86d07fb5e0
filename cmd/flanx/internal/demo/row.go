package demo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"flanx/perf/gen"
)

const (
	transferWait = 120 * time.Second
	pingCount    = 3 // requests from each node to each other
)

// network is the overlay of every combination. It meets nothing in the lab, and
// no other network in these namespaces.
const network = "10.244.0.0/16"

// combo is one encapsulation on one way to the wire.
type combo struct{ encap, io string }

func (c combo) prefix() string { return "/flanx-demo/" + c.encap + "-" + c.io + "/network" }

// config is the network configuration as an operator would put it.
func (c combo) config() string {
	return fmt.Sprintf(`{"Network":%q,"Backend":{"Type":%q}}`, network, c.encap)
}

// act plays one combination on a stage.
type act struct {
	combo
	stage    *stage
	bytes    int
	seed     uint64
	patience time.Duration
	daemons  []*daemon
	row      Row
	tell     func(step string)
}

// play starts the daemons and checks everything. What goes wrong is in the row.
func (a *act) play(ctx context.Context) Row {
	a.row = Row{Encap: a.encap, Asked: a.io}
	for _, step := range []struct {
		tell string
		do   func(context.Context) error
	}{
		{"starting flanxd", a.start},
		{"waiting for leases", a.awaitLeases},
		{"waiting until all nodes reach each other", a.awaitReach},
		{"pinging", a.ping},
		{"moving data from pod to pod", a.transfer},
		{"looking at the way on the wire", a.checkWay},
	} {
		a.tell(step.tell)
		if err := step.do(ctx); err != nil {
			a.fail(err)
			break
		}
	}
	return a.row
}

// fail notes the first failure, with the logs of those that it is about.
func (a *act) fail(err error) {
	if a.row.Failure != "" {
		return
	}
	a.row.Failure = strings.ReplaceAll(err.Error(), "\n", ": ")
	a.row.Logs = map[string][]string{}
	var about *blame
	for _, d := range a.daemons {
		if !errors.As(err, &about) || about.names(d) {
			a.row.Logs[d.name()] = tail(d.log())
		}
	}
	a.row.Granted, a.row.Why = a.granted()
}

func (a *act) granted() (way, why string) {
	var logs [][]string
	for _, d := range a.daemons {
		logs = append(logs, d.log())
	}
	return granted(logs...)
}

// blame is an error that some daemons have to do with.
type blame struct {
	daemons []*daemon
	err     error
}

func (b *blame) Error() string { return b.err.Error() }
func (b *blame) Unwrap() error { return b.err }

func (b *blame) names(d *daemon) bool {
	for _, other := range b.daemons {
		if d == other {
			return true
		}
	}
	return false
}

func (a *act) start(ctx context.Context) error {
	dir := filepath.Join(a.stage.lab.Dir(), a.encap+"-"+a.io)
	for _, n := range a.stage.nodes {
		d, err := a.stage.startDaemon(ctx, n, dir, a.prefix(), a.io)
		if err != nil {
			return err
		}
		a.daemons = append(a.daemons, d)
	}
	return nil
}

// stop ends the daemons. That they end well is part of the verdict.
func (a *act) stop() {
	a.tell("stopping flanxd")
	for _, d := range a.daemons {
		if err := d.stop(); err != nil {
			a.fail(&blame{[]*daemon{d}, err})
		}
	}
}

func (a *act) awaitLeases(ctx context.Context) error {
	deadline := time.Now().Add(a.patience)
	for _, d := range a.daemons {
		if err := await(ctx, time.Until(deadline), d.process.Done(), d.lease); err != nil {
			return &blame{[]*daemon{d}, err}
		}
		if err := d.addressPod(); err != nil {
			return &blame{[]*daemon{d}, err}
		}
	}
	return nil
}

// addressPod does what a container runtime does with the subnet file.
func (d *daemon) addressPod() error {
	return d.node.pod.SetPodAddr(d.subnet.pod(), d.subnet.gateway.Addr(), d.subnet.mtu)
}

// awaitReach waits until one ping got through between every two nodes: a lease
// is seen by the others a moment after it was written.
func (a *act) awaitReach(ctx context.Context) error {
	deadline := time.Now().Add(a.patience)
	var failed error
	return a.pairs(func(from, to *daemon) error {
		if failed == nil { // one pair that is waited for in vain is enough
			failed = await(ctx, time.Until(deadline), from.process.Done(), func() error {
				return ping(ctx, from, to, 1, 200*time.Millisecond)
			})
		}
		return failed
	})
}

// ping counts the pairs of nodes between which no request stays unanswered.
func (a *act) ping(ctx context.Context) error {
	return a.pairs(func(from, to *daemon) error {
		a.row.Pings++
		err := ping(ctx, from, to, pingCount, time.Second)
		if err == nil {
			a.row.PingsOK++
		}
		return err
	})
}

// pairs calls fn for every two nodes, both ways, and returns the first error.
func (a *act) pairs(fn func(from, to *daemon) error) error {
	var first error
	for _, from := range a.daemons {
		for _, to := range a.daemons {
			if from == to {
				continue
			}
			if err := fn(from, to); err != nil && first == nil {
				first = &blame{[]*daemon{from, to}, err}
			}
		}
	}
	return first
}

func ping(ctx context.Context, from, to *daemon, count int, timeout time.Duration) error {
	res, err := gen.Ping(ctx, from.node.host.Do, gen.PingConfig{
		From: from.subnet.node(), To: to.subnet.node(), Count: count, Timeout: timeout,
	})
	if err == nil && !res.OK() {
		err = fmt.Errorf("ping from %s (%s) to %s (%s): %d of %d answered, %d twice", from.name(), from.subnet.node(),
			to.name(), to.subnet.node(), res.Received, res.Sent, res.Duplicates)
	}
	return err
}

// transfer moves the bytes from the first node's pod to the second's.
func (a *act) transfer(ctx context.Context) error {
	from, to := a.daemons[0], a.daemons[1]
	ctx, cancel := context.WithTimeout(ctx, transferWait)
	defer cancel()
	res, err := gen.Transfer(ctx, from.node.pod.Do, to.node.pod.Do, gen.TransferConfig{
		From: netip.AddrPortFrom(from.subnet.pod(), 0), To: netip.AddrPortFrom(to.subnet.pod(), 0),
		Bytes: a.bytes, Seed: a.seed,
	})
	if err != nil {
		return &blame{[]*daemon{from, to}, err}
	}
	a.row.BitsPerSecond, a.row.Intact = res.BitsPerSecond(), res.Intact()
	a.row.SHA256 = hex.EncodeToString(res.Received[:])
	if !res.Intact() {
		return &blame{[]*daemon{from, to}, fmt.Errorf("%d bytes arrived changed: SHA-256 %x was sent, %x received", res.Bytes, res.Sent, res.Received)}
	}
	return nil
}

// checkWay makes sure that what was measured is what was asked for.
func (a *act) checkWay(context.Context) error {
	a.row.Granted, a.row.Why = a.granted()
	if a.row.Granted == "" {
		return fmt.Errorf("no daemon said how it got on the wire")
	}
	if a.io == "auto" || a.io == "zerocopy" {
		return nil // takes what there is, or is refused by the daemon itself
	}
	for way := range strings.SplitSeq(a.row.Granted, " / ") {
		if !strings.HasPrefix(strings.ToLower(way), a.io) {
			return fmt.Errorf("asked for %s, granted %s: %s", a.io, way, a.row.Why)
		}
	}
	return nil
}
