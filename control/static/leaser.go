package static

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"flanx/control"
	"flanx/control/lease"
)

// Find looks our node up by its public address; see control.Leaser. It is a
// reservation: it has no end.
func (f *File) Find(ctx context.Context, cfg lease.NetworkConfig, publicIP netip.Addr, last lease.Lease) (lease.Lease, bool, error) {
	if err := ctx.Err(); err != nil {
		return lease.Lease{}, false, err
	}
	c, err := f.load()
	if err != nil {
		return lease.Lease{}, false, err
	}
	l, found := own(c.leases, cfg, publicIP, last)
	return l, found, nil
}

// errNotNamed is why our subnet is out of place in the file.
var errNotNamed = errors.New("no node of the file has it")

func isAt(a lease.Attrs, public netip.Addr) bool {
	return public.IsValid() && (a.PublicIP == public || a.PublicIPv6 == public)
}

func own(leases []lease.Lease, cfg lease.NetworkConfig, publicIP netip.Addr, last lease.Lease) (best lease.Lease, found bool) {
	for _, l := range leases {
		if !isAt(l.Attrs, publicIP) || cfg.Fits(l.Subnets) != nil {
			continue
		}
		if !found || l.Subnets == last.Subnets {
			best, found = l, true
		}
	}
	best.Reserved = found
	return best, found
}

// Acquire takes what the file says is ours. attrs must agree with the file,
// because the other nodes go by that; what the file leaves open is ours to say.
func (f *File) Acquire(ctx context.Context, cfg lease.NetworkConfig, attrs lease.Attrs, last lease.Lease) (lease.Lease, error) {
	publicIP := attrs.PublicIP
	if !publicIP.IsValid() {
		publicIP = attrs.PublicIPv6
	}
	l, found, err := f.Find(ctx, cfg, publicIP, last)
	if err != nil {
		return l, err
	}
	if !found {
		return l, fmt.Errorf("file %s has no usable node with our public address %s: add it, or give the address by -public-ip", f.path, publicIP)
	}
	for _, d := range []struct{ file, ours []byte }{
		{l.Attrs.BackendData, attrs.BackendData},
		{l.Attrs.BackendV6Data, attrs.BackendV6Data},
	} {
		if len(d.file) > 0 && string(d.file) != string(d.ours) {
			return l, fmt.Errorf("file %s says %s about our node, but we are %s: use what the file says", f.path, d.file, d.ours)
		}
	}
	l.Attrs = attrs
	return l, nil
}

// Keep watches that the file does not give our subnet to another node. A file
// that does not name us any more is only warned about.
func (f *File) Keep(ctx context.Context, l lease.Lease, _ func(lease.Lease)) error {
	r := f.reader()
	missing := control.Outage{Log: f.log}
	for {
		if r.look() {
			owner, named := holder(r.good.leases, l.Subnets)
			switch {
			case named && (owner.Attrs.PublicIP != l.Attrs.PublicIP || owner.Attrs.PublicIPv6 != l.Attrs.PublicIPv6):
				return fmt.Errorf("%w: file %s gives %s to another node at %s", control.ErrLeaseLost, f.path, owner.Subnets, owner.Attrs.PublicIP)
			case !named:
				missing.Down("our subnet is not in the file any more; it stays in use", errNotNamed, "file", f.path, "subnets", l.Subnets)
			default:
				missing.Up("our subnet is in the file again", "file", f.path, "subnets", l.Subnets)
			}
		}
		if err := control.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// holder is the node whose range covers any of s.
func holder(leases []lease.Lease, s lease.Subnets) (lease.Lease, bool) {
	for _, l := range leases {
		if l.Subnets.Overlaps(s) {
			return l, true
		}
	}
	return lease.Lease{}, false
}
