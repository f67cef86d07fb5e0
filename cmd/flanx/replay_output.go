package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/host"
	"flanx/dataplane/packet"
	"flanx/dataplane/pcapport"
	"flanx/dataplane/udpsock"
	"flanx/dataplane/xsk"
	"flanx/encap"
	"flanx/perf/replay"
	"flanx/perf/replay/linktype"
	"flanx/perf/replay/packetsock"
)

// Frames of the pools: AF_XDP takes no larger ones; elsewhere any IP packet fits.
const (
	xdpFrames   = 4096
	largeFrames = 256
)

// output is a replay.Output with what must be closed after it.
type output struct {
	replay.Output
	closers []func() error
	way     string // how packets leave, for people
}

// own closes c with the output, before what was owned earlier.
func (o *output) own(c func() error) { o.closers = append(o.closers, c) }

func (o *output) close() (err error) {
	for i := len(o.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, o.closers[i]())
	}
	o.closers = nil
	return err
}

func (o *output) newPool(frames, size int) (err error) {
	if o.Pool, err = packet.NewPool(frames, size); err == nil {
		o.own(o.Pool.Close)
	}
	return err
}

// openOutput opens where the packets go. It runs in the network namespace that
// they are sent from.
func (f *replayFlags) openOutput(ctx context.Context) (o *output, err error) {
	o = &output{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
			o = nil
		}
	}()
	o.SrcMAC, o.DstMAC = f.src, f.dst
	o.MTU = f.mtu
	switch f.kind {
	case "file":
		return o, f.openFile(ctx, o)
	case "underlay":
		return o, f.openUnderlay(ctx, o)
	default:
		return o, f.openDevice(o)
	}
}

// openFile begins the file, or nothing for a dry run.
func (f *replayFlags) openFile(ctx context.Context, o *output) error {
	if err := o.newPool(largeFrames, packet.FrameSize64K); err != nil {
		return err
	}
	link := uint16(linktype.Ethernet)
	if f.decap == "udp" {
		link = linktype.Raw
	}
	if err := f.filePort(o, link); err != nil || f.encap == "" {
		return err
	}
	var err error
	o.Shape, o.SrcMAC, o.DstMAC = replay.Wrapped, encap.MAC{}, encap.MAC{}
	if o.Codec, err = f.codec(encap.Ethernet, f.mtu); err != nil {
		return err
	}
	o.MTU = 0 // the codec sees to it, with the outer headers
	return f.offlinePeers(ctx, o)
}

// offlinePeers compiles paths with the addresses given, or made up.
func (f *replayFlags) offlinePeers(ctx context.Context, o *output) error {
	peers, err := f.peerList(ctx)
	if err != nil {
		return err
	}
	for i := range peers {
		p := &peers[i].Peer
		p.Local, p.LocalMAC, p.NextHopMAC = f.localAddr, f.src, f.dst
		if !p.Local.IsValid() {
			p.Local = offlineLocal
		}
		if p.LocalMAC.IsZero() {
			p.LocalMAC = offlineSrc
		}
		if p.NextHopMAC.IsZero() {
			p.NextHopMAC = offlineDst
		}
	}
	o.Peers, err = replay.NewPeers(o.Codec, peers)
	return err
}

// filePort makes the file, as pcapng if its name says so.
func (f *replayFlags) filePort(o *output, link uint16) error {
	w := io.Writer(io.Discard)
	if !f.dryRun && f.target != "-" {
		if same(f.target, f.capture) {
			return fmt.Errorf("%w: %s would be written over while it is read", errUsage, f.target)
		}
		file, err := os.Create(f.target)
		if err != nil {
			return fmt.Errorf("make output file: %w", err)
		}
		o.own(file.Close)
		w = file
	}
	format := pcapport.PCAP
	if strings.HasSuffix(f.target, "ng") {
		format = pcapport.PCAPNG
	}
	port, err := pcapport.New(pcapport.Config{To: w, Format: format, LinkType: link, Program: "flanx replay"})
	if err != nil {
		return err
	}
	o.own(port.Close)
	o.Port, o.Stamp = port, port.Stamp
	return nil
}

// same says whether two paths lead to one file.
func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// openDevice opens a packet socket or an AF_XDP socket on an interface.
func (f *replayFlags) openDevice(o *output) error {
	iface, kind, err := findInterface(f.target)
	if err != nil {
		return err
	}
	if kind == unix.ARPHRD_NONE {
		o.Shape = replay.Packets
	}
	if f.kind == "tun" && o.Shape != replay.Packets {
		return fmt.Errorf("%s is no TUN: use --to dev:%[1]s", f.target)
	}
	if o.MTU == 0 {
		o.MTU = iface.MTU
	}
	if o.Shape == replay.Frames && f.io != "packet" {
		err := f.openXSK(o, iface)
		if err == nil || f.io == "xdp" {
			return err
		}
		fmt.Fprintf(f.stderr, "flanx: no AF_XDP, so by packet socket: %v\n", err)
	}
	if err := o.newPool(largeFrames, packet.FrameSize64K); err != nil {
		return err
	}
	port, err := packetsock.Open(packetsock.Config{IfIndex: iface.Index})
	if err != nil {
		return err
	}
	o.own(port.Close)
	o.Port, o.way = port, "packet socket"
	return nil
}

// openXSK opens an AF_XDP socket for sending. It needs no XDP program, for it
// shall receive nothing.
func (f *replayFlags) openXSK(o *output, iface *net.Interface) error {
	size := packet.FrameSize2K
	if iface.MTU+packet.Headroom+encap.MaxOverhead > size {
		size = packet.FrameSize4K
	}
	pool, err := packet.NewPool(xdpFrames, size)
	if err != nil {
		return err
	}
	port, err := xsk.Open(xsk.Config{IfIndex: iface.Index, Queue: f.queue, FillTarget: 64, TXLimit: xdpFrames / 2}, pool)
	if err != nil {
		return errors.Join(err, pool.Close())
	}
	o.own(pool.Close)
	o.own(port.Close)
	o.Pool, o.Port, o.way = pool, port, "AF_XDP, copied"
	if port.ZeroCopy() {
		o.way = "AF_XDP, zero-copy"
	}
	return nil
}

// openUnderlay opens the tunnel's side of the wire.
func (f *replayFlags) openUnderlay(ctx context.Context, o *output) error {
	iface, _, err := findInterface(f.target)
	if err != nil {
		return err
	}
	if !f.localAddr.IsValid() {
		if f.localAddr, err = addressOf(iface); err != nil {
			return err
		}
	}
	peers, err := f.peerList(ctx)
	if err != nil {
		return err
	}
	for i := range peers {
		peers[i].Local = f.localAddr
	}
	mtu := f.mtu
	if mtu == 0 {
		mtu = iface.MTU
	}
	o.Shape, o.MTU = replay.Wrapped, 0
	if f.io != "udp" {
		err := f.openFast(ctx, o, iface, peers, mtu)
		if err == nil || f.io == "xdp" || ctx.Err() != nil {
			return err
		}
		if err := o.close(); err != nil {
			return err
		}
		fmt.Fprintf(f.stderr, "flanx: no AF_XDP, so by UDP socket: %v\n", err)
	}
	return f.openSocket(o, peers, mtu)
}

// openFast opens AF_XDP and finds the way to every peer.
func (f *replayFlags) openFast(ctx context.Context, o *output, iface *net.Interface, peers []replay.Peer, mtu int) (err error) {
	if err := f.openXSK(o, iface); err != nil {
		return err
	}
	if o.Codec, err = f.codec(encap.Ethernet, mtu); err != nil {
		return err
	}
	if o.Peers, err = replay.NewPeers(o.Codec, peers); err != nil {
		return err
	}
	if !f.dst.IsZero() {
		src := f.src
		if src.IsZero() {
			src = encap.MAC(iface.HardwareAddr)
		}
		for _, remote := range o.Peers.Remotes() {
			if err := o.Peers.Resolve(remote, src, f.dst); err != nil {
				return err
			}
		}
		return nil
	}
	return resolve(ctx, iface, f.localAddr, o.Peers)
}

// openSocket opens a UDP socket, on a port of its own: the tunnel's may be
// held by flanxd, and receivers take any source port.
func (f *replayFlags) openSocket(o *output, peers []replay.Peer, mtu int) (err error) {
	if err := o.newPool(largeFrames, packet.FrameSize64K); err != nil {
		return err
	}
	if o.Codec, err = f.codec(encap.Datagram, mtu); err != nil {
		return err
	}
	if o.Peers, err = replay.NewPeers(o.Codec, peers); err != nil {
		return err
	}
	port, err := udpsock.Open(udpsock.Config{Local: netip.AddrPortFrom(f.localAddr, 0), DF: true})
	if err != nil {
		return err
	}
	o.own(port.Close)
	o.Port, o.way = port, "UDP socket"
	return nil
}

// resolveWait bounds finding the next hops of all peers.
const resolveWait = 5 * time.Second

// resolve asks the kernel for each peer's next hop. A datagram to the discard
// port makes it look for one that it does not know.
func resolve(ctx context.Context, iface *net.Interface, local netip.Addr, peers *replay.Peers) error {
	hops, err := host.NewNextHops(host.NextHopsConfig{IfIndex: iface.Index, Local4: local})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, resolveWait)
	ended := make(chan struct{})
	nudge, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		stop()
		return errors.Join(err, hops.Close())
	}
	defer nudge.Close()
	go func() { defer close(ended); _ = hops.Run(ctx) }() // ends with ctx
	defer func() { stop(); <-ended }()
	for _, remote := range peers.Remotes() {
		hops.Track(remote)
	}
	for _, remote := range peers.Remotes() {
		if err := await(ctx, hops, nudge, remote, peers); err != nil {
			return fmt.Errorf("find the way to %s on %s (or give --dst-mac): %w", remote, iface.Name, err)
		}
	}
	return nil
}

func await(ctx context.Context, hops *host.NextHops, nudge *net.UDPConn, remote netip.Addr, peers *replay.Peers) error {
	const discard = 9 // RFC 863
	for n := 0; ; n++ {
		if hop := hops.NextHop(remote); hop.Known {
			return peers.Resolve(remote, hop.LocalMAC, hop.MAC)
		}
		if n%25 == 0 {
			_, _ = nudge.WriteToUDPAddrPort(nil, netip.AddrPortFrom(remote, discard)) // silence shows below
		}
		select {
		case <-ctx.Done():
			return errors.New("no neighbour answers")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// findInterface looks up an interface of the thread's namespace and the kind of
// its link (ARPHRD_, linux/if_arp.h).
func findInterface(name string) (*net.Interface, uint16, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, 0, fmt.Errorf("find interface %s: %w", name, err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for interface %s: %w", name, err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for interface %s: %w", name, err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFHWADDR, request); err != nil {
		return nil, 0, fmt.Errorf("ask for the kind of interface %s: %w", name, err)
	}
	return iface, request.Uint16(), nil
}

// addressOf returns the interface's first IPv4 address.
func addressOf(iface *net.Interface) (netip.Addr, error) {
	addrs, err := iface.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list addresses of %s: %w", iface.Name, err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no IPv4 address: give --local", iface.Name)
}
