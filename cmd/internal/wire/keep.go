package wire

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"flanx/control/hostnet"
	"flanx/control/lease"
)

// addressGrace is how long the underlay address may be missing before the daemon
// ends, to choose anew at its next start: a DHCP client may take it away for a
// moment.
const addressGrace = 30 * time.Second

// keeper watches over the node's place on the host: it puts right what other
// programs do to the overlay's device, and follows the underlay interface.
type keeper struct {
	*node
	cfg  lease.NetworkConfig
	own  lease.Lease
	mtu  hostnet.MTU // in force
	link int         // the underlay's MTU that it was computed for
	gone time.Time   // since when the underlay address is missing; zero: it is there
	said string      // the last complaint about the device
	ours bool        // the next change of the device is our own doing

	unsaved bool // the subnet file is behind
}

// run looks after everything at every interval until ctx ends.
func (k *keeper) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			k.followUnderlay(now)
			k.healDevice()
			if k.unsaved {
				k.save()
			}
		}
	}
}

func (k *keeper) healDevice() {
	if k.engine == nil {
		return
	}
	changes, err := k.engine.tun.heal(k.mtu)
	ours := k.ours
	k.ours = false
	if len(changes) > 0 && !ours {
		k.log.Warn("overlay device put right: another program had changed it", "device", k.node.cfg.TUNName, "changes", changes)
	}
	k.complain(err)
}

// complain logs a trouble with the device once, until it is another or over.
func (k *keeper) complain(err error) {
	switch {
	case err == nil:
		k.said = ""
	case err.Error() != k.said:
		k.said = err.Error()
		k.log.Warn("overlay device is not as it must be", "error", err)
	}
}

// followUnderlay looks at the interface by its index, so a new name is no change.
func (k *keeper) followUnderlay(now time.Time) {
	i, err := net.InterfaceByIndex(k.iface.Index)
	if err != nil {
		k.missAddress(now)
		return
	}
	if addrs, err := i.Addrs(); err == nil && !slices.ContainsFunc(addrs, isAddr(k.iface.Addr4)) {
		k.missAddress(now)
	} else if !k.gone.IsZero() {
		k.gone = time.Time{}
		k.log.Info("underlay address is back", "interface", i.Name, "address", k.iface.Addr4.String())
		k.ready.set("underlay address", nil)
	}
	if i.MTU != k.link {
		k.link = i.MTU
		k.followMTU(i.Name)
	}
}

func isAddr(want netip.Addr) func(net.Addr) bool {
	return func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(want.AsSlice())
	}
}

// missAddress says that nobody reaches us, and ends the daemon when that lasts.
func (k *keeper) missAddress(now time.Time) {
	err := fmt.Errorf("underlay address %s is no longer on %s", k.iface.Addr4, k.iface.Name)
	if k.gone.IsZero() {
		k.gone = now
		k.log.Warn("underlay address is gone; ending if it stays away", "error", err, "grace", addressGrace)
		k.ready.set("underlay address", err)
	}
	if now.Sub(k.gone) >= addressGrace {
		k.fail("underlay", err)
	}
}

// followMTU computes the overlay's MTU anew. It goes up to what it was at the
// start, for which frames and codecs were made.
func (k *keeper) followMTU(name string) {
	mtu, err := hostnet.OverlayMTU(k.backend.kind, min(k.link, k.iface.MTU), k.backend.mtu, k.cfg.EnableIPv4, k.cfg.EnableIPv6)
	if err != nil {
		k.log.Warn("underlay MTU changed and cannot be followed", "interface", name, "mtu", k.link, "error", err)
		return
	}
	if k.link > k.iface.MTU {
		k.log.Warn("underlay MTU is larger than at the start; restart to use it", "interface", name, "mtu", k.link)
	}
	if mtu == k.mtu {
		return
	}
	k.log.Info("overlay MTU follows the underlay's", "interface", name, "underlay", k.link, "mtu", mtu.Link())
	k.mtu, k.ours = mtu, true
	k.save()
}

// save writes the subnet file, and says once that it could not.
func (k *keeper) save() {
	err := k.writeSubnetFile(k.cfg, k.own, k.mtu)
	switch {
	case err != nil && !k.unsaved:
		k.log.Warn("subnet file not written; trying again", "error", err)
	case err == nil && k.unsaved:
		k.log.Info("subnet file written", "file", k.node.cfg.SubnetFile)
	}
	k.unsaved = err != nil
}
