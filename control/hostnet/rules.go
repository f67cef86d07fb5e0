package hostnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"flanx/control/lease"
)

// RulesConfig says which firewall rules the overlay needs.
type RulesConfig struct {
	Network, IPv6Network netip.Prefix  // invalid for a family that is off
	Subnets              lease.Subnets // our own

	Forward bool // let packets from and to the overlay pass (-iptables-forward-rules)
	Masq    bool // hide the pods behind the node towards the outside (-ip-masq)

	// SequentialPorts leaves the choice of ports to the kernel instead of
	// drawing them at random (-ip-masq-fully-random-disable).
	SequentialPorts bool

	// Suffix is appended to the names of tables and chains, to tell several
	// daemons on one host apart. Normally empty.
	Suffix string
}

// Rules keeps the firewall as it has to be: in two nftables tables of our own,
// "ip flannel-ipv4" and "ip6 flannel-ipv6", named as flanneld names its, which
// are replaced. Their order is that of flanneld's iptables rules:
//
//	forward   accept           saddr Network
//	          accept           daddr Network
//	postrtg   return           mark 0x4000/0x4000
//	          return           saddr subnet      daddr Network
//	          return           saddr Network     daddr subnet
//	          return           saddr not Network daddr subnet
//	          masquerade       saddr Network     daddr not multicast
//	          masquerade       saddr not Network daddr Network
//
// A packet with the mark is kube-proxy's, which masquerades it itself; the
// fourth return keeps the source of outside packets to our own pods; the last
// masquerade gives the node's own packets to remote pods an address that the
// pods can answer to.
//
// Where iptables' FORWARD chain drops by default (Docker), the two forward rules
// also go into a chain FLANNEL-FWD there, as flanneld's do.
type Rules struct {
	want    []table
	guests  []guest
	forward bool
	connect func() (*nftables.Conn, error)
}

// NewRules prepares the rules. Nothing is changed yet.
func NewRules(c RulesConfig) (*Rules, error) {
	want, err := c.tables()
	if err != nil {
		return nil, fmt.Errorf("prepare firewall rules: %w", err)
	}
	return &Rules{want: want, guests: c.guests(), forward: c.Forward, connect: connectNFT}, nil
}

func connectNFT() (*nftables.Conn, error) { return nftables.New(nftables.AsLasting()) }

// Ensure compares the kernel's rules with ours, content and order, and replaces
// them, all in one transaction, if they differ in anything: packets meet the old
// rules or the new ones. It says whether it had to. A kernel without nftables is
// [ErrNotSupported].
func (r *Rules) Ensure() (changed bool, err error) {
	err = r.with(func(c *nftables.Conn) error {
		changed, err = r.queue(c)
		if err != nil || !changed {
			return err
		}
		return c.Flush()
	})
	if err != nil {
		return false, fmt.Errorf("set firewall rules: %w", err)
	}
	return changed, nil
}

// queue adds to the transaction whatever differs.
func (r *Rules) queue(c *nftables.Conn) (changed bool, err error) {
	for _, t := range r.want {
		same, err := t.matches(c)
		if err != nil {
			return false, err
		}
		if !same {
			t.replace(c)
			changed = true
		}
	}
	for _, g := range r.guests {
		did, err := g.queue(c)
		if err != nil {
			return false, err
		}
		changed = changed || did
	}
	return changed, nil
}

// Teardown removes our tables and chains. That they are gone is no error. Connections that
// were masqueraded stop until there are rules again: not a thing to do for a
// mere restart.
func (r *Rules) Teardown() error {
	err := r.with(func(c *nftables.Conn) error {
		for _, t := range r.want {
			there, err := t.exists(c)
			if err != nil {
				return err
			}
			if there {
				c.DelTable(t.table())
			}
		}
		for _, g := range r.guests {
			if err := g.queueRemoval(c); err != nil {
				return err
			}
		}
		return c.Flush()
	})
	if err != nil {
		return fmt.Errorf("remove firewall rules: %w", err)
	}
	return nil
}

// Run calls Ensure at every interval until ctx ends, and logs when rules had to
// be restored, when that fails, and when it works again. It does not remove them.
func (r *Rules) Run(ctx context.Context, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := r.Ensure()
		switch {
		case err != nil && err.Error() != failed:
			failed = err.Error()
			log.Warn("firewall rules not checked", "err", err)
		case err == nil && failed != "":
			failed = ""
			log.Info("firewall rules checked again", "restored", changed)
		case changed:
			log.Warn("firewall rules restored: another program had changed them")
		}
	}
}

// with opens a netlink socket for one piece of work, in the namespace of the
// calling thread.
func (r *Rules) with(work func(*nftables.Conn) error) error {
	c, err := r.connect()
	if err != nil {
		return explainNFT(err)
	}
	defer func() { _ = c.CloseLasting() }()
	return explainNFT(work(c))
}

// explainNFT tells a kernel without the feature from other errors.
func explainNFT(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP),
		errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: nftables (CONFIG_NF_TABLES, NFT_NAT, NFT_MASQ): %w: load nf_tables, "+
			"or run without -ip-masq and with -iptables-forward-rules=false and set the rules yourself", ErrNotSupported, err)
	}
	return explain(err)
}
