package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"flanx/encap"
	"flanx/perf/replay"
	"flanx/perf/replay/change"
	"flanx/perf/replay/pace"
)

// replayFlags are those of "flanx replay", as given and as understood.
type replayFlags struct {
	capture, to, io, encap, decap, netns, verify string
	local, srcMAC, dstMAC, cut                   string
	peers                                        []string
	cluster, etcdPrefix                          string
	etcdEndpoints                                []string
	port                                         uint16
	vni, mtu, queue                              int

	pace     pace.Config
	loops    int
	limit    uint64
	duration time.Duration
	preload  byteSize

	mapNet, mapPort  []string
	include, exclude []string
	rules            change.Rules

	json, dryRun bool

	kind, target string // of to
	localAddr    netip.Addr
	src, dst     encap.MAC
	cutRecords   replay.Cut
	filter       *change.Expr
	stdin        io.Reader
	stderr       io.Writer
}

func newReplayFlags() *replayFlags { return &replayFlags{} }

func (f *replayFlags) register(s *pflag.FlagSet) {
	s.StringVar(&f.to, "to", "", "`WHERE` to: tun:NAME, dev:NAME, underlay:NAME or file:PATH")
	s.StringVar(&f.io, "io", "auto", "way out: auto, xdp, udp (underlay) or packet (dev, tun)")
	s.IntVar(&f.queue, "queue", 0, "the interface's queue, with AF_XDP")
	s.StringVar(&f.netns, "netns", "", "send from this network namespace (ip netns)")
	s.StringVar(&f.encap, "encap", "", "encapsulate: udp or vxlan")
	s.StringVar(&f.decap, "decap", "", "take out of its encapsulation, to a file: udp or vxlan")
	s.StringArrayVar(&f.peers, "peer", nil, "`CIDR=IP[,MAC]`: node that packets for a subnet go to, and its VXLAN end; may be repeated")
	s.StringVar(&f.cluster, "cluster", "", "take peers from this static cluster `file`")
	s.StringSliceVar(&f.etcdEndpoints, "etcd-endpoints", nil, "take peers from the leases in this etcd")
	s.StringVar(&f.etcdPrefix, "etcd-prefix", "/coreos.com/network", "where the leases are")
	s.StringVar(&f.local, "local", "", "outer source `address` (default: the underlay interface's)")
	s.Uint16Var(&f.port, "port", 0, "the tunnel's UDP port (default 8285 for udp, 8472 for vxlan)")
	s.IntVar(&f.vni, "vni", -1, "VXLAN network identifier (default 1; with --decap any)")
	s.StringVar(&f.srcMAC, "src-mac", "", "source address of frames, the outer one when encapsulating")
	s.StringVar(&f.dstMAC, "dst-mac", "", "destination address of frames; with --encap the next hop's")
	s.IntVar(&f.mtu, "mtu", 0, "longest IP packet to send (default: the interface's MTU)")
	f.registerPace(s)
	f.registerChanges(s)
	s.StringVar(&f.verify, "verify", "", "compare with what arrives at dev:NAME or netns:NAMESPACE/DEV, or is in file:PATH")
	s.BoolVar(&f.dryRun, "dry-run", false, "say what would be sent, and send nothing")
	s.BoolVar(&f.json, "json", false, "print the summary as JSON")
}

func (f *replayFlags) registerPace(s *pflag.FlagSet) {
	s.Float64Var(&f.pace.Speed, "speed", 0, "`times` the original speed")
	s.Float64Var(&f.pace.PPS, "pps", 0, "packets per second")
	s.Float64Var(&f.pace.Mbps, "mbps", 0, "megabits per second, headers of the outermost frame included")
	s.BoolVar(&f.pace.Top, "top", false, "as fast as it goes")
	s.DurationVar(&f.pace.MaxGap, "max-gap", time.Minute, "longest pause of the original timing; 0 keeps all")
	s.IntVar(&f.pace.Burst, "burst", 1, "packets to send at once, at the same rate")
	s.IntVar(&f.loops, "loop", 1, "times to send it all; 0 goes on until it is stopped")
	s.Uint64Var(&f.limit, "limit", 0, "packets to send; 0 is all")
	s.DurationVar(&f.duration, "duration", 0, "time to send for; 0 has no end")
	s.Var(&f.preload, "preload", "read the capture into memory first, up to this `size`")
}

func (f *replayFlags) registerChanges(s *pflag.FlagSet) {
	s.StringArrayVar(&f.include, "include", nil, "send only what fits, such as \"udp port 53 or icmp\"; may be repeated")
	s.StringArrayVar(&f.exclude, "exclude", nil, "leave out what fits; may be repeated")
	s.StringArrayVar(&f.mapNet, "map-net", nil, "`FROM=TO`: move addresses to another network of the same size; may be repeated")
	s.StringArrayVar(&f.mapPort, "map-port", nil, "`FROM=TO`: change a TCP or UDP port; may be repeated")
	s.Uint8Var(&f.rules.TTL, "ttl", 0, "TTL or hop limit to set")
	s.BoolVar(&f.rules.Repair, "fix", false, "write checksums anew, and lengths of 0 left by segmentation offload")
	s.BoolVar(&f.rules.Unique, "unique", false, "add the number of the loop to addresses")
	s.StringVar(&f.cut, "cut", "skip", "records not captured as a whole: skip, pad with zeros or send")
}

// check understands the flags together.
func (f *replayFlags) check() error {
	var ok bool
	if f.kind, f.target, ok = strings.Cut(f.to, ":"); f.to == "" && f.dryRun {
		f.kind, ok, f.target = "file", true, "-"
	}
	if !ok || f.target == "" || !slices.Contains([]string{"tun", "dev", "underlay", "file"}, f.kind) {
		return fmt.Errorf("--to %q is not tun:NAME, dev:NAME, underlay:NAME or file:PATH", f.to)
	}
	if f.loops == 0 {
		f.loops = -1
	}
	return errors.Join(f.checkEncap(), f.checkSource(), f.checkNumbers(), f.checkAddresses(), f.checkChanges())
}

func (f *replayFlags) checkEncap() error {
	for _, e := range []string{f.encap, f.decap} {
		if !slices.Contains([]string{"", "udp", "vxlan"}, e) {
			return fmt.Errorf("encapsulation %q is not udp or vxlan", e)
		}
	}
	ways := map[string][]string{
		"underlay": {"auto", "xdp", "udp"}, "dev": {"auto", "xdp", "packet"}, "tun": {"auto", "packet"}, "file": {"auto"},
	}
	switch {
	case f.decap != "" && (f.encap != "" || f.kind != "file"):
		return errors.New("--decap goes with --to file:PATH and without --encap")
	case f.kind == "underlay" && f.encap == "":
		return errors.New("--to underlay needs --encap udp or vxlan")
	case f.encap != "" && f.kind != "underlay" && f.kind != "file":
		return fmt.Errorf("--encap goes with --to underlay or file, not %s", f.kind)
	case !slices.Contains(ways[f.kind], f.io):
		return fmt.Errorf("--io %q does not go with --to %s: there it is one of %v", f.io, f.kind, ways[f.kind])
	case f.vni > 1<<24-1:
		return fmt.Errorf("--vni %d is more than 24 bits", f.vni)
	}
	return nil
}

func (f *replayFlags) checkSource() error {
	if f.capture == "-" && f.loops != 1 && f.preload == 0 {
		return errors.New("standard input can be read but once: --loop needs --preload")
	}
	if f.verify != "" && !strings.HasPrefix(f.verify, "file:") && (f.kind == "file" || f.dryRun) {
		return errors.New("nothing is sent that --verify could see arrive; compare with file:PATH")
	}
	return nil
}

func (f *replayFlags) checkNumbers() error {
	if f.queue < 0 || f.mtu < 0 || f.duration < 0 || f.pace.Burst < 0 || f.pace.Burst > 1024 {
		return fmt.Errorf("--queue %d, --mtu %d, --duration %s, --burst %d: out of range", f.queue, f.mtu, f.duration, f.pace.Burst)
	}
	return f.pace.Check()
}

func (f *replayFlags) checkAddresses() (err error) {
	if f.local != "" {
		if f.localAddr, err = netip.ParseAddr(f.local); err != nil {
			return fmt.Errorf("--local: %w", err)
		}
	}
	if f.src, err = parseMAC(f.srcMAC); err != nil {
		return fmt.Errorf("--src-mac: %w", err)
	}
	if f.dst, err = parseMAC(f.dstMAC); err != nil {
		return fmt.Errorf("--dst-mac: %w", err)
	}
	return nil
}

// parseMAC reads an Ethernet address; an empty text is the zero one.
func parseMAC(s string) (encap.MAC, error) {
	if s == "" {
		return encap.MAC{}, nil
	}
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 {
		return encap.MAC{}, fmt.Errorf("%q is no Ethernet address", s)
	}
	return encap.MAC(hw), nil
}

func (f *replayFlags) checkChanges() (err error) {
	if f.cutRecords, err = replay.ParseCut(f.cut); err != nil {
		return err
	}
	for _, s := range f.mapNet {
		m, err := change.ParseNetMap(s)
		if err != nil {
			return err
		}
		f.rules.Nets = append(f.rules.Nets, m)
	}
	for _, s := range f.mapPort {
		m, err := change.ParsePortMap(s)
		if err != nil {
			return err
		}
		f.rules.Ports = append(f.rules.Ports, m)
	}
	for i, s := range slices.Concat(f.include, f.exclude) {
		e, err := change.Parse(s)
		if err != nil {
			return err
		}
		if i >= len(f.include) {
			e = e.Not()
		}
		f.filter = change.And(f.filter, e)
	}
	return nil
}
