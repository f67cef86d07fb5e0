package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
	"unique"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"flanx/encap"
)

const (
	// gatherTime is how long events may gather before they are acted on, so
	// that a burst costs one round. It is most of the reaction time.
	gatherTime = 10 * time.Millisecond
	// tellTime is how long routes that were looked up may wait for more before
	// they are told of: telling of many together is cheaper.
	tellTime = 200 * time.Millisecond
	// lookupBatch is how many routes are looked up before other work is looked
	// at again.
	lookupBatch = 1024
	// sweepTime is how often everything is read again: for what the kernel does
	// not tell of (path MTUs, redirects, some routes that go with their
	// interface), and for whatever was misunderstood.
	sweepTime = 30 * time.Second
	// readAllShare bounds the reading of everything to one part in so many of
	// the time, however often links and rules change.
	readAllShare = 4
	// retryTime is how long to wait after everything could not be read.
	retryTime = time.Second
	// dumpTries is how often to ask again when the kernel says that its answer
	// is inconsistent (NLM_F_DUMP_INTR) before taking it as it is.
	dumpTries = 4
)

// Run follows the kernel until ctx ends, and then returns ctx's error. Any other
// error means that nothing is followed any more. It is called once, and closes n
// before it returns.
func (n *NextHops) Run(ctx context.Context) error {
	defer n.close()
	reader := make(chan error, 1)
	go func() { reader <- n.readEvents() }()
	err := n.run(ctx, reader)
	if err != nil {
		return err // the reader's, so it has ended
	}
	n.events.interrupt()
	<-reader
	return ctx.Err()
}

// run works through what there is to do until ctx ends, or the reader does,
// which it does by itself only with an error.
func (n *NextHops) run(ctx context.Context, reader <-chan error) error {
	sweep := time.NewTicker(sweepTime)
	defer sweep.Stop()
	var pace pacer
	n.kick()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-reader:
			return err
		case <-sweep.C:
			n.sweep()
			continue
		case <-pace.again:
			pace.again = nil
		case <-n.wake:
			if !sleep(ctx, gatherTime) {
				return nil
			}
		}
		n.work(ctx, &pace)
	}
}

// sleep waits and says whether it was left to wait to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// kick makes Run look for work. It never blocks.
func (n *NextHops) kick() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// sweep has everything read again.
func (n *NextHops) sweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.todo.resync = true
	n.kick()
}

// work does what there is to do, a batch of lookups at a time, so that a change
// of a neighbour need not wait for 65,536 routes.
func (n *NextHops) work(ctx context.Context, pace *pacer) {
	var changed []netip.Addr
	told := time.Now()
	for more := true; more && ctx.Err() == nil; {
		n.mu.Lock()
		t := n.take(pace)
		more = len(n.todo.lookup) > 0
		n.mu.Unlock()

		start := time.Now()
		if t.resync && !n.resync() {
			pace.notBefore(retryTime)
		}
		changed = append(changed, n.lookUpAll(t.lookup)...)
		if t.resync || t.all || more {
			pace.spent(time.Since(start))
		}
		if !more || time.Since(told) > tellTime {
			n.tell(changed, &t)
			changed, told = nil, time.Now()
		} else {
			n.tell(nil, &t)
		}
		n.probe(t.probe)
	}
}

// resync reads our interface and its neighbours, and says whether it could.
func (n *NextHops) resync() bool {
	n.mu.Lock()
	n.seen = seen{reading: true}
	n.stats.Resyncs++
	n.mu.Unlock()

	link, linkErr := n.readLink()
	neighs, neighErr := n.readNeighs()

	n.mu.Lock()
	defer n.mu.Unlock()
	newer := n.seen
	n.seen = seen{}
	n.kick() // what comes out is work
	if linkErr == nil && !newer.link {
		n.setLink(link)
	}
	for a := range n.neighs {
		if _, ok := neighs[a]; !ok && neighErr == nil && !newer.neighs.has(a) {
			n.setNeigh(a, neighbour{})
		}
	}
	for a, neigh := range neighs {
		if !newer.neighs.has(a) {
			n.setNeigh(a, neigh)
		}
	}
	if err := errors.Join(linkErr, neighErr); err != nil {
		n.todo.resync = true
		n.cfg.Log.Warn("next hops may be out of date, reading again", "error", err)
		return false
	}
	return true
}

func (n *NextHops) readLink() (linkState, error) {
	link, err := n.request.LinkByIndex(n.cfg.IfIndex)
	var notFound netlink.LinkNotFoundError
	if errors.As(err, &notFound) {
		return linkState{}, nil
	}
	if err != nil {
		return linkState{}, fmt.Errorf("read interface %d: %w", n.cfg.IfIndex, err)
	}
	attrs := link.Attrs()
	state := linkState{mtu: attrs.MTU, up: isUp(attrs.RawFlags)}
	if len(attrs.HardwareAddr) == len(state.mac) {
		state.mac = encap.MAC(attrs.HardwareAddr)
	}
	return state, nil
}

func (n *NextHops) readNeighs() (map[netip.Addr]neighbour, error) {
	var list []netlink.Neigh
	err := error(netlink.ErrDumpInterrupted)
	for try := 0; try < dumpTries && errors.Is(err, netlink.ErrDumpInterrupted); try++ {
		list, err = n.request.NeighListExecute(netlink.Ndmsg{Index: uint32(n.cfg.IfIndex)})
	}
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("read neighbours of interface %d: %w", n.cfg.IfIndex, err)
	}
	neighs := make(map[netip.Addr]neighbour, len(list))
	for i := range list {
		l := &list[i]
		a, ok := addrOf(l.IP)
		if !ok || l.Family != unix.AF_INET && l.Family != unix.AF_INET6 || l.Flags&unix.NTF_PROXY != 0 {
			continue
		}
		neigh := neighbour{state: uint16(l.State)}
		if len(l.HardwareAddr) == len(neigh.mac) {
			neigh.mac = encap.MAC(l.HardwareAddr)
		}
		neighs[a] = neigh
	}
	return neighs, nil
}

// lookUpAll looks up the routes to remotes and returns those that have another
// way now.
func (n *NextHops) lookUpAll(remotes addrSet) (changed []netip.Addr) {
	type found struct {
		remote netip.Addr
		way    unique.Handle[way]
	}
	list := make([]found, 0, len(remotes))
	for remote := range remotes { // without the lock, which Track waits for
		list = append(list, found{remote, unique.Make(n.lookUp(remote))})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stats.Lookups += uint64(len(list))
	for _, f := range list {
		if !n.setWay(f.remote, f.way) {
			continue
		}
		changed = append(changed, f.remote)
		if via := f.way.Value().via(f.remote); n.neighs[via].state == unix.NUD_STALE && n.used(via) {
			n.todo.probe.add(via)
			n.kick()
		}
	}
	return changed
}

// tell tells of the remotes that changed, and of those behind neighbours that
// did.
func (n *NextHops) tell(changed []netip.Addr, t *todo) {
	n.mu.Lock()
	gateway := false
	for neigh := range t.tell {
		gateway = gateway || n.gateways[neigh] > 0
		if _, ok := n.remotes[neigh]; ok {
			changed = append(changed, neigh)
		}
	}
	if gateway || t.tellAll {
		for remote, handle := range n.remotes {
			if t.tellAll || t.tell.has(handle.Value().gateway) {
				changed = append(changed, remote)
			}
		}
	}
	fn := n.changed
	n.mu.Unlock()
	if len(changed) > 0 {
		fn(changed)
	}
}

// probe tells the kernel that these neighbours are in use, if they are still
// stale: to a permanent entry NTF_USE would do harm, for it makes it an ordinary
// one (__neigh_update in net/core/neighbour.c).
func (n *NextHops) probe(neighs addrSet) {
	for a := range neighs {
		n.mu.Lock()
		still := n.neighs[a].state == unix.NUD_STALE && n.used(a)
		if still {
			n.stats.Probes++
		}
		n.mu.Unlock()
		if !still {
			continue
		}
		err := n.request.NeighSet(&netlink.Neigh{
			LinkIndex: n.cfg.IfIndex, IP: net.IP(a.AsSlice()), Flags: netlink.NTF_USE,
		})
		if err != nil { // the sweep tries again
			n.cfg.Log.Debug("neighbour not probed", "neighbour", a, "error", err)
		}
	}
}
