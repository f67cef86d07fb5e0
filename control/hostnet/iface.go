package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Options says how to choose the underlay interface, in the words of flanneld's
// flags. A field's zero value means that the flag was not given.
type Options struct {
	Ifaces   []string   // -iface: names or addresses, in order
	Regexes  []string   // -iface-regex: over all addresses first, then over names, in order
	CanReach netip.Addr // -iface-can-reach

	// What to advertise. If nothing above is given, the address must be on an
	// interface, which is then the one chosen.
	PublicIP, PublicIPv6 netip.Addr

	V4, V6 bool // which families the overlay has; at least one
}

// Interface is the chosen underlay interface.
type Interface struct {
	Index int // stays the same when the interface is renamed
	Name  string
	MTU   int // in bytes

	Addr4, Addr6     netip.Addr // to send from; invalid for a family that is off
	Public4, Public6 netip.Addr // to advertise

	How    string   // what decided, for the log
	Others []string // interfaces that matched as well, but later
}

// PickInterface chooses the underlay interface by flanneld's rules: each -iface
// in order, then each -iface-regex, then -iface-can-reach; if none of these is
// given, the interface that has -public-ip; else that of the default route with
// the lowest metric, for both families the same. Of an interface's addresses
// global ones come before link-local ones, permanent before dynamic, stable
// before temporary; deprecated ones are not used unless named.
//
// It differs from flanneld where that would guess: an address on two interfaces
// and equally good default routes on two interfaces are [ErrAmbiguous].
// Otherwise a failure is [ErrNoInterface]; the message says what each flag met
// and which interfaces there are.
func PickInterface(o Options) (Interface, error) {
	if !o.V4 && !o.V6 {
		return Interface{}, errors.New("choose underlay interface: neither IPv4 nor IPv6 asked for")
	}
	h, err := readHost(o.CanReach)
	if err != nil {
		return Interface{}, fmt.Errorf("choose underlay interface: %w", err)
	}
	i, err := h.pick(o)
	if err != nil {
		return Interface{}, fmt.Errorf("choose underlay interface: %w", err)
	}
	return i, nil
}

// choice is an interface found, with the addresses that are already settled.
type choice struct {
	nic          nic
	addr4, addr6 netip.Addr
	others       []string
}

// attempt is one flag's value, and the way to find an interface by it.
type attempt struct {
	flag, value string
	find        func(h host, value string, o Options) (choice, error)
}

func (o Options) attempts() []attempt {
	var all []attempt
	for _, v := range o.Ifaces {
		all = append(all, attempt{"-iface", v, host.byIface})
	}
	for _, v := range o.Regexes {
		all = append(all, attempt{"-iface-regex", v, host.byRegex})
	}
	if o.CanReach.IsValid() {
		all = append(all, attempt{"-iface-can-reach", o.CanReach.String(), host.byReach})
	}
	return all
}

func (h host) pick(o Options) (Interface, error) {
	attempts := o.attempts()
	if len(attempts) == 0 {
		return h.pickUnasked(o)
	}
	var tried []string
	ambiguous := false
	for _, a := range attempts {
		i, err := h.try(a, o)
		if err == nil {
			return i, nil
		}
		ambiguous = ambiguous || errors.Is(err, ErrAmbiguous)
		tried = append(tried, fmt.Sprintf("%s %s: %v", a.flag, a.value, err))
	}
	sentinel := ErrNoInterface
	if ambiguous {
		sentinel = ErrAmbiguous
	}
	return Interface{}, fmt.Errorf("%w: %s; there are: %s", sentinel, strings.Join(tried, "; "), h.list())
}

func (h host) try(a attempt, o Options) (Interface, error) {
	c, err := a.find(h, a.value, o)
	if err != nil {
		return Interface{}, err
	}
	return c.complete(a.flag+" "+a.value, o)
}

// pickUnasked chooses when no flag names an interface.
func (h host) pickUnasked(o Options) (Interface, error) {
	flag, public := "-public-ip", o.PublicIP
	if !o.V4 {
		flag, public = "-public-ipv6", o.PublicIPv6
	}
	if !public.IsValid() {
		c, err := h.byDefaultRoute(o)
		if err != nil {
			return Interface{}, fmt.Errorf("%w: name the interface with -iface; there are: %s", err, h.list())
		}
		return c.complete("default route", o)
	}
	c, err := h.byAddr(public, o)
	if errors.Is(err, ErrAmbiguous) {
		return Interface{}, fmt.Errorf("%s %s: %w", flag, public, err)
	}
	if err != nil {
		return Interface{}, fmt.Errorf("%w: %s %s is on no interface of this host: if it is right (NAT), "+
			"say with -iface which interface to use; there are: %s", ErrNoInterface, flag, public, h.list())
	}
	return c.complete(flag+" "+public.String(), o)
}

// complete fills in the addresses that the choice left open.
func (c choice) complete(how string, o Options) (Interface, error) {
	i := Interface{
		Index: c.nic.index, Name: c.nic.name, MTU: c.nic.mtu,
		Public4: o.PublicIP, Public6: o.PublicIPv6,
		How: how, Others: c.others,
	}
	if i.MTU <= 0 {
		return Interface{}, fmt.Errorf("%s has no MTU", i.Name)
	}
	var err error
	if o.V4 {
		if i.Addr4, err = c.nic.first(c.addr4, c.nic.v4, "IPv4"); err != nil {
			return Interface{}, err
		}
		i.Public4 = orElse(i.Public4, i.Addr4)
	}
	if o.V6 {
		if i.Addr6, err = c.nic.first(c.addr6, c.nic.v6, "IPv6"); err != nil {
			return Interface{}, err
		}
		i.Public6 = orElse(i.Public6, i.Addr6)
	}
	return i, nil
}

func (n nic) first(settled netip.Addr, usable []netip.Addr, family string) (netip.Addr, error) {
	if settled.IsValid() {
		return settled, nil
	}
	if len(usable) == 0 {
		return netip.Addr{}, fmt.Errorf("%s has no usable %s address", n.name, family)
	}
	return usable[0], nil
}

func orElse(a, b netip.Addr) netip.Addr {
	if a.IsValid() {
		return a
	}
	return b
}

// byIface takes an address or a name.
func (h host) byIface(value string, o Options) (choice, error) {
	if addr, err := netip.ParseAddr(value); err == nil {
		return h.byAddr(addr.Unmap(), o)
	}
	for _, n := range h.nics {
		if n.name == value {
			return choice{nic: n}, nil
		}
	}
	return choice{}, errors.New("no interface of that name")
}

// byAddr finds the interface that has an address, deprecated or not.
func (h host) byAddr(addr netip.Addr, o Options) (choice, error) {
	if addr.Is4() && !o.V4 || addr.Is6() && !o.V6 {
		return choice{}, errors.New("is an address of a family that the overlay does not use")
	}
	var found []nic
	for _, n := range h.nics {
		if slices.Contains(n.all, addr) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return choice{}, errors.New("no interface has that address")
	case 1:
		return settle(found[0], addr, o.PublicIPv6), nil
	}
	return choice{}, fmt.Errorf("%w: %s have that address: give the name instead", ErrAmbiguous, names(found))
}

// settle notes the address that named the interface. With an IPv4 address given,
// the advertised IPv6 address is used as well if the interface has it.
func settle(n nic, addr, public6 netip.Addr) choice {
	c := choice{nic: n}
	if addr.Is6() {
		c.addr6 = addr
		return c
	}
	c.addr4 = addr
	if public6.IsValid() && slices.Contains(n.all, public6) {
		c.addr6 = public6
	}
	return c
}

// byRegex matches the addresses of all interfaces, and if none matches, their
// names. An interface of a dual-stack node must match with both families.
func (h host) byRegex(value string, o Options) (choice, error) {
	re, err := regexp.Compile(value)
	if err != nil {
		return choice{}, fmt.Errorf("not a regular expression (Go syntax): %w", err)
	}
	var found []choice
	for _, n := range h.nics {
		c := choice{nic: n, addr4: firstMatch(re, n.v4), addr6: firstMatch(re, n.v6)}
		if (!o.V4 || c.addr4.IsValid()) && (!o.V6 || c.addr6.IsValid()) {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		for _, n := range h.nics {
			if re.MatchString(n.name) {
				found = append(found, choice{nic: n})
			}
		}
	}
	if len(found) == 0 {
		return choice{}, errors.New("matches no address and no name")
	}
	for _, other := range found[1:] {
		found[0].others = append(found[0].others, other.nic.name)
	}
	return found[0], nil
}

func firstMatch(re *regexp.Regexp, addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if re.MatchString(a.String()) {
			return a
		}
	}
	return netip.Addr{}
}

// byReach takes the interface and source address of the route to an address.
func (h host) byReach(_ string, o Options) (choice, error) {
	if h.reach.err != nil {
		return choice{}, h.reach.err
	}
	n, ok := h.nic(h.reach.index)
	if !ok {
		return choice{}, errors.New("the route's interface is gone")
	}
	c := choice{nic: n}
	switch {
	case h.reach.local:
		return choice{}, errors.New("is this host's own address: give another host's")
	case h.reach.src.Is4() && o.V4:
		c.addr4 = h.reach.src
	case h.reach.src.Is6() && o.V6:
		c.addr6 = h.reach.src
	}
	return c, nil
}
