package wire

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"flanx/cmd/internal/config"
	"flanx/control"
	"flanx/control/etcd"
	"flanx/control/hostnet"
	"flanx/control/static"
)

// Run is the daemon: it makes this host a node of the overlay and keeps it one
// until ctx ends, then undoes what it did to the host and returns nil. The
// lease is kept. The caller holds the lock of the subnet file. ready is told, whenever that changes, nil while the node
// serves and otherwise why it does not.
func Run(ctx context.Context, cfg config.Daemon, log *slog.Logger, ready func(error)) error {
	iface, err := hostnet.PickInterface(hostnet.Options{
		Ifaces: cfg.Ifaces, Regexes: cfg.Regexes, CanReach: cfg.CanReach,
		PublicIP: cfg.PublicIP, PublicIPv6: cfg.PublicIPv6, V4: true,
	})
	if err != nil {
		return err
	}
	log.Info("underlay interface", "name", iface.Name, "address", iface.Addr4.String(),
		"public_ip", iface.Public4.String(), "mtu", iface.MTU, "chosen_by", iface.How)
	source, leaser, closeStore, err := openStore(cfg, log)
	if err != nil {
		return err
	}
	n := &node{cfg: cfg, log: log, iface: iface, ready: newConditions(ready), failed: make(chan error, 2), ended: make(chan struct{})}
	return errors.Join(n.run(ctx, source, leaser), closeStore())
}

// openStore makes the source that the configuration names.
func openStore(cfg config.Daemon, log *slog.Logger) (control.Source, control.Leaser, func() error, error) {
	if cfg.StaticConfig != "" {
		s := static.New(cfg.StaticConfig, log)
		return s, s, func() error { return nil }, nil
	}
	s, err := etcd.New(etcd.Config{
		Endpoints: cfg.EtcdEndpoints, Prefix: cfg.EtcdPrefix,
		TLS:      etcd.TLS{CAFile: cfg.EtcdCAFile, CertFile: cfg.EtcdCertFile, KeyFile: cfg.EtcdKeyFile},
		Username: cfg.EtcdUsername, Password: cfg.EtcdPassword,
		Margin: cfg.RenewMargin, Log: log,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	return s, s, s.Close, nil
}

// run keeps both halves going until ctx ends or one of them fails, and then
// leaves the host as it was.
func (n *node) run(ctx context.Context, source control.Source, leaser control.Leaser) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	agent := &control.Agent{
		Source: source, Leaser: leaser, PublicIP: n.iface.Public4, Log: n.log,
		Attrs: n.attrs, OnLease: n.join, Apply: n.apply,
		OnStatus:  n.ready.agent,
		Prefer:    hostnet.PreviousSubnets(n.cfg.SubnetFile, n.log),
		StateFile: n.cfg.StateFile, Origin: n.origin(),
	}
	go func() {
		select {
		case err := <-n.failed:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	err := agent.Run(ctx)
	if err == nil {
		err = cause(ctx)
	}
	cancel(nil)
	return errors.Join(err, n.leave())
}

// origin names the cluster, so that a state file is not taken for another's.
func (n *node) origin() string {
	if n.cfg.StaticConfig != "" {
		return "file:" + n.cfg.StaticConfig
	}
	return "etcd:" + strings.Join(slices.Sorted(slices.Values(n.cfg.EtcdEndpoints)), ",") + n.cfg.EtcdPrefix
}

// cause returns why ctx was ended from inside, nil if from outside.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
