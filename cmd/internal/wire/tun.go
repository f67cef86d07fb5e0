package wire

import (
	"errors"
	"fmt"
	"log/slog"

	"flanx/control/hostnet"
	"flanx/dataplane"
	"flanx/dataplane/host"
	"flanx/dataplane/tun"
)

// tunOpener keeps the TUN device over the sessions of the engine, so that the
// pods' routes stay while the underlay is opened anew.
type tunOpener struct {
	name   string
	queues int
	net    hostnet.TUN // how the device has to look; Index is filled in
	log    *slog.Logger

	open []dataplane.Port
}

// ports returns the open queues, opening and configuring the device first if
// need be.
func (t *tunOpener) ports() ([]dataplane.Port, error) {
	if t.open != nil {
		return t.open, nil
	}
	dev, err := host.OpenTUN(host.TUNConfig{Name: t.name, MTU: t.net.MTU.Link(), Queues: t.queues})
	if err != nil {
		return nil, err
	}
	for i := range dev.Queues() {
		t.open = append(t.open, tun.NewPlain(dev.Take(i)))
	}
	t.net.Index = dev.Index
	changes, err := hostnet.ConfigureTUN(t.net)
	if err != nil {
		t.reset()
		return nil, fmt.Errorf("configure %s: %w", dev.Name, err)
	}
	t.log.Info("overlay device ready", "device", dev.Name, "mtu", t.net.MTU.Link(), "changes", changes)
	return t.open, nil
}

// reset closes the device, which removes it with its addresses and routes.
func (t *tunOpener) reset() error {
	var err error
	for _, p := range t.open {
		err = errors.Join(err, p.Close())
	}
	t.open = nil
	return err
}
