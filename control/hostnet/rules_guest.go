package hostnet

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Names in the table that iptables (its nft variant) keeps.
const (
	guestTable = "filter"
	hostChain  = "FORWARD"
	guestChain = "FLANNEL-FWD"
	natChain   = "FLANNEL-POSTRTG" // flanneld's, in table nat
)

// guest is what we need inside iptables' FORWARD chain when that drops by
// default, as Docker sets it: what one chain accepts, the next may still drop,
// so an accept in a table of ours is of no use there. It is what flanneld makes:
// a chain of its own and, at FORWARD's end, a jump to it. The rules consist of
// expressions that iptables itself uses, so its own commands go on working.
type guest struct {
	family nftables.TableFamily
	chain  string
	rules  [][]expr.Any
}

// guestState is what is there.
type guestState struct {
	drops  bool // FORWARD is there and drops by default
	chain  bool // our chain is there
	intact bool // and holds our rules
	jumps  []*nftables.Rule
}

func (g guest) table() *nftables.Table {
	return &nftables.Table{Family: g.family, Name: guestTable}
}

func (g guest) read(c *nftables.Conn) (s guestState, err error) {
	chains, err := c.ListChainsOfTableFamily(g.family)
	if err != nil {
		return s, fmt.Errorf("list chains: %w", err)
	}
	host := false
	for _, ch := range chains {
		switch {
		case ch.Table.Name != guestTable:
		case ch.Name == hostChain && ch.Hooknum != nil && *ch.Hooknum == *nftables.ChainHookForward:
			host = true
			s.drops = ch.Policy != nil && *ch.Policy == nftables.ChainPolicyDrop
		case ch.Name == g.chain:
			s.chain = true
		}
	}
	if host {
		if s.jumps, err = g.findJumps(c); err != nil {
			return s, err
		}
	}
	if s.chain {
		s.intact, err = chain{name: g.chain, rules: g.rules}.sameRules(c, table{family: g.family, name: guestTable})
	}
	return s, err
}

func (g guest) findJumps(c *nftables.Conn) (jumps []*nftables.Rule, err error) {
	rules, err := c.GetRules(g.table(), &nftables.Chain{Name: hostChain})
	if err != nil {
		return nil, fmt.Errorf("read rules of chain %s: %w", hostChain, err)
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if v, ok := e.(*expr.Verdict); ok && v.Kind == expr.VerdictJump && v.Chain == g.chain {
				jumps = append(jumps, r)
			}
		}
	}
	return jumps, nil
}

// queue adds to the transaction what is missing, and says whether anything was.
func (g guest) queue(c *nftables.Conn) (changed bool, err error) {
	s, err := g.read(c)
	if err != nil || !s.drops || s.intact && len(s.jumps) == 1 {
		return false, err
	}
	ours := &nftables.Chain{Name: g.chain, Table: g.table()}
	c.AddChain(ours)
	c.FlushChain(ours)
	for _, exprs := range g.rules {
		c.AddRule(&nftables.Rule{Table: ours.Table, Chain: ours, Exprs: exprs})
	}
	if len(s.jumps) == 0 {
		c.AddRule(&nftables.Rule{
			Table: ours.Table, Chain: &nftables.Chain{Name: hostChain},
			Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: g.chain}},
		})
		return true, nil
	}
	return true, deleteRules(c, s.jumps[1:])
}

// queueRemoval takes back what queue made. A chain with other rules in it is
// flanneld's, or somebody else's by now, and stays.
func (g guest) queueRemoval(c *nftables.Conn) error {
	s, err := g.read(c)
	if err != nil || !s.intact {
		return err
	}
	if err := deleteRules(c, s.jumps); err != nil {
		return err
	}
	c.DelChain(&nftables.Chain{Name: g.chain, Table: g.table()})
	return nil
}

func deleteRules(c *nftables.Conn, rules []*nftables.Rule) error {
	for _, r := range rules {
		if err := c.DelRule(r); err != nil {
			return fmt.Errorf("delete rule: %w", err)
		}
	}
	return nil
}

// Obstacles says what in other programs' firewall tables stands in the way of
// the overlay and is not ours to change.
func (r *Rules) Obstacles() ([]Advice, error) {
	var all []Advice
	err := r.with(func(c *nftables.Conn) error {
		chains, err := c.ListChains()
		if err != nil {
			return fmt.Errorf("list chains: %w", err)
		}
		for _, ch := range chains {
			all = append(all, r.obstacle(ch)...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look through the firewall: %w", err)
	}
	return all, nil
}

func (r *Rules) obstacle(ch *nftables.Chain) []Advice {
	where := fmt.Sprintf("chain %s of nftables table %s", ch.Name, ch.Table.Name)
	switch {
	case ch.Name == natChain && ch.Table.Name == "nat":
		return []Advice{{
			"flanneld's masquerade rules are still in force (" + where + ")",
			"iptables -t nat -F " + natChain + " (IPv6: ip6tables)",
		}}
	case ch.Hooknum == nil || *ch.Hooknum != *nftables.ChainHookForward ||
		ch.Policy == nil || *ch.Policy != nftables.ChainPolicyDrop,
		ch.Table.Family != nftables.TableFamilyIPv4 && ch.Table.Family != nftables.TableFamilyIPv6 &&
			ch.Table.Family != nftables.TableFamilyINet,
		ch.Name == hostChain && ch.Table.Name == guestTable && r.forward:
		return nil
	}
	return []Advice{{
		where + " drops forwarded packets by default",
		"accept the overlay's packets in that chain, if it does not yet",
	}}
}
