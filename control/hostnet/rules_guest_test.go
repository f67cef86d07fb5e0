package hostnet

import (
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// iptablesChains makes what "iptables -P FORWARD <policy>" makes.
func (n *namespace) iptablesChains(policy nftables.ChainPolicy) {
	n.t.Helper()
	n.nft(func(c *nftables.Conn) error {
		for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
			c.AddChain(&nftables.Chain{
				Name: hostChain, Table: c.AddTable(&nftables.Table{Name: guestTable, Family: family}),
				Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookForward,
				Priority: nftables.ChainPriorityFilter, Policy: &policy,
			})
		}
		return nil
	})
}

const (
	dropping = `filter FORWARD: filter hook 2 priority 0 policy 0
`
	guest4 = `filter FORWARD: filter hook 2 priority 0 policy 0
	jump FLANNEL-FWD
filter FLANNEL-FWD
	saddr 10.5.0.0/16 accept
	daddr 10.5.0.0/16 accept
`
	guest6 = `filter FORWARD: filter hook 2 priority 0 policy 0
	jump FLANNEL-FWD
filter FLANNEL-FWD
	saddr fd05::/48 accept
	daddr fd05::/48 accept
`
)

// forwardOnly keeps the tests' output short.
func forwardOnly() RulesConfig {
	c := dualRules()
	c.Masq = false
	return c
}

func TestGuestRules(t *testing.T) {
	n := newNamespace(t)
	n.iptablesChains(nftables.ChainPolicyDrop)
	r := mustRules(t, forwardOnly())
	const want = guest4 + forward4 + guest6 + forward6

	n.ensure(r, true)
	if got := n.ruleset(); got != want {
		t.Errorf("rules\n%swant\n%s", got, want)
	}
	n.ensure(r, false)

	filter := &nftables.Table{Name: guestTable, Family: nftables.TableFamilyIPv4}
	forward, ours := &nftables.Chain{Name: hostChain, Table: filter}, &nftables.Chain{Name: guestChain, Table: filter}
	jump := []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: guestChain}}
	for name, harm := range map[string]func(c *nftables.Conn){
		"jump gone":     func(c *nftables.Conn) { c.FlushChain(forward) },
		"jump twice":    func(c *nftables.Conn) { c.AddRule(&nftables.Rule{Table: filter, Chain: forward, Exprs: jump}) },
		"chain flushed": func(c *nftables.Conn) { c.FlushChain(ours) },
		"rule too many": func(c *nftables.Conn) {
			c.InsertRule(&nftables.Rule{Table: filter, Chain: ours, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.nft(func(c *nftables.Conn) error { harm(c); return nil })
			n.ensure(r, true)
			if got := n.ruleset(); got != want {
				t.Errorf("rules\n%swant\n%s", got, want)
			}
		})
	}
	t.Run("teardown", func(t *testing.T) {
		for range 2 {
			n.do(r.Teardown)
			if got := n.ruleset(); got != dropping+dropping {
				t.Errorf("rules\n%s", got)
			}
		}
	})
	t.Run("a suffix tells daemons apart", func(t *testing.T) {
		c := forwardOnly()
		c.Suffix, c.Network = "-flannel7", prefix("10.7.0.0/16")
		c.Subnets.V4 = prefix("10.7.1.0/24")
		second := mustRules(t, c)
		n.ensure(r, true)
		n.ensure(second, true)
		n.ensure(r, false)
		n.ensure(second, false)
		got := n.ruleset()
		for _, s := range []string{"flannel-ipv4 forward", "flannel-ipv4-flannel7 forward", "FLANNEL-FWD-flannel7", "saddr 10.7.0.0/16"} {
			if !strings.Contains(got, s) {
				t.Errorf("rules do not show %q:\n%s", s, got)
			}
		}
		n.do(second.Teardown)
		if got := n.ruleset(); got != want {
			t.Errorf("rules\n%swant\n%s", got, want)
		}
	})
}

// flanneld's own chain has the same name and its rules have comments and
// counters: it is taken over while we run and left alone otherwise.
func TestGuestRulesOverFlannelds(t *testing.T) {
	filter := &nftables.Table{Name: guestTable, Family: nftables.TableFamilyIPv4}
	theirs := func(c *nftables.Conn) error {
		chain := c.AddChain(&nftables.Chain{Name: guestChain, Table: filter})
		c.AddRule(&nftables.Rule{
			Table: filter, Chain: chain,
			Exprs: rule(from(prefix("10.5.0.0/16")), &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictAccept}),
		})
		c.AddRule(&nftables.Rule{
			Table: filter, Chain: &nftables.Chain{Name: hostChain},
			Exprs: []expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictJump, Chain: guestChain}},
		})
		return nil
	}
	t.Run("dropping", func(t *testing.T) {
		n := newNamespace(t)
		n.iptablesChains(nftables.ChainPolicyDrop)
		n.nft(theirs)
		r := mustRules(t, forwardOnly())
		n.ensure(r, true)
		if got := n.ruleset(); !strings.Contains(got, "\t*expr.Counter jump FLANNEL-FWD\n"+strings.SplitN(guest4, "\n", 3)[2]) {
			t.Errorf("rules\n%s", got)
		}
		n.ensure(r, false)
		n.do(r.Teardown)
		if got := n.ruleset(); got != dropping+dropping {
			t.Errorf("rules after teardown\n%s", got)
		}
	})
	t.Run("accepting", func(t *testing.T) {
		n := newNamespace(t)
		n.iptablesChains(nftables.ChainPolicyAccept)
		n.nft(theirs)
		before := n.ruleset()
		r := mustRules(t, forwardOnly())
		n.ensure(r, true)
		n.ensure(r, false)
		n.do(r.Teardown)
		if got := n.ruleset(); got != before {
			t.Errorf("rules\n%swant\n%s", got, before)
		}
	})
}

// TestForwardRulesHaveEffect is Docker's case: without them a pod is cut off.
func TestForwardRulesHaveEffect(t *testing.T) {
	c := newCluster(t, plans...)
	for _, p := range plans {
		t.Run(p.name, func(t *testing.T) {
			reaches := func() string {
				return source(t, c.pod.listen(p.listen, p.pod), c.remote.listen(p.listen, p.remote), p.remote)
			}
			if got := reaches(); got != p.pod {
				t.Fatalf("before anything is dropped: %s", got)
			}
			c.node.iptablesChains(nftables.ChainPolicyDrop)
			if got := reaches(); got != "nothing came" {
				t.Fatalf("with everything dropped: %s", got)
			}
			r := mustRules(t, dualRules())
			c.node.do(func() error { _, err := r.Ensure(); return err })
			if got := reaches(); got != p.pod {
				t.Errorf("with our rules: %s", got)
			}
			c.node.do(r.Teardown)
			c.node.iptablesChains(nftables.ChainPolicyAccept)
		})
	}
}

func TestObstacles(t *testing.T) {
	n := newNamespace(t)
	obstacles := func(c RulesConfig) (all []Advice) {
		n.do(func() (err error) {
			all, err = mustRules(t, c).Obstacles()
			return err
		})
		return all
	}
	n.ensure(mustRules(t, dualRules()), true)
	if got := obstacles(dualRules()); len(got) != 0 {
		t.Errorf("our own rules: %v", got)
	}
	n.iptablesChains(nftables.ChainPolicyDrop)
	if got := obstacles(dualRules()); len(got) != 0 {
		t.Errorf("iptables' chain, in which our rules go: %v", got)
	}
	without := dualRules()
	without.Forward = false
	if got := obstacles(without); len(got) != 2 || !strings.Contains(got[0].What, "chain FORWARD of nftables table filter drops") {
		t.Errorf("iptables' chains without forward rules: %v", got)
	}
	drop := nftables.ChainPolicyDrop
	n.nft(func(c *nftables.Conn) error {
		inet := c.AddTable(&nftables.Table{Name: "firewall", Family: nftables.TableFamilyINet})
		c.AddChain(&nftables.Chain{
			Name: "fw", Table: inet, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &drop,
		})
		c.AddChain(&nftables.Chain{
			Name: "in", Table: inet, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Policy: &drop,
		})
		nat := c.AddTable(&nftables.Table{Name: "nat", Family: nftables.TableFamilyIPv4})
		c.AddChain(&nftables.Chain{Name: natChain, Table: nat})
		return nil
	})
	got := obstacles(dualRules())
	if len(got) != 2 {
		t.Fatalf("obstacles %v, want 2", got)
	}
	for _, a := range got {
		if !strings.Contains(a.What, "chain fw of nftables table firewall") && !strings.Contains(a.Cure, "-F FLANNEL-POSTRTG") {
			t.Errorf("obstacle %v", a)
		}
	}
}
