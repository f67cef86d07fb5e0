package hostnet

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Names of our tables and chains: flanneld's in its nftables mode. The kernel
// takes up to 255 bytes.
const (
	tableV4      = "flannel-ipv4"
	tableV6      = "flannel-ipv6"
	chainForward = "forward"
	chainMasq    = "postrtg"
)

// table is one table as it has to be. Without rules it has to be absent.
type table struct {
	family nftables.TableFamily
	name   string
	chains []chain // always both; one without rules has to be absent
}

// chain is one base chain and its rules in order.
type chain struct {
	name     string
	kind     nftables.ChainType
	hook     nftables.ChainHook
	priority nftables.ChainPriority
	rules    [][]expr.Any
}

// tables lays out both families' tables; that of a family that is off is empty.
func (c RulesConfig) tables() ([]table, error) {
	t4, err := c.layout(tableV4+c.Suffix, nftables.TableFamilyIPv4, c.Network, c.Subnets.V4, "224.0.0.0/4")
	if err != nil {
		return nil, err
	}
	t6, err := c.layout(tableV6+c.Suffix, nftables.TableFamilyIPv6, c.IPv6Network, c.Subnets.V6, "ff00::/8")
	if err != nil {
		return nil, err
	}
	return []table{t4, t6}, nil
}

// guests lays out what goes into iptables' FORWARD chains.
func (c RulesConfig) guests() []guest {
	var all []guest
	add := func(family nftables.TableFamily, network netip.Prefix) {
		if c.Forward && network.IsValid() {
			all = append(all, guest{family, guestChain + c.Suffix, forwardRules(network)})
		}
	}
	add(nftables.TableFamilyIPv4, c.Network)
	add(nftables.TableFamilyIPv6, c.IPv6Network)
	return all
}

func (c RulesConfig) layout(name string, family nftables.TableFamily, network, subnet netip.Prefix, multicast string) (table, error) {
	forward := chain{
		name: chainForward, kind: nftables.ChainTypeFilter,
		hook: *nftables.ChainHookForward, priority: *nftables.ChainPriorityFilter,
	}
	masq := chain{
		name: chainMasq, kind: nftables.ChainTypeNAT,
		hook: *nftables.ChainHookPostrouting, priority: *nftables.ChainPriorityNATSource,
	}
	if network.IsValid() {
		if c.Masq && !inside(subnet, network) {
			return table{}, fmt.Errorf("our subnet %s is not in network %s", subnet, network)
		}
		if c.Forward {
			forward.rules = forwardRules(network)
		}
		if c.Masq {
			masq.rules = masqRules(network, subnet, netip.MustParsePrefix(multicast), !c.SequentialPorts)
		}
	}
	return table{family: family, name: name, chains: []chain{forward, masq}}, nil
}

func (t table) empty() bool {
	for _, c := range t.chains {
		if len(c.rules) > 0 {
			return false
		}
	}
	return true
}

func (t table) table() *nftables.Table { return &nftables.Table{Family: t.family, Name: t.name} }

// replace queues the transaction that leaves exactly our table. Adding first
// lets the deletion succeed whether or not there was one.
func (t table) replace(c *nftables.Conn) {
	c.AddTable(t.table())
	c.DelTable(t.table())
	if t.empty() {
		return
	}
	made := c.AddTable(t.table())
	accept := nftables.ChainPolicyAccept
	for _, ch := range t.chains {
		if len(ch.rules) == 0 {
			continue
		}
		c.AddChain(&nftables.Chain{
			Table: made, Name: ch.name, Type: ch.kind, Hooknum: &ch.hook, Priority: &ch.priority, Policy: &accept,
		})
		for _, exprs := range ch.rules {
			c.AddRule(&nftables.Rule{Table: made, Chain: &nftables.Chain{Name: ch.name}, Exprs: exprs})
		}
	}
}

// exists lists all tables: asking for one of a family that the kernel lacks
// would be an error.
func (t table) exists(c *nftables.Conn) (bool, error) {
	tables, err := c.ListTables()
	if err != nil {
		return false, fmt.Errorf("list tables: %w", err)
	}
	for _, have := range tables {
		if have.Family == t.family && have.Name == t.name {
			return true, nil
		}
	}
	return false, nil
}

// matches says whether the kernel's table is as it has to be.
func (t table) matches(c *nftables.Conn) (bool, error) {
	there, err := t.exists(c)
	if err != nil || there == t.empty() {
		return false, err
	}
	if !there {
		return true, nil
	}
	all, err := c.ListChainsOfTableFamily(t.family)
	if err != nil {
		return false, fmt.Errorf("list chains: %w", err)
	}
	have := make(map[string]*nftables.Chain, len(t.chains))
	for _, ch := range all {
		if ch.Table.Name == t.name {
			have[ch.Name] = ch
		}
	}
	return t.matchChains(c, have)
}

// matchChains compares the chains; one that is not ours does not belong there.
func (t table) matchChains(c *nftables.Conn, have map[string]*nftables.Chain) (bool, error) {
	for _, ch := range t.chains {
		if len(ch.rules) == 0 {
			continue
		}
		if h, ok := have[ch.name]; !ok || !ch.sameBase(h) {
			return false, nil
		}
		if same, err := ch.sameRules(c, t); err != nil || !same {
			return false, err
		}
		delete(have, ch.name)
	}
	return len(have) == 0, nil
}

func (ch chain) sameRules(c *nftables.Conn, t table) (bool, error) {
	rules, err := c.GetRules(t.table(), &nftables.Chain{Name: ch.name})
	if err != nil {
		return false, fmt.Errorf("read rules of chain %s: %w", ch.name, err)
	}
	if len(rules) != len(ch.rules) {
		return false, nil
	}
	for i, r := range rules {
		if same, err := sameExprs(byte(t.family), r.Exprs, ch.rules[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (ch chain) sameBase(have *nftables.Chain) bool {
	return have.Type == ch.kind &&
		have.Hooknum != nil && *have.Hooknum == ch.hook &&
		have.Priority != nil && *have.Priority == ch.priority &&
		have.Policy != nil && *have.Policy == nftables.ChainPolicyAccept
}

// sameExprs compares rules in the form in which the kernel takes them.
func sameExprs(family byte, a, b []expr.Any) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		x, err := expr.Marshal(family, a[i])
		if err != nil {
			return false, fmt.Errorf("encode rule: %w", err)
		}
		y, err := expr.Marshal(family, b[i])
		if err != nil {
			return false, fmt.Errorf("encode rule: %w", err)
		}
		if !bytes.Equal(x, y) {
			return false, nil
		}
	}
	return true, nil
}
