package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"flanx/perf/gen"
)

// Bytes moved each way. Software emulation is slow.
const transferBytes = 4 << 20

// mtus are the overlay's MTU on an Ethernet of 1,500 bytes.
var mtus = map[string]int{"vxlan": 1450, "udp": 1472}

// zeroCopy holds one encapsulation, with zero copy demanded.
func (t *trial) zeroCopy(encap string) {
	if !t.check(encap+": flanxd starts with -io zerocopy", t.start(encap, "zerocopy")) {
		return
	}
	for _, n := range t.nodes {
		at := encap + " on " + n.host.Name()
		t.check(at+": zero copy is granted, read back from XDP_OPTIONS", n.says(`granted=zero-copy`))
		t.check(at+": the XDP program runs in native mode", n.xdpMode("native"))
	}
	a, b := t.nodes[0], t.nodes[1]
	t.traffic(encap, a, b)
	t.traffic(encap, b, a)
	t.check(encap+": flanxd ends on SIGTERM", t.stop())
	for _, n := range t.nodes {
		t.check(encap+" on "+n.host.Name()+": the kernel counted no loss and no bad descriptor", n.matches(noLoss))
		t.check(encap+" on "+n.host.Name()+": the XDP program is gone", n.xdpMode("none"))
	}
}

// traffic moves pings, packets of MTU size and hashed TCP one way.
func (t *trial) traffic(encap string, from, to *node) {
	way := fmt.Sprintf("%s from %s to %s", encap, from.host.Name(), to.host.Name())
	t.check(way+": the way comes up", t.reach(from, to))
	t.check(way+": 50 pings", t.ping(from, to, 50, 56))
	t.check(way+": 20 pings of MTU size", t.ping(from, to, 20, mtus[encap]-28))
	r, err := gen.Transfer(t.ctx, from.host.Do, to.host.Do, gen.TransferConfig{
		From: addrPort(from), To: addrPort(to), Bytes: transferBytes, Seed: 1,
	})
	if err == nil && !r.Intact() {
		err = errors.New("what arrived is not what was sent")
	}
	t.check(fmt.Sprintf("%s: %d MiB over TCP, SHA-256 equal", way, transferBytes>>20), err)
}

// reach waits until one ping is answered: attaching XDP makes the driver set up
// its queues anew, and what comes in meanwhile is lost to anybody.
func (t *trial) reach(from, to *node) error {
	var err error
	for range 20 {
		if err = t.ping(from, to, 1, 56); err == nil {
			return nil
		}
	}
	return err
}

func addrPort(n *node) netip.AddrPort { return netip.AddrPortFrom(n.overlay, 0) }

func (t *trial) ping(from, to *node, count, size int) error {
	r, err := gen.Ping(t.ctx, from.host.Do, gen.PingConfig{
		From: from.overlay, To: to.overlay, Count: count, Size: size, Interval: 20 * time.Millisecond, Timeout: 2 * time.Second,
	})
	if err == nil && !r.OK() {
		err = fmt.Errorf("%d of %d answered, %d twice", r.Received, r.Sent, r.Duplicates)
	}
	return err
}

// says holds that the daemon's log has a text.
func (n *node) says(text string) error {
	if strings.Contains(n.log.String(), text) {
		return nil
	}
	return fmt.Errorf("the log does not say %q:\n%s", text, n.log.String())
}

// noLoss is what the kernel counts when all is well. fill_empty is no loss: the
// driver looks for more frames than its own ring takes when it starts.
var noLoss = regexp.MustCompile(`zerocopy=true dropped=0 ring_full=0 fill_empty=\d+ bad_rx=0 bad_tx=0`)

// matches holds that the daemon's log has what an expression describes.
func (n *node) matches(re *regexp.Regexp) error {
	if re.MatchString(n.log.String()) {
		return nil
	}
	return fmt.Errorf("the log has no %s:\n%s", re, n.log.String())
}

// xdpMode holds how the XDP program is attached to the node's card.
func (n *node) xdpMode(want string) error {
	got, err := n.host.XDPMode(n.card)
	if err == nil && got != want {
		err = fmt.Errorf("it is %s, want %s", got, want)
	}
	return err
}

// refusal holds what happens on cards that do not grant zero copy.
func (t *trial) refusal() {
	t.check("-io zerocopy is refused with the reason and exit code 4", t.refused())
	if !t.check("flanxd starts with -io auto", t.start("vxlan", "auto")) {
		return
	}
	a, b := t.nodes[0], t.nodes[1]
	for _, n := range t.nodes {
		t.check("auto on "+n.host.Name()+" copies", n.says(`granted="native copy"`))
		t.check("auto on "+n.host.Name()+" says why", n.says(`why="no zero-copy:`))
	}
	t.traffic("vxlan", a, b)
	t.check("flanxd ends on SIGTERM", t.stop())
	if t.failed > 0 {
		for _, n := range t.nodes {
			fmt.Print(n.log.String())
		}
	}
}

// refused starts a daemon that must not start.
func (t *trial) refused() error {
	n := t.nodes[0]
	if err := t.start("vxlan", "zerocopy"); err == nil {
		return errors.New("zero copy was granted")
	}
	for _, n := range t.nodes { // both were started, and both must end by themselves
		<-n.daemon.Done()
	}
	var exit *exec.ExitError
	if err := n.daemon.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 4 {
		return fmt.Errorf("flanxd ended with %w, want exit status 4\n%s", err, n.log.String())
	}
	return n.says("zero-copy")
}
