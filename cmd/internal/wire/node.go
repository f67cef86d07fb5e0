package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"

	"flanx/cmd/internal/config"
	"flanx/control/hostnet"
	"flanx/control/lease"
	"flanx/dataplane/fib"
	"flanx/dataplane/host"
)

// node is one host's place in the overlay while the daemon runs.
type node struct {
	cfg   config.Daemon
	log   *slog.Logger
	iface hostnet.Interface
	ready *conditions

	backend    backend
	engine     *engine // nil for a backend without a data path
	hops       *host.NextHops
	rules      *hostnet.Rules
	failed     chan error // the end of a part that the node cannot do without
	ended      chan struct{}
	blackholed bool           // there may be a blackhole route of ours
	keepers    sync.WaitGroup // what repairs the host; ended before that is undone
}

// attrs decides the backend and says what the lease is to tell about us. It comes
// before the lease is taken: a second daemon on the host has to find out that it
// is one before it takes the first one's lease, and touches its rules.
func (n *node) attrs(cfg lease.NetworkConfig, prev lease.Attrs) (lease.Attrs, error) {
	b, err := newBackend(cfg, prev, n.leftoverMAC)
	if err != nil {
		return lease.Attrs{}, err
	}
	if b.kind != "alloc" {
		if err := hostnet.CheckTUN(n.cfg.TUNName); err != nil {
			return lease.Attrs{}, err
		}
	}
	n.backend = b
	return b.attrs(n.iface), nil
}

// leftoverMAC finds the MAC of a device that flanneld left behind, which the
// other nodes send to. No such device is no error.
func (n *node) leftoverMAC(vni uint32) net.HardwareAddr {
	devices, err := hostnet.VXLANDevices(int(vni), 0)
	if err != nil {
		n.log.Warn("cannot list VXLAN devices; a MAC of flanneld's is not adopted", "error", err)
	}
	for _, d := range devices {
		if d.IsFlannel() && !d.IPv6 {
			return d.MAC
		}
	}
	return nil
}

// join prepares the host for the lease and starts the packet half. It returns
// when packets flow.
func (n *node) join(ctx context.Context, cfg lease.NetworkConfig, own lease.Lease) error {
	n.log.Info("lease acquired", "subnet", own.Subnets.String(), "network", cfg.Network.String(),
		"backend", n.backend.kind, "public_ip", own.Attrs.PublicIP.String())
	if err := hostnet.CheckOverlap(n.iface, cfg.Network); err != nil {
		return err
	}
	mtu, err := hostnet.OverlayMTU(n.backend.kind, n.iface.MTU, n.backend.mtu, cfg.EnableIPv4, cfg.EnableIPv6)
	if err != nil {
		return err
	}
	if mtu.Clamped {
		n.log.Warn("configured Backend.MTU is larger than the interface's MTU, which is used", "interface", n.iface.Name, "mtu", n.iface.MTU)
	}
	if err := n.prepareRules(ctx, cfg, own); err != nil {
		return err
	}
	if n.backend.kind != "alloc" {
		if err := n.startEngine(ctx, cfg, own, mtu); err != nil {
			return err
		}
	}
	if err := n.blackhole(own); err != nil {
		return err
	}
	unsaved := n.writeSubnetFile(cfg, own, mtu)
	if unsaved != nil {
		n.log.Warn("subnet file not written; pods cannot be given addresses", "error", unsaved)
	}
	n.ready.set("start", nil)
	n.advise(cfg, own)
	k := &keeper{node: n, cfg: cfg, own: own, mtu: mtu, link: n.iface.MTU, unsaved: unsaved != nil}
	n.keepers.Go(func() { k.run(ctx, n.cfg.RulesResync) })
	return nil
}

// startEngine opens the data path and waits until it carries packets.
func (n *node) startEngine(ctx context.Context, cfg lease.NetworkConfig, own lease.Lease, mtu hostnet.MTU) error {
	if err := hostnet.CheckTUN(n.cfg.TUNName); err != nil {
		return err
	}
	if err := n.removeLeftover(); err != nil {
		return err
	}
	if err := n.makeEngine(cfg, own, mtu); err != nil {
		return err
	}
	opened := make(chan struct{})
	go func() {
		defer close(n.ended)
		n.fail("data path", n.engine.run(ctx, func() { close(opened) }))
	}()
	n.keepers.Go(func() {
		if err := n.hops.Run(ctx); ctx.Err() == nil {
			n.fail("follow next hops", err)
		}
	})
	select {
	case <-opened:
		return nil
	case err := <-n.failed:
		return cmp.Or(err, ctx.Err())
	case <-ctx.Done(): // also when the failure was seen by run first
		return context.Cause(ctx)
	}
}

// fail ends the node because a part of it ended. Only the first counts.
func (n *node) fail(part string, err error) {
	if err != nil {
		err = fmt.Errorf("%s: %w", part, err)
	}
	select {
	case n.failed <- err:
	default:
	}
}

// removeLeftover deletes what flanneld left behind and holds our UDP port.
func (n *node) removeLeftover() error {
	if n.backend.kind != "vxlan" {
		return nil
	}
	devices, err := hostnet.VXLANDevices(int(n.backend.vni), int(n.backend.port))
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.IPv6 { // holds the port for IPv6 alone, which is not ours
			continue
		}
		if !d.IsFlannel() || d.VNI != int(n.backend.vni) || n.cfg.KeepFlannelDevice {
			return fmt.Errorf("%w: VXLAN device %s holds UDP port %d: remove it (ip link del %s) or give the network another Backend.Port",
				hostnet.ErrConflict, d.Name, d.Port, d.Name)
		}
		if err := d.Remove(); err != nil {
			return err
		}
		n.log.Info("removed the device that flanneld left behind", "device", d.Name,
			"mac", d.MAC.String(), "mac_kept", slices.Equal(d.MAC, n.backend.vtep[:]))
	}
	return nil
}

// makeEngine puts the packet half together.
func (n *node) makeEngine(cfg lease.NetworkConfig, own lease.Lease, mtu hostnet.MTU) (err error) {
	n.hops, err = host.NewNextHops(host.NextHopsConfig{IfIndex: n.iface.Index, Local4: n.iface.Addr4, Log: n.log})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.hops.Close())
		}
	}()
	workers, err := n.workers()
	if err != nil {
		return err
	}
	e := &engine{
		io: n.cfg.IO, workers: workers, frames: n.cfg.Frames, batch: n.cfg.Batch, spin: n.cfg.Spin,
		anySource: !n.cfg.SourceCheck, log: n.log, iface: n.iface, backend: n.backend,
		best: host.UDP, serve: n.ready.setter("data path"),
	}
	if err := e.makeCodecs(); err != nil {
		return err
	}
	e.table = fib.New(fib.Config{
		Fast: e.codecs.fast, Fallback: e.codecs.fallback,
		Local4: n.iface.Addr4, Public4: n.iface.Public4, Port: n.backend.port,
		Own: own.Subnets, Network: cfg.Network, BackendType: n.backend.kind,
		VTEP: n.backend.vtepOf(), NextHops: n.hops, Log: n.log,
	})
	e.tun = tunOpener{
		name: n.cfg.TUNName, queues: e.workers, offload: n.cfg.TUNOffload, log: n.log,
		net: hostnet.TUN{MTU: mtu, Subnets: own.Subnets, Network: cfg.Network},
	}
	n.engine = e
	return nil
}

// workers returns how many workers there are to be: as told, or one for each
// queue of the interface, as far as there are CPUs.
func (n *node) workers() (int, error) {
	if n.cfg.Workers > 0 {
		return n.cfg.Workers, nil
	}
	d, err := host.Probe(n.iface.Index)
	if err != nil {
		return 0, err
	}
	return min(d.Queues, runtime.NumCPU()), nil
}

// prepareRules sets the firewall rules up and keeps them.
func (n *node) prepareRules(ctx context.Context, cfg lease.NetworkConfig, own lease.Lease) error {
	if !n.cfg.ForwardRules && !n.cfg.IPMasq {
		return nil
	}
	rules, err := hostnet.NewRules(hostnet.RulesConfig{
		Network: cfg.Network, Subnets: own.Subnets, Forward: n.cfg.ForwardRules,
		Masq: n.cfg.IPMasq, SequentialPorts: n.cfg.SequentialPorts, Suffix: n.suffix(),
	})
	if err != nil {
		return err
	}
	if _, err := rules.Ensure(); err != nil {
		return err
	}
	n.rules = rules // from here on there is something to remove
	n.keepers.Go(func() { rules.Run(ctx, n.cfg.RulesResync, n.log) })
	return nil
}

// suffix tells the firewall tables of several daemons on one host apart, each of
// which has a device of its own. With the usual name there is none.
func (n *node) suffix() string {
	if n.cfg.TUNName == config.DefaultTUNName {
		return ""
	}
	return "-" + n.cfg.TUNName
}

// blackhole makes packets to addresses without a pod end here, if so asked.
func (n *node) blackhole(own lease.Lease) error {
	if !n.cfg.BlackholeRoute {
		return nil
	}
	n.blackholed = true
	_, err := hostnet.SetBlackhole(own.Subnets)
	return err
}

// writeSubnetFile tells the container runtime. A failure is not the end of the
// node, as with flanneld: packets flow, but the node is not ready, and the keeper
// tries again.
func (n *node) writeSubnetFile(cfg lease.NetworkConfig, own lease.Lease, mtu hostnet.MTU) error {
	err := hostnet.WriteSubnetFile(n.cfg.SubnetFile, hostnet.SubnetFile{
		Network: cfg.Network, Subnets: own.Subnets, MTU: mtu.Link(), IPMasq: n.cfg.IPMasq,
	})
	n.ready.set("subnet file", err)
	return err
}

// advise logs what on the host is in the overlay's way.
func (n *node) advise(cfg lease.NetworkConfig, own lease.Lease) {
	advice := hostnet.CheckHost(hostnet.Host{V4: true, Underlay: n.iface.Name})
	if n.rules != nil {
		more, err := n.rules.Obstacles()
		if err != nil {
			n.log.Warn("firewall not looked through", "error", err)
		}
		advice = append(advice, more...)
	}
	for _, a := range advice {
		n.log.Warn("host in the overlay's way", "what", a.What, "cure", a.Cure)
	}
	if n.engine != nil {
		n.adviseOnRoutes(cfg, own)
	}
}

// adviseOnRoutes tells of routes that lead around the overlay.
func (n *node) adviseOnRoutes(cfg lease.NetworkConfig, own lease.Lease) {
	detours, err := hostnet.Detours(hostnet.TUN{Index: n.engine.tun.index(), Subnets: own.Subnets, Network: cfg.Network})
	if err != nil {
		n.log.Warn("routes not looked through", "error", err)
	}
	if len(detours) > 0 {
		n.log.Warn("routes lead around the overlay, left over from flanneld or made by hand", "routes", detours)
	}
}

// apply hands the other nodes' leases to the packet half.
func (n *node) apply(u lease.Update) error {
	if n.engine == nil {
		return nil
	}
	return n.engine.table.Apply(u)
}

// leave undoes what join did to the host. The lease is kept: the subnet stays
// ours for the next start.
func (n *node) leave() error {
	n.keepers.Wait()
	var err error
	if n.engine != nil {
		<-n.ended
		n.engine.sum()
		err = n.engine.tun.reset()
	}
	if n.rules != nil {
		err = errors.Join(err, n.rules.Teardown())
	}
	if n.blackholed {
		_, berr := hostnet.SetBlackhole(lease.Subnets{})
		err = errors.Join(err, berr)
	}
	return err
}
