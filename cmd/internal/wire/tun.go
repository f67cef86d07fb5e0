package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"flanx/control/hostnet"
	"flanx/dataplane"
	"flanx/dataplane/host"
	"flanx/dataplane/tun"
)

// tunOpener keeps the TUN device over the sessions of the engine, so that the
// pods' routes stay while the underlay is opened anew.
type tunOpener struct {
	name    string
	queues  int
	offload bool        // ask for super-packets
	net     hostnet.TUN // how the device has to look; Index is filled in
	log     *slog.Logger

	mu   sync.Mutex // guards net and open: the keeper heals while the engine opens
	open []dataplane.Port
}

// ports returns the open queues, opening and configuring the device first if
// need be.
func (t *tunOpener) ports() ([]dataplane.Port, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open != nil {
		return t.open, nil
	}
	dev, err := t.device()
	if err != nil {
		return nil, err
	}
	for i := range dev.Queues() {
		t.open = append(t.open, t.port(dev, i))
	}
	t.net.Index = dev.Index
	changes, err := hostnet.ConfigureTUN(t.net)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("configure %s: %w", dev.Name, err), t.closeAll())
	}
	t.log.Info("overlay device ready", "device", dev.Name, "mtu", t.net.MTU.Link(), "offload", t.offload, "changes", changes)
	return t.open, nil
}

// index returns the device's interface index.
func (t *tunOpener) index() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.net.Index
}

// mtu returns the overlay's MTU.
func (t *tunOpener) mtu() hostnet.MTU {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.net.MTU
}

// device opens the TUN with offloads, or without on a kernel that has none.
func (t *tunOpener) device() (*host.TUN, error) {
	cfg := host.TUNConfig{Name: t.name, MTU: t.net.MTU.Link(), Queues: t.queues, Offload: t.offload}
	dev, err := host.OpenTUN(cfg)
	if err == nil || !t.offload {
		return dev, err
	}
	cfg.Offload = false
	plain, perr := host.OpenTUN(cfg)
	if perr != nil {
		return nil, perr // not the offloads' fault
	}
	t.log.Warn("the TUN works without offloads; bulk traffic is slower", "error", err)
	t.offload = false
	return plain, nil
}

// port makes the port of one queue.
func (t *tunOpener) port(dev *host.TUN, queue int) dataplane.Port {
	if t.offload {
		return tun.NewOffload(dev.Take(queue), dev.Offloads)
	}
	return tun.NewPlain(dev.Take(queue))
}

// heal puts right what other programs changed about the open device.
func (t *tunOpener) heal(mtu hostnet.MTU) (changes []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.net.MTU = mtu
	if t.open == nil {
		return nil, nil // opening it will
	}
	return hostnet.ConfigureTUN(t.net)
}

// reset closes the device, which removes it with its addresses and routes.
func (t *tunOpener) reset() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closeAll()
}

func (t *tunOpener) closeAll() error {
	var err error
	for _, p := range t.open {
		err = errors.Join(err, p.Close())
	}
	t.open = nil
	return err
}
