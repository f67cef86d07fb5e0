package host

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unique"

	"golang.org/x/sys/unix"

	"flanx/encap"
)

// quiet returns a NextHops of interface 2 without a kernel behind it.
func quiet() *NextHops {
	n := &NextHops{
		cfg:      NextHopsConfig{IfIndex: 2, Local4: netip.MustParseAddr("192.0.2.1")},
		wake:     make(chan struct{}, 1),
		changed:  func([]netip.Addr) {},
		neighs:   map[netip.Addr]neighbour{},
		remotes:  map[netip.Addr]unique.Handle[way]{},
		gateways: map[netip.Addr]int{},
		link:     linkState{mac: encap.MAC{2, 1}, mtu: 1500, up: true},
	}
	n.cfg.Log = slog.New(slog.DiscardHandler)
	return n
}

// attr encodes one attribute as rtnetlink(7) says.
func attr(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func neighMessage(family byte, ifIndex uint32, state uint16, flags byte, attrs ...[]byte) []byte {
	b := make([]byte, unix.SizeofNdMsg)
	b[0], b[10] = family, flags
	binary.NativeEndian.PutUint32(b[4:], ifIndex)
	binary.NativeEndian.PutUint16(b[8:], state)
	return append(b, join(attrs)...)
}

func linkMessage(family byte, ifIndex, flags uint32, attrs ...[]byte) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	b[0] = family
	binary.NativeEndian.PutUint32(b[4:], ifIndex)
	binary.NativeEndian.PutUint32(b[8:], flags)
	return append(b, join(attrs)...)
}

func join(attrs [][]byte) (b []byte) {
	for _, a := range attrs {
		b = append(b, a...)
	}
	return b
}

func TestParseNeigh(t *testing.T) {
	dst, mac := []byte{192, 0, 2, 9}, []byte{2, 0, 0, 0, 0, 9}
	for _, tc := range []struct {
		name   string
		msg    []byte
		ok     bool
		usable bool
	}{
		{"reachable", neighMessage(unix.AF_INET, 2, unix.NUD_REACHABLE, 0, attr(unix.NDA_DST, dst), attr(unix.NDA_LLADDR, mac)), true, true},
		{"stale", neighMessage(unix.AF_INET, 2, unix.NUD_STALE, 0, attr(unix.NDA_DST, dst), attr(unix.NDA_LLADDR, mac)), true, true},
		{"permanent", neighMessage(unix.AF_INET, 2, unix.NUD_PERMANENT, 0, attr(unix.NDA_DST, dst), attr(unix.NDA_LLADDR, mac)), true, true},
		{"failed with its old MAC", neighMessage(unix.AF_INET, 2, unix.NUD_FAILED, 0, attr(unix.NDA_DST, dst), attr(unix.NDA_LLADDR, mac)), true, false},
		{"incomplete", neighMessage(unix.AF_INET, 2, unix.NUD_INCOMPLETE, 0, attr(unix.NDA_DST, dst)), true, false},
		{"zero MAC", neighMessage(unix.AF_INET, 2, unix.NUD_REACHABLE, 0, attr(unix.NDA_DST, dst), attr(unix.NDA_LLADDR, make([]byte, 6))), true, false},
		{"no MAC", neighMessage(unix.AF_INET, 2, unix.NUD_NOARP, 0, attr(unix.NDA_DST, dst)), true, false},
		{"MAC of 4 bytes (a tunnel's)", neighMessage(unix.AF_INET, 2, unix.NUD_PERMANENT, 0, attr(unix.NDA_DST, dst), attr(unix.NDA_LLADDR, dst)), true, false},
		{"v6", neighMessage(unix.AF_INET6, 2, unix.NUD_DELAY, unix.NTF_ROUTER, attr(unix.NDA_DST, make([]byte, 16)), attr(unix.NDA_LLADDR, mac)), true, true},
		{"no address", neighMessage(unix.AF_INET, 2, unix.NUD_REACHABLE, 0, attr(unix.NDA_LLADDR, mac)), false, false},
		{"address of 5 bytes", neighMessage(unix.AF_INET, 2, unix.NUD_REACHABLE, 0, attr(unix.NDA_DST, make([]byte, 5))), false, false},
		{"other interface", neighMessage(unix.AF_INET, 3, unix.NUD_REACHABLE, 0, attr(unix.NDA_DST, dst)), false, false},
		{"bridge's forwarding entry", neighMessage(unix.AF_BRIDGE, 2, unix.NUD_REACHABLE, 0, attr(unix.NDA_LLADDR, mac)), false, false},
		{"proxied address", neighMessage(unix.AF_INET, 2, unix.NUD_PERMANENT, unix.NTF_PROXY, attr(unix.NDA_DST, dst)), false, false},
		{"cut header", make([]byte, unix.SizeofNdMsg-1), false, false},
		{"cut attribute", append(neighMessage(unix.AF_INET, 2, unix.NUD_REACHABLE, 0), 255, 0, 1, 0), false, false},
		{"attribute of no length", append(neighMessage(unix.AF_INET, 2, unix.NUD_REACHABLE, 0), 0, 0, 1, 0), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, n, ok := parseNeigh(tc.msg, 2)
			if ok != tc.ok || ok && n.usable() != tc.usable {
				t.Errorf("parsed %v, usable %v; want %v, %v", ok, n.usable(), tc.ok, tc.usable)
			}
			if !n.usable() && !n.lead().IsZero() {
				t.Errorf("an unusable neighbour leads to %x", n.lead())
			}
		})
	}
}

// rtnlFamilyIPMR is RTNL_FAMILY_IPMR of linux/rtnetlink.h.
const rtnlFamilyIPMR = 128

func TestParseRoute(t *testing.T) {
	msg := func(family, bits byte, attrs ...[]byte) []byte {
		b := make([]byte, unix.SizeofRtMsg)
		b[0], b[1] = family, bits
		return append(b, join(attrs)...)
	}
	for _, tc := range []struct {
		name, want string
		msg        []byte
	}{
		{"v4", "198.51.100.0/24", msg(unix.AF_INET, 24, attr(unix.RTA_OIF, make([]byte, 4)), attr(unix.RTA_DST, []byte{198, 51, 100, 0}))},
		{"v4 default", "0.0.0.0/0", msg(unix.AF_INET, 0, attr(unix.RTA_GATEWAY, []byte{192, 0, 2, 1}))},
		{"v6 default", "::/0", msg(unix.AF_INET6, 0)},
		{"v6", "2001:db8::/32", msg(unix.AF_INET6, 32, attr(unix.RTA_DST, netip.MustParseAddr("2001:db8::").AsSlice()))},
		{"multicast route", "", msg(rtnlFamilyIPMR, 32)},
		{"prefix too long", "", msg(unix.AF_INET, 33)},
		{"cut", "", make([]byte, unix.SizeofRtMsg-1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, ok := parseRoute(tc.msg)
			if ok != (tc.want != "") || ok && p.String() != tc.want {
				t.Errorf("parsed %v, %v; want %q", p, ok, tc.want)
			}
		})
	}
}

func TestLinkEvents(t *testing.T) {
	const up = unix.IFF_UP | unix.IFF_LOWER_UP
	mac, mtu := attr(unix.IFLA_ADDRESS, []byte{2, 9, 9, 9, 9, 9}), attr(unix.IFLA_MTU, binary.NativeEndian.AppendUint32(nil, 1400))
	was := quiet().link
	now := linkState{mac: encap.MAC{2, 9, 9, 9, 9, 9}, mtu: 1400, up: true}
	for _, tc := range []struct {
		name string
		kind uint16
		msg  []byte
		want linkState
	}{
		{"up", unix.RTM_NEWLINK, linkMessage(unix.AF_UNSPEC, 2, up, mac, mtu), now},
		{"no carrier", unix.RTM_NEWLINK, linkMessage(unix.AF_UNSPEC, 2, unix.IFF_UP, mac, mtu), linkState{now.mac, 1400, false}},
		{"down", unix.RTM_NEWLINK, linkMessage(unix.AF_UNSPEC, 2, unix.IFF_LOWER_UP, mac, mtu), linkState{now.mac, 1400, false}},
		{"gone", unix.RTM_DELLINK, linkMessage(unix.AF_UNSPEC, 2, up, mac, mtu), linkState{}},
		{"other interface", unix.RTM_DELLINK, linkMessage(unix.AF_UNSPEC, 3, up, mac, mtu), was},
		{"left a bridge", unix.RTM_DELLINK, linkMessage(unix.AF_BRIDGE, 2, up, mac, mtu), was},
		{"wireless event", unix.RTM_NEWLINK, linkMessage(unix.AF_UNSPEC, 2, up), was},
		{"cut", unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg-1), was},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := quiet()
			n.event(tc.kind, tc.msg)
			if n.link != tc.want {
				t.Errorf("link is %+v, want %+v", n.link, tc.want)
			}
			if n.todo.tellAll != (n.link != was) {
				t.Errorf("tell all: %v", n.todo.tellAll)
			}
		})
	}
}

func TestAddressEvents(t *testing.T) {
	msg := func(ifIndex uint32, attrs ...[]byte) []byte {
		b := make([]byte, unix.SizeofIfAddrmsg)
		binary.NativeEndian.PutUint32(b[4:], ifIndex)
		return append(b, join(attrs)...)
	}
	for _, tc := range []struct {
		name string
		msg  []byte
		want bool
	}{
		{"on our interface", msg(2), true},
		{"ours on another", msg(1, attr(unix.IFA_LOCAL, []byte{192, 0, 2, 1})), true},
		{"a pod's", msg(7, attr(unix.IFA_LOCAL, []byte{10, 5, 1, 1}), attr(unix.IFA_ADDRESS, []byte{10, 5, 1, 1})), false},
		{"cut", make([]byte, unix.SizeofIfAddrmsg-1), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := quiet()
			n.event(unix.RTM_NEWADDR, tc.msg)
			if n.todo.all != tc.want {
				t.Errorf("all routes looked up: %v, want %v", n.todo.all, tc.want)
			}
		})
	}
}

func TestParseRouteAnswer(t *testing.T) {
	answer := func(seq uint32, kind uint16, body ...[]byte) []byte {
		b := make([]byte, unix.SizeofNlMsghdr)
		binary.NativeEndian.PutUint16(b[4:], kind)
		binary.NativeEndian.PutUint32(b[8:], seq)
		return append(b, join(body)...)
	}
	route := func(kind byte, flags uint32, attrs ...[]byte) []byte {
		b := make([]byte, unix.SizeofRtMsg)
		b[0], b[7] = unix.AF_INET, kind
		binary.NativeEndian.PutUint32(b[8:], flags)
		return answer(7, unix.RTM_NEWROUTE, append(b, join(attrs)...))
	}
	number := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	gateway, local := netip.MustParseAddr("192.0.2.254"), netip.MustParseAddr("192.0.2.1")
	oif, gw, src := attr(unix.RTA_OIF, number(2)), attr(unix.RTA_GATEWAY, gateway.AsSlice()), attr(unix.RTA_PREFSRC, local.AsSlice())
	metrics := attr(unix.RTA_METRICS|unix.NLA_F_NESTED, join([][]byte{attr(unix.RTAX_RTT, number(9)), attr(unix.RTAX_MTU, number(1400))}))
	via := attr(unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, netip.MustParseAddr("fe80::1").AsSlice()...))
	for _, tc := range []struct {
		name string
		msg  []byte
		want way
		err  error
		ours bool
	}{
		{"on link", route(unix.RTN_UNICAST, 0, oif, src), way{local: local, ifIndex: 2}, nil, true},
		{"gateway", route(unix.RTN_UNICAST, 0, oif, gw, src, metrics), way{gateway, local, 2, 1400}, nil, true},
		{"v6 gateway", route(unix.RTN_UNICAST, 0, oif, via), way{gateway: netip.MustParseAddr("fe80::1"), ifIndex: 2}, nil, true},
		{"local", route(unix.RTN_LOCAL, 0, oif), way{}, nil, true},
		{"broadcast", route(unix.RTN_BROADCAST, 0, oif), way{}, nil, true},
		{"carrier lost", route(unix.RTN_UNICAST, unix.RTNH_F_LINKDOWN, oif), way{}, nil, true},
		{"lwtunnel", route(unix.RTN_UNICAST, 0, oif, attr(unix.RTA_ENCAP_TYPE, []byte{1, 0})), way{}, nil, true},
		{"cut attributes", route(unix.RTN_UNICAST, 0, attr(unix.RTA_OIF, []byte{2}), attr(unix.RTA_VIA, []byte{10})), way{}, nil, true},
		{"unreachable", answer(7, unix.NLMSG_ERROR, number(^uint32(unix.ENETUNREACH)+1)), way{}, unix.ENETUNREACH, true},
		{"another kind", answer(7, unix.NLMSG_DONE), way{}, errNoAnswer, true},
		{"cut route", answer(7, unix.RTM_NEWROUTE, make([]byte, unix.SizeofRtMsg-1)), way{}, errNoAnswer, true},
		{"another's", answer(6, unix.RTM_NEWROUTE), way{}, nil, false},
		{"cut header", make([]byte, unix.SizeofNlMsghdr-1), way{}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, ours, err := parseRouteAnswer(tc.msg, 7)
			if w != tc.want || !errors.Is(err, tc.err) || ours != tc.ours {
				t.Errorf("%+v, %v, %v; want %+v, %v, %v", w, err, ours, tc.want, tc.err, tc.ours)
			}
		})
	}
}

// What a change of a route, a neighbour or the interface makes Run do, and whom
// it tells.
func TestWhoIsConcerned(t *testing.T) {
	addr := netip.MustParseAddr
	n := quiet()
	gw := addr("192.0.2.254")
	onLink, behind, elsewhere := addr("192.0.2.9"), addr("198.51.100.9"), addr("203.0.113.9")
	for a, w := range map[netip.Addr]way{
		onLink: {ifIndex: 2}, behind: {gateway: gw, ifIndex: 2}, elsewhere: {gateway: addr("10.0.0.1"), ifIndex: 3},
	} {
		n.Track(a)
		n.setWay(a, unique.Make(w))
	}
	n.todo = todo{}

	routes := func(prefixes ...string) addrSet {
		n.todo = todo{}
		for _, p := range prefixes {
			n.todo.routes = append(n.todo.routes, netip.MustParsePrefix(p))
		}
		got := n.take(&pacer{})
		return got.lookup
	}
	for _, tc := range []struct {
		prefix string
		want   []netip.Addr
	}{
		{"0.0.0.0/0", []netip.Addr{onLink, behind, elsewhere}},
		{"198.51.100.0/24", []netip.Addr{behind}},
		{"203.0.113.9/32", []netip.Addr{elsewhere}},
		{"10.5.1.7/32", nil},
		{"::/0", nil},
	} {
		got := routes(tc.prefix)
		if len(got) != len(tc.want) {
			t.Errorf("route %s: look up %v, want %v", tc.prefix, got, tc.want)
		}
		for _, a := range tc.want {
			if !got.has(a) {
				t.Errorf("route %s: %v is not looked up", tc.prefix, a)
			}
		}
	}

	var told []netip.Addr
	n.Watch(func(remotes []netip.Addr) { told = remotes })
	for _, tc := range []struct {
		name string
		todo todo
		want int
	}{
		{"the one on the link", todo{tell: addrSet{onLink: {}}}, 1},
		{"the gateway", todo{tell: addrSet{gw: {}}}, 1},
		{"both", todo{tell: addrSet{gw: {}, onLink: {}}}, 2},
		{"a stranger", todo{tell: addrSet{addr("192.0.2.77"): {}}}, 0},
		{"everybody", todo{tellAll: true}, 3},
	} {
		told = nil
		n.tell(nil, &tc.todo)
		if len(told) != tc.want {
			t.Errorf("%s: told %v, want %d", tc.name, told, tc.want)
		}
	}
	if !n.used(gw) || !n.used(onLink) || n.used(behind) || n.used(elsewhere) || n.used(addr("192.0.2.77")) {
		t.Error("used is wrong about somebody")
	}
	for _, a := range []netip.Addr{onLink, behind, elsewhere} {
		n.Untrack(a)
	}
	if len(n.gateways) != 0 || len(n.remotes) != 0 {
		t.Errorf("left after untracking all: %v, %v", n.gateways, n.remotes)
	}
	n.Untrack(onLink) // again is allowed
}

// Lookups come in batches, and reading everything waits for its turn.
func TestTakeInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := quiet()
		const remotes = 2*lookupBatch + 7
		for i := range remotes {
			n.Track(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
		}
		var pace pacer
		for _, want := range []int{lookupBatch, lookupBatch, 7, 0} {
			if got := n.take(&pace); len(got.lookup) != want {
				t.Fatalf("%d lookups, want %d", len(got.lookup), want)
			}
		}
		pace.spent(time.Second)
		n.todo.all = true
		if got := n.take(&pace); !got.empty() {
			t.Errorf("all routes are looked up again at once: %+v", got)
		}
		began := time.Now()
		<-pace.again
		if waited := time.Since(began); waited != (readAllShare-1)*time.Second {
			t.Errorf("the next turn is after %v", waited)
		}
		if got := n.take(&pace); !got.all || len(got.lookup) != lookupBatch {
			t.Errorf("in its turn: all %v, %d lookups", got.all, len(got.lookup))
		}
	})
}

// What events said during a dump is newer than the dump.
func TestSeenIsNewer(t *testing.T) {
	var s seen
	a := netip.MustParseAddr("192.0.2.1")
	s.neigh(a)
	if s.neighs.has(a) {
		t.Error("remembered without a dump")
	}
	s.reading = true
	s.neigh(a)
	if !s.neighs.has(a) {
		t.Error("not remembered during a dump")
	}
}

func TestNewNextHopsOfNoInterface(t *testing.T) {
	before := openFDs(t)
	_, err := NewNextHops(NextHopsConfig{IfIndex: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "1073741824") {
		t.Errorf("error %v does not name the interface", err)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d open files, were %d", after, before)
	}
}

// Loopback stands for any interface here: nothing is changed, and nothing of the
// machine's is looked at but its list of interfaces.
func TestRunEnds(t *testing.T) {
	before := openFDs(t)
	n, err := NewNextHops(NextHopsConfig{IfIndex: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- n.Run(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v, want the context's error", err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("Close after Run: %v", err)
	}

	// Closed underneath, Run says so instead of hanging.
	if n, err = NewNextHops(NextHopsConfig{IfIndex: 1}); err != nil {
		t.Fatal(err)
	}
	_ = n.Close()
	if err := n.Run(t.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("Run when closed: %v, want an error", err)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d open files, were %d", after, before)
	}
}

// FuzzNeighEvents: no message, whole or not, does anything but change what is
// remembered.
func FuzzNeighEvents(f *testing.F) {
	f.Add(uint16(unix.RTM_NEWNEIGH), neighMessage(unix.AF_INET, 2, unix.NUD_STALE, 0, attr(unix.NDA_DST, []byte{192, 0, 2, 9}), attr(unix.NDA_LLADDR, []byte{2, 0, 0, 0, 0, 9})))
	f.Add(uint16(unix.RTM_DELLINK), linkMessage(0, 2, 0, attr(unix.IFLA_MTU, []byte{1, 2, 3, 4})))
	f.Add(uint16(unix.RTM_NEWROUTE), make([]byte, unix.SizeofRtMsg))
	f.Add(uint16(unix.RTM_NEWADDR), []byte{2, 24, 0, 0, 2, 0, 0, 0, 3, 0, 1, 0})
	f.Fuzz(func(t *testing.T, kind uint16, data []byte) {
		n := quiet()
		remote := netip.MustParseAddr("192.0.2.9")
		n.Track(remote)
		n.setWay(remote, unique.Make(way{ifIndex: 2}))
		n.event(kind, data)
		_, _, _ = parseRouteAnswer(data, uint32(kind))
		n.take(&pacer{})
		if nh := n.NextHop(remote); nh.Known && (nh.MAC.IsZero() || nh.LocalMAC.IsZero()) {
			t.Errorf("known without a MAC: %+v", nh)
		}
	})
}
