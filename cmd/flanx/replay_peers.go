package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"flanx/control"
	"flanx/control/etcd"
	"flanx/control/lease"
	"flanx/control/static"
	"flanx/encap"
	"flanx/encap/udp"
	"flanx/encap/vxlan"
	"flanx/perf/replay"
)

// What an offline encapsulation is addressed with unless told otherwise:
// documentation addresses (RFC 5737) and local Ethernet ones.
var (
	offlineLocal  = netip.MustParseAddr("192.0.2.1")
	offlineRemote = netip.MustParseAddr("192.0.2.2")
	offlineSrc    = encap.MAC{2, 0, 0, 0, 0, 1}
	offlineDst    = encap.MAC{2, 0, 0, 0, 0, 2}
	ourVTEP       = encap.MAC{2, 0, 0, 0, 1, 1}
)

// theirVTEP is a peer's inner Ethernet address where none is known.
func theirVTEP(remote netip.Addr) encap.MAC {
	a := remote.As16()
	return encap.MAC{2, 1, a[12], a[13], a[14], a[15]}
}

// peerList takes the peers from wherever they were given.
func (f *replayFlags) peerList(ctx context.Context) ([]replay.Peer, error) {
	all, err := f.givenPeers()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	leased, err := f.leasedPeers(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, leased...)
	if len(all) == 0 && f.kind == "file" {
		for _, everything := range []string{"0.0.0.0/0", "::/0"} {
			all = append(all, replay.Peer{Subnet: netip.MustParsePrefix(everything), Peer: encap.Peer{Remote: offlineRemote}})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: --to underlay needs --peer CIDR=IP, --cluster or --etcd-endpoints", errUsage)
	}
	if f.encap == "vxlan" {
		for i := range all {
			if all[i].VTEP.IsZero() {
				all[i].VTEP = theirVTEP(all[i].Remote)
			}
		}
	}
	return all, nil
}

func (f *replayFlags) givenPeers() ([]replay.Peer, error) {
	var all []replay.Peer
	for _, s := range f.peers {
		subnet, rest, ok := strings.Cut(s, "=")
		address, mac, _ := strings.Cut(rest, ",")
		prefix, err1 := netip.ParsePrefix(subnet)
		remote, err2 := netip.ParseAddr(address)
		vtep, err3 := parseMAC(mac)
		if err := errors.Join(err1, err2, err3); err != nil || !ok {
			return nil, fmt.Errorf("--peer %q is not CIDR=IP or CIDR=IP,MAC", s)
		}
		all = append(all, replay.Peer{Subnet: prefix.Masked(), Peer: encap.Peer{Remote: remote, VTEP: vtep}})
	}
	return all, nil
}

// leaseWait bounds reading the lease table.
const leaseWait = 10 * time.Second

// leasedPeers reads the cluster's leases once.
func (f *replayFlags) leasedPeers(ctx context.Context) ([]replay.Peer, error) {
	var source control.Source
	switch {
	case f.cluster != "":
		source = static.New(f.cluster, nil)
	case len(f.etcdEndpoints) > 0:
		store, err := etcd.New(etcd.Config{Endpoints: f.etcdEndpoints, Prefix: f.etcdPrefix})
		if err != nil {
			return nil, err
		}
		defer store.Close()
		source = store
	default:
		return nil, nil
	}
	ctx, enough := context.WithTimeout(ctx, leaseWait)
	defer enough()
	var leases []lease.Lease
	got := false
	err := source.Watch(ctx, func(u lease.Update) error {
		if u.Snapshot {
			leases, got = u.Leases, true
			enough()
		}
		return nil
	})
	if !got {
		return nil, fmt.Errorf("read the cluster's leases: %w", err)
	}
	return f.fromLeases(leases), nil
}

// fromLeases makes peers of the leases that this encapsulation can use.
func (f *replayFlags) fromLeases(leases []lease.Lease) []replay.Peer {
	var all []replay.Peer
	for _, l := range leases {
		p := encap.Peer{Remote: l.Attrs.PublicIP}
		if f.encap == "vxlan" {
			data, err := lease.ParseVXLANData(l.Attrs.BackendData)
			if err != nil {
				continue // another backend's node
			}
			p.VTEP = encap.MAC(data.VtepMAC)
		}
		if l.Subnets.V4.IsValid() && p.Remote.IsValid() && p.Remote != f.localAddr {
			all = append(all, replay.Peer{Subnet: l.Subnets.V4, Peer: p})
		}
	}
	return all
}

// tunnelPort is the UDP port in use.
func (f *replayFlags) tunnelPort(encapsulation string) uint16 {
	switch {
	case f.port != 0:
		return f.port
	case encapsulation == "vxlan":
		return vxlan.DefaultPort
	}
	return udp.DefaultPort
}

// codec makes the codec for a layer. mtu bounds the outer packet; 0 does not.
func (f *replayFlags) codec(layer encap.Layer, mtu int) (encap.Codec, error) {
	if f.encap == "udp" {
		return udp.New(udp.Config{Layer: layer, Port: f.tunnelPort("udp"), MTU: mtu})
	}
	vni := uint32(vxlan.DefaultVNI)
	if f.vni >= 0 {
		vni = uint32(f.vni)
	}
	return vxlan.New(vxlan.Config{
		Layer: layer, VNI: vni, Port: f.tunnelPort("vxlan"), VTEP4: ourVTEP, VTEP6: ourVTEP, MTU: mtu,
	})
}
