package host

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"
	"unique"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"flanx/dataplane/fib"
	"flanx/encap"
)

// NextHopsConfig says whose next hops to follow.
type NextHopsConfig struct {
	// IfIndex is the underlay interface, the one that frames leave by. It is
	// followed by its index, so renaming it changes nothing; when it is removed,
	// nothing is known any more, and a new NextHops is needed for its successor.
	IfIndex int
	// Local4 and Local6 are our addresses, for the kernel's source-dependent
	// routes. Remotes of a family without one are never known.
	Local4, Local6 netip.Addr
	// Log takes changes of the interface and lost events; nil discards them.
	Log *slog.Logger
}

// NextHops follows by netlink how frames leave one underlay interface for each
// tracked remote: its route, the neighbour that the route leads to, and the
// interface itself. It is what [fib.NextHops] asks for.
//
// A remote is known only while the kernel itself would send a packet for it out
// of this interface to a neighbour whose MAC it has. Otherwise packets belong
// into a UDP socket, which makes the kernel find the way: NextHops never begins
// to resolve a neighbour, and so never fills the kernel's table with nodes that
// nobody talks to.
//
// # Keeping neighbours alive
//
// The kernel does not see frames sent by AF_XDP, so it takes every neighbour for
// unused, lets it go stale, and would neither notice a dead or replaced one nor
// keep it. For each tracked neighbour that turns stale, NextHops tells the kernel
// that it is in use (NTF_USE, neigh_add in net/core/neighbour.c). The kernel then
// does what it does for its own traffic: it probes by unicast, and finds it
// reachable again, or failed, in which case the remote is not known any more.
// The delays are the kernel's (net.ipv4.neigh.*: base_reachable_time_ms,
// delay_first_probe_time, retrans_time_ms, ucast_solicit). Nothing is left
// behind in the kernel when we end, also by SIGKILL, unlike with managed entries
// (NTF_EXT_MANAGED), and nothing goes over the wire but the kernel's own probes,
// unlike with datagrams to a discard port.
//
// # Concurrency
//
// Run is one goroutine's, and starts another that ends before it returns. All
// other methods may be called from anywhere, at any time. The function given to
// Watch is called by Run alone, without locks held.
//
// Routes with several next hops count as the one that the kernel picks for our
// address and the remote's. A route over a tunnel of the kernel's (lwtunnel) is
// not known.
type NextHops struct {
	cfg     NextHopsConfig
	request *netlink.Handle
	routes  *routeSocket
	events  *neighEvents
	wake    chan struct{} // holds one token while there may be work
	close   func()

	mu       sync.Mutex
	changed  func([]netip.Addr)
	link     linkState
	neighs   map[netip.Addr]neighbour // all of our interface
	remotes  map[netip.Addr]unique.Handle[way]
	gateways map[netip.Addr]int // how many remotes are behind each
	todo     todo
	seen     seen
	stats    NextHopsStats
}

// NextHopsStats counts what a NextHops does, and says what it holds.
type NextHopsStats struct {
	Tracked    int    // remotes
	Known      int    // those of them that are known
	Neighbours int    // entries of the interface
	Lookups    uint64 // routes asked for
	Probes     uint64 // neighbours reported in use
	Resyncs    uint64 // times everything was read, the first included
	Lost       uint64 // times the kernel dropped events
}

// linkState is what matters of our interface.
type linkState struct {
	mac encap.MAC // zero: it has none, frames cannot be addressed
	mtu int
	up  bool // administratively, and with a carrier
}

// neighbour is the kernel's entry for one address on our interface.
type neighbour struct {
	mac   encap.MAC
	state uint16 // NUD_…
}

// nudValid are the states in which the kernel sends to the MAC it has: NUD_VALID
// in include/net/neighbour.h.
const nudValid = netlink.NUD_PERMANENT | netlink.NUD_NOARP | netlink.NUD_REACHABLE |
	netlink.NUD_PROBE | netlink.NUD_STALE | netlink.NUD_DELAY

// usable says whether frames may be sent to the MAC.
func (n neighbour) usable() bool { return n.state&nudValid != 0 && !n.mac.IsZero() }

// lead returns what of the neighbour shows in a NextHop.
func (n neighbour) lead() encap.MAC {
	if !n.usable() {
		return encap.MAC{}
	}
	return n.mac
}

// requestTimeout bounds how long the kernel may take to answer, so that a lost
// answer does not stop Run for ever.
const requestTimeout = 2 * time.Second

// NewNextHops subscribes to the changes of the calling thread's network
// namespace and reads nothing yet: Run does. Close it, or Run it to its end.
func NewNextHops(cfg NextHopsConfig) (*NextHops, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	events, err := subscribeNeighEvents(eventBuffer)
	if err != nil {
		return nil, err
	}
	routes, err := openRouteSocket()
	if err != nil {
		events.close()
		return nil, err
	}
	request, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		events.close()
		routes.close()
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	n := &NextHops{
		cfg: cfg, request: request, routes: routes, events: events,
		wake:     make(chan struct{}, 1),
		changed:  func([]netip.Addr) {},
		neighs:   map[netip.Addr]neighbour{},
		remotes:  map[netip.Addr]unique.Handle[way]{},
		gateways: map[netip.Addr]int{},
		todo:     todo{resync: true},
		close:    sync.OnceFunc(func() { request.Close(); routes.close(); events.close() }),
	}
	if err := request.SetSocketTimeout(requestTimeout); err != nil {
		n.close()
		return nil, fmt.Errorf("bound netlink answers: %w", err)
	}
	if _, err := request.LinkByIndex(cfg.IfIndex); err != nil {
		n.close()
		return nil, fmt.Errorf("find underlay interface %d: %w", cfg.IfIndex, err)
	}
	return n, nil
}

// Close ends a NextHops that is not running. One that runs ends with the context
// given to Run.
func (n *NextHops) Close() error {
	n.close()
	return nil
}

// Watch names the function to tell which remotes have another NextHop.
func (n *NextHops) Watch(changed func(remotes []netip.Addr)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = changed
}

// Track begins to follow remote. Its route is asked for soon, by Run.
func (n *NextHops) Track(remote netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.remotes[remote]; ok {
		return
	}
	n.remotes[remote] = noWay
	n.todo.lookup.add(remote)
	n.kick()
}

// Untrack forgets remote.
func (n *NextHops) Untrack(remote netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setWay(remote, noWay)
	delete(n.remotes, remote)
	delete(n.todo.lookup, remote)
}

// NextHop returns what is known of a tracked remote.
func (n *NextHops) NextHop(remote netip.Addr) fib.NextHop {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nextHop(remote)
}

func (n *NextHops) nextHop(remote netip.Addr) fib.NextHop {
	handle, ok := n.remotes[remote]
	if !ok {
		return fib.NextHop{}
	}
	w := handle.Value()
	nh := fib.NextHop{Local: w.local, IfIndex: w.ifIndex, MTU: w.mtu}
	if w.ifIndex != n.cfg.IfIndex || w.ifIndex == 0 {
		return nh
	}
	if nh.MTU == 0 || n.link.mtu < nh.MTU {
		nh.MTU = n.link.mtu
	}
	neigh := n.neighs[w.via(remote)]
	if n.link.up && !n.link.mac.IsZero() && neigh.usable() {
		nh.Known, nh.LocalMAC, nh.MAC = true, n.link.mac, neigh.mac
	}
	return nh
}

// Stats counts. It looks at every remote, and is for metrics.
func (n *NextHops) Stats() NextHopsStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.stats
	st.Tracked, st.Neighbours = len(n.remotes), len(n.neighs)
	for remote := range n.remotes {
		if n.nextHop(remote).Known {
			st.Known++
		}
	}
	return st
}

var _ fib.NextHops = (*NextHops)(nil)
