package hostnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"flanx/control/lease"
)

func dualRules() RulesConfig {
	return RulesConfig{
		Network: prefix("10.5.0.0/16"), IPv6Network: prefix("fd05::/48"),
		Subnets: lease.Subnets{V4: prefix("10.5.1.0/24"), V6: prefix("fd05:0:0:1::/64")},
		Forward: true, Masq: true,
	}
}

func mustRules(t testing.TB, c RulesConfig) *Rules {
	t.Helper()
	r, err := NewRules(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ensure applies rules and wants to hear whether that changed anything.
func (n *namespace) ensure(r *Rules, want bool) {
	n.t.Helper()
	n.do(func() error {
		changed, err := r.Ensure()
		if err == nil && changed != want {
			n.t.Errorf("changed %t, want %t", changed, want)
		}
		return err
	})
}

// nft runs f with a connection and sends what f queued.
func (n *namespace) nft(f func(c *nftables.Conn) error) {
	n.t.Helper()
	n.do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		if err := f(c); err != nil {
			return err
		}
		return c.Flush()
	})
}

// ruleset describes all tables, chains and rules, in order.
func (n *namespace) ruleset() string {
	n.t.Helper()
	var b strings.Builder
	n.nft(func(c *nftables.Conn) error {
		for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
			chains, err := c.ListChainsOfTableFamily(family)
			if err != nil {
				return err
			}
			for _, ch := range chains {
				fmt.Fprintf(&b, "%s %s", ch.Table.Name, ch.Name)
				if ch.Hooknum != nil {
					fmt.Fprintf(&b, ": %s hook %d priority %d policy %d", ch.Type, *ch.Hooknum, *ch.Priority, *ch.Policy)
				}
				b.WriteString("\n")
				rules, err := c.GetRules(&nftables.Table{Name: ch.Table.Name, Family: family}, ch)
				if err != nil {
					return err
				}
				for _, r := range rules {
					fmt.Fprintf(&b, "\t%s\n", describeRule(r.Exprs))
				}
			}
		}
		return nil
	})
	return b.String()
}

// describeRule writes the few kinds of expressions that we use.
func describeRule(exprs []expr.Any) string {
	var words []string
	var mask []byte
	field := ""
	for _, e := range exprs {
		switch e := e.(type) {
		case *expr.Payload:
			field = map[uint32]string{12: "saddr", 16: "daddr", 8: "saddr", 24: "daddr"}[e.Offset]
		case *expr.Meta:
			field = map[expr.MetaKey]string{expr.MetaKeyMARK: "mark"}[e.Key]
		case *expr.Bitwise:
			mask = e.Mask
		case *expr.Cmp:
			op := map[expr.CmpOp]string{expr.CmpOpEq: "", expr.CmpOpNeq: "not "}[e.Op]
			words = append(words, field, op+describeValue(field, e.Data, mask))
		case *expr.Verdict:
			kind := map[expr.VerdictKind]string{
				expr.VerdictReturn: "return", expr.VerdictAccept: "accept", expr.VerdictDrop: "drop", expr.VerdictJump: "jump",
			}[e.Kind]
			words = append(words, strings.TrimSpace(kind+" "+e.Chain))
		case *expr.Masq:
			words = append(words, "masquerade")
			if e.FullyRandom {
				words = append(words, "fully-random")
			}
		default:
			words = append(words, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(words, " ")
}

func describeValue(field string, data, mask []byte) string {
	if field == "mark" {
		return fmt.Sprintf("%#x/%#x", binaryutil.NativeEndian.Uint32(data), binaryutil.NativeEndian.Uint32(mask))
	}
	a, _ := netip.AddrFromSlice(data)
	bits := 0
	for _, b := range mask {
		for ; b&0x80 != 0; b <<= 1 {
			bits++
		}
	}
	return netip.PrefixFrom(a, bits).String()
}

const forward4 = `flannel-ipv4 forward: filter hook 2 priority 0 policy 1
	saddr 10.5.0.0/16 accept
	daddr 10.5.0.0/16 accept
`

const masq4 = `flannel-ipv4 postrtg: nat hook 4 priority 100 policy 1
	mark 0x4000/0x4000 return
	saddr 10.5.1.0/24 daddr 10.5.0.0/16 return
	saddr 10.5.0.0/16 daddr 10.5.1.0/24 return
	saddr not 10.5.0.0/16 daddr 10.5.1.0/24 return
	saddr 10.5.0.0/16 daddr not 224.0.0.0/4 masquerade fully-random
	saddr not 10.5.0.0/16 daddr 10.5.0.0/16 masquerade fully-random
`

const forward6 = `flannel-ipv6 forward: filter hook 2 priority 0 policy 1
	saddr fd05::/48 accept
	daddr fd05::/48 accept
`

const masq6 = `flannel-ipv6 postrtg: nat hook 4 priority 100 policy 1
	mark 0x4000/0x4000 return
	saddr fd05:0:0:1::/64 daddr fd05::/48 return
	saddr fd05::/48 daddr fd05:0:0:1::/64 return
	saddr not fd05::/48 daddr fd05:0:0:1::/64 return
	saddr fd05::/48 daddr not ff00::/8 masquerade fully-random
	saddr not fd05::/48 daddr fd05::/48 masquerade fully-random
`

func TestRulesAndTheirOrder(t *testing.T) {
	with := func(set func(*RulesConfig)) RulesConfig {
		c := dualRules()
		set(&c)
		return c
	}
	tests := []struct {
		name string
		c    RulesConfig
		want string
	}{
		{"all", dualRules(), forward4 + masq4 + forward6 + masq6},
		{"IPv4 only", with(func(c *RulesConfig) { c.IPv6Network, c.Subnets.V6 = netip.Prefix{}, netip.Prefix{} }), forward4 + masq4},
		{"IPv6 only", with(func(c *RulesConfig) { c.Network, c.Subnets.V4 = netip.Prefix{}, netip.Prefix{} }), forward6 + masq6},
		{"no masquerade", with(func(c *RulesConfig) { c.Masq = false }), forward4 + forward6},
		{"no forward rules", with(func(c *RulesConfig) { c.Forward = false }), masq4 + masq6},
		{
			"ports not drawn at random", with(func(c *RulesConfig) { c.SequentialPorts = true }),
			strings.ReplaceAll(forward4+masq4+forward6+masq6, " fully-random", ""),
		},
		{"neither", with(func(c *RulesConfig) { c.Forward, c.Masq = false, false }), ""},
	}
	n := newNamespace(t)
	before := ""
	for _, test := range tests { // in one namespace: each takes over from the one before
		t.Run(test.name, func(t *testing.T) {
			r := mustRules(t, test.c)
			n.ensure(r, test.want != before)
			if got := n.ruleset(); got != test.want {
				t.Errorf("rules\n%swant\n%s", got, test.want)
			}
			n.ensure(r, false)
			before = test.want
		})
	}
}

func TestRulesConfigIsChecked(t *testing.T) {
	c := dualRules()
	c.Subnets.V4 = prefix("10.6.1.0/24")
	if _, err := NewRules(c); err == nil || !strings.Contains(err.Error(), "10.6.1.0/24") {
		t.Errorf("subnet out of network: %v", err)
	}
	c.Subnets.V4 = netip.Prefix{}
	if _, err := NewRules(c); err == nil {
		t.Error("no subnet: no error")
	}
	c.Masq = false
	if _, err := NewRules(c); err != nil {
		t.Errorf("no subnet needed without masquerade: %v", err)
	}
}

// Whatever is done to our tables is seen and put right.
func TestRulesAreRestored(t *testing.T) {
	const want = forward4 + masq4 + forward6 + masq6
	table4 := &nftables.Table{Name: tableV4, Family: nftables.TableFamilyIPv4}
	table6 := &nftables.Table{Name: tableV6, Family: nftables.TableFamilyIPv6}
	masq := &nftables.Chain{Name: chainMasq, Table: table4}
	rules := func(c *nftables.Conn) []*nftables.Rule {
		all, err := c.GetRules(table4, masq)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	tests := []struct {
		name string
		harm func(c *nftables.Conn) error
	}{
		{"table gone", func(c *nftables.Conn) error { c.DelTable(table6); return nil }},
		{"chain flushed", func(c *nftables.Conn) error { c.FlushChain(masq); return nil }},
		{"everything flushed", func(c *nftables.Conn) error { c.FlushRuleset(); return nil }},
		{"rule gone", func(c *nftables.Conn) error { return c.DelRule(rules(c)[3]) }},
		{"masquerade inserted before the returns", func(c *nftables.Conn) error { // issue 1337
			c.InsertRule(&nftables.Rule{Table: table4, Chain: masq, Exprs: rule(from(prefix("10.5.0.0/16")), &expr.Masq{})})
			return nil
		}},
		{"rule twice", func(c *nftables.Conn) error {
			c.AddRule(&nftables.Rule{Table: table4, Chain: masq, Exprs: rules(c)[5].Exprs})
			return nil
		}},
		{"rules in another order", func(c *nftables.Conn) error {
			all := rules(c)
			c.AddRule(&nftables.Rule{Table: table4, Chain: masq, Exprs: all[0].Exprs})
			return c.DelRule(all[0])
		}},
		{"rule replaced", func(c *nftables.Conn) error {
			c.ReplaceRule(&nftables.Rule{
				Table: table4, Chain: masq, Handle: rules(c)[4].Handle,
				Exprs: rule(from(prefix("10.5.0.0/16")), not(to(prefix("240.0.0.0/4"))), &expr.Masq{FullyRandom: true}),
			})
			return nil
		}},
		{"masquerade without random ports", func(c *nftables.Conn) error {
			c.ReplaceRule(&nftables.Rule{
				Table: table4, Chain: masq, Handle: rules(c)[4].Handle,
				Exprs: rule(from(prefix("10.5.0.0/16")), not(to(prefix("224.0.0.0/4"))), &expr.Masq{}),
			})
			return nil
		}},
		{"chain drops", func(c *nftables.Conn) error {
			drop := nftables.ChainPolicyDrop
			c.AddChain(&nftables.Chain{
				Name: chainForward, Table: table6, Type: nftables.ChainTypeFilter,
				Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter, Policy: &drop,
			})
			return nil
		}},
		{"chain too many", func(c *nftables.Conn) error {
			c.AddChain(&nftables.Chain{Name: "mine", Table: table4})
			return nil
		}},
	}
	n := newNamespace(t)
	r := mustRules(t, dualRules())
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n.in(func() { _, _ = r.Ensure() })
			n.nft(test.harm)
			if n.ruleset() == want {
				t.Fatal("nothing was harmed")
			}
			n.ensure(r, true)
			if got := n.ruleset(); got != want {
				t.Errorf("rules\n%swant\n%s", got, want)
			}
			n.ensure(r, false)
		})
	}
}

func TestOthersTablesAreLeftAlone(t *testing.T) {
	n := newNamespace(t)
	n.nft(func(c *nftables.Conn) error {
		for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6, nftables.TableFamilyINet} {
			c.AddChain(&nftables.Chain{Name: chainMasq, Table: c.AddTable(&nftables.Table{Name: "mine", Family: family})})
		}
		// Our name in another family is not our table.
		c.AddTable(&nftables.Table{Name: tableV4, Family: nftables.TableFamilyINet})
		return nil
	})
	before := n.ruleset()
	r := mustRules(t, dualRules())
	n.ensure(r, true)
	n.do(r.Teardown)
	if got := n.ruleset(); got != before {
		t.Errorf("rules\n%swant\n%s", got, before)
	}
	n.do(r.Teardown) // nothing there
	n.nft(func(c *nftables.Conn) error {
		tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
		if err == nil && len(tables) != 2 {
			t.Errorf("%d inet tables left, want 2", len(tables))
		}
		return err
	})
}

// What flanneld's nftables mode leaves behind has our names.
func TestRulesTakeOverFlanneldsTable(t *testing.T) {
	n := newNamespace(t)
	n.nft(func(c *nftables.Conn) error {
		table := c.AddTable(&nftables.Table{Name: tableV4, Family: nftables.TableFamilyIPv4})
		masq := c.AddChain(&nftables.Chain{
			Name: chainMasq, Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
		})
		c.AddRule(&nftables.Rule{
			Table: table, Chain: masq, UserData: []byte("theirs"),
			Exprs: rule(not(from(prefix("10.5.1.0/24"))), to(prefix("10.5.0.0/16")), &expr.Verdict{Kind: expr.VerdictReturn}),
		})
		return nil
	})
	n.ensure(mustRules(t, dualRules()), true)
	if got := n.ruleset(); got != forward4+masq4+forward6+masq6 {
		t.Errorf("rules\n%s", got)
	}
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestRunRestores(t *testing.T) {
	n := newNamespace(t)
	r := mustRules(t, dualRules())
	n.ensure(r, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var log lockedBuffer
	go func() {
		defer close(done)
		n.in(func() { r.Run(ctx, 5*time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))) })
	}()
	n.nft(func(c *nftables.Conn) error { c.FlushRuleset(); return nil })
	deadline := time.Now().Add(10 * time.Second)
	for n.ruleset() != forward4+masq4+forward6+masq6 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	for !strings.Contains(log.String(), "restored") && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	<-done
	if got := n.ruleset(); got != forward4+masq4+forward6+masq6 {
		t.Errorf("rules\n%s", got)
	}
	if got := strings.Count(log.String(), "\n"); got != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("log:\n%s", log.String())
	}
}

func TestRunSaysAnErrorOnce(t *testing.T) {
	r := mustRules(t, dualRules())
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	r.connect = func() (*nftables.Conn, error) {
		calls++
		switch {
		case calls <= 5:
			return nil, errors.New("first kind")
		case calls <= 10:
			return nil, unix.EPERM
		case calls == 15:
			cancel()
		}
		return nil, errors.New("third kind")
	}
	var log lockedBuffer
	r.Run(ctx, time.Millisecond, slog.New(slog.NewTextHandler(&log, nil)))
	if got := strings.Count(log.String(), "\n"); got != 3 {
		t.Errorf("%d lines in %d calls:\n%s", got, calls, log.String())
	}
}

// The kernel answers so when it lacks the feature, or we the privilege.
func TestRulesWithoutNFTables(t *testing.T) {
	dial := func(errno error) func() (*nftables.Conn, error) {
		return func() (*nftables.Conn, error) {
			return nftables.New(nftables.WithTestDial(func([]netlink.Message) ([]netlink.Message, error) {
				return nil, errno
			}))
		}
	}
	tests := []struct {
		name    string
		connect func() (*nftables.Conn, error)
		cause   error
		says    []string
	}{
		{
			"no netfilter sockets", func() (*nftables.Conn, error) { return nil, unix.EPROTONOSUPPORT },
			ErrNotSupported,
			[]string{"nf_tables", "-iptables-forward-rules=false", "-ip-masq"},
		},
		{"no nf_tables", dial(unix.EINVAL), ErrNotSupported, []string{"CONFIG_NF_TABLES"}},
		{"no NAT chains", dial(unix.ENOENT), ErrNotSupported, []string{"CONFIG_NF_TABLES"}},
		{"not root", dial(unix.EPERM), unix.EPERM, []string{"CAP_NET_ADMIN"}},
		{"something else", dial(unix.ENOMEM), unix.ENOMEM, []string{"set firewall rules"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := mustRules(t, dualRules())
			r.connect = test.connect
			_, err := r.Ensure()
			if !errors.Is(err, test.cause) {
				t.Fatalf("error %v, want %v", err, test.cause)
			}
			for _, s := range test.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
			if err := r.Teardown(); !errors.Is(err, test.cause) {
				t.Errorf("teardown: %v", err)
			}
		})
	}
}
