package config

import (
	"flag"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"flanx/dataplane/host"
)

// noState says in -state-file that none is to be kept.
const noState = "none"

// defaultLevel is that of -log-level.
const defaultLevel = "info"

// check turns what the flags hold into a Daemon.
func (r *raw) check(fs *flag.FlagSet) (Daemon, error) {
	for _, step := range []func() error{
		func() error { return r.checkDropped(fs) },
		r.checkStore, r.checkUnderlay, r.checkHost, r.checkPath,
		func() error { return r.checkView(fs) },
	} {
		if err := step(); err != nil {
			return Daemon{}, err
		}
	}
	return r.d, nil
}

func (r *raw) checkStore() error {
	d := &r.d
	if err := r.checkEndpoints(); err != nil {
		return err
	}
	d.EtcdPrefix = "/" + strings.Trim(d.EtcdPrefix, "/")
	d.RenewMargin = time.Duration(r.marginMins) * time.Minute
	switch {
	case d.EtcdPrefix == "/":
		return fmt.Errorf("%w: -etcd-prefix is empty: the default is /coreos.com/network", ErrUsage)
	case len(d.EtcdEndpoints) == 0 && d.StaticConfig == "":
		return fmt.Errorf("%w: -etcd-endpoints is empty: name at least one, or give -static-config", ErrUsage)
	case (d.EtcdCertFile == "") != (d.EtcdKeyFile == ""):
		return fmt.Errorf("%w: -etcd-certfile %q and -etcd-keyfile %q go together: give both or none", ErrUsage, d.EtcdCertFile, d.EtcdKeyFile)
	case (d.EtcdUsername == "") != (d.EtcdPassword == ""):
		return fmt.Errorf("%w: -etcd-username and -etcd-password go together: give both or none", ErrUsage)
	case r.marginMins < 1 || r.marginMins > 1439:
		return fmt.Errorf("%w: -subnet-lease-renew-margin %d: give 1 to 1439 minutes", ErrMargin, r.marginMins)
	}
	return nil
}

// checkEndpoints takes what the etcd client takes: URLs, or host and port.
func (r *raw) checkEndpoints() error {
	for e := range strings.SplitSeq(r.endpoints, ",") {
		if e = strings.TrimSpace(e); e == "" {
			continue
		}
		scheme, rest, ok := strings.Cut(e, "://")
		if ok && !slices.Contains([]string{"http", "https", "unix", "unixs"}, scheme) {
			return fmt.Errorf("%w: -etcd-endpoints: %q: use http:// or https://", ErrUsage, e)
		}
		if !ok {
			rest = e
		}
		if _, err := url.Parse("http://" + rest); err != nil || rest == "" {
			return fmt.Errorf("%w: -etcd-endpoints: %q is no URL: write http://host:port", ErrUsage, e)
		}
		r.d.EtcdEndpoints = append(r.d.EtcdEndpoints, e)
	}
	return nil
}

func (r *raw) checkUnderlay() (err error) {
	d := &r.d
	d.Ifaces, d.Regexes = r.ifaces, r.res
	if slices.Contains(d.Ifaces, "") || slices.Contains(d.Regexes, "") {
		return fmt.Errorf("%w: -iface or -iface-regex is empty: leave it out", ErrUsage)
	}
	for _, re := range d.Regexes {
		if _, err := regexp.Compile(re); err != nil {
			return fmt.Errorf("%w: -iface-regex %q: %w: Go's syntax is used", ErrUsage, re, err)
		}
	}
	if d.PublicIP, err = parseUnicast("public-ip", r.publicIP, netip.Addr.Is4, "an IPv4"); err != nil {
		return err
	}
	if d.PublicIPv6, err = parseUnicast("public-ipv6", r.publicIPv6, netip.Addr.Is6, "an IPv6"); err != nil {
		return err
	}
	d.CanReach, err = parseUnicast("iface-can-reach", r.canReach, netip.Addr.IsValid, "an")
	return err
}

// parseUnicast reads an address that a packet can be sent to; empty is the zero
// Addr.
func parseUnicast(name, s string, fits func(netip.Addr) bool, kind string) (netip.Addr, error) {
	if s == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !fits(a) || a.Is4In6() || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%w: -%s %q is not %s address", ErrUsage, name, s, kind)
	}
	if a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return netip.Addr{}, fmt.Errorf("%w: -%s %q is no address that another node can have", ErrUsage, name, s)
	}
	return a, nil
}

// ifNameMax is the longest interface name (IFNAMSIZ in linux/if.h, less the
// closing zero).
const ifNameMax = 15

// maxResync keeps a mistyped number from turning the checks off in effect.
const maxResync = 24 * 60 * 60

func (r *raw) checkHost() error {
	d := &r.d
	d.RulesResync = time.Duration(r.resyncSecs) * time.Second
	switch {
	case d.SubnetFile == "" || strings.HasSuffix(d.SubnetFile, "/"):
		return fmt.Errorf("%w: -subnet-file %q names no file: container runtimes read the node's subnet from it", ErrUsage, d.SubnetFile)
	case r.resyncSecs < 1 || r.resyncSecs > maxResync:
		return fmt.Errorf("%w: -iptables-resync %d: give 1 to %d seconds", ErrUsage, r.resyncSecs, maxResync)
	case !isIfName(d.TUNName):
		return fmt.Errorf("%w: -tun-name %q is no interface name: use 1 to %d letters, digits, dots, dashes", ErrUsage, d.TUNName, ifNameMax)
	}
	switch d.StateFile {
	case "":
		d.StateFile = d.SubnetFile + ".state"
	case noState:
		d.StateFile = ""
	}
	return nil
}

// isIfName follows dev_valid_name in net/core/dev.c; % would be a pattern.
func isIfName(s string) bool {
	return s != "" && len(s) <= ifNameMax && s != "." && s != ".." && !strings.ContainsAny(s, "/:%\x00 \t\n\v\f\r")
}

func (r *raw) checkPath() (err error) {
	d := &r.d
	if d.IO, err = host.ParseRung(r.io); err != nil {
		return fmt.Errorf("%w: -io %q: use auto, zerocopy, native, generic or udp", ErrUsage, r.io)
	}
	switch {
	case d.Workers < 0 || d.Workers > 256:
		return fmt.Errorf("%w: -workers %d: give 0 to 256", ErrUsage, d.Workers)
	case d.Spin < 0 || d.Spin > time.Second:
		return fmt.Errorf("%w: -spin %v: give 0 to 1s", ErrUsage, d.Spin)
	case d.Batch < 1 || d.Batch > 1024:
		return fmt.Errorf("%w: -batch %d: give 1 to 1024", ErrUsage, d.Batch)
	case d.Frames < 256 || d.Frames > 65536 || d.Frames&(d.Frames-1) != 0:
		return fmt.Errorf("%w: -frames %d: give a power of two from 256 to 65536", ErrUsage, d.Frames)
	case d.Frames < 4*d.Batch:
		return fmt.Errorf("%w: -frames %d is less than four batches of %d: raise -frames or lower -batch", ErrUsage, d.Frames, d.Batch)
	}
	if !d.SourceCheck {
		r.warn("-source-check=false: whoever can reach the tunnel's UDP port can send packets into the overlay under any source address")
	}
	return nil
}

func (r *raw) checkView(fs *flag.FlagSet) (err error) {
	d := &r.d
	if d.HealthzIP, err = netip.ParseAddr(r.healthzIP); err != nil {
		return fmt.Errorf("%w: -healthz-ip %q is not an address: 0.0.0.0 stands for all of the host's", ErrUsage, r.healthzIP)
	}
	switch {
	case d.HealthzPort < 0 || d.HealthzPort > 65535:
		return fmt.Errorf("%w: -healthz-port %d: give 1 to 65535, or 0 for none", ErrUsage, d.HealthzPort)
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, d.LogLevel):
		return fmt.Errorf("%w: -log-level %q: use debug, info, warn or error", ErrUsage, d.LogLevel)
	case d.LogFormat != "text" && d.LogFormat != "json":
		return fmt.Errorf("%w: -log-format %q: use text or json", ErrUsage, d.LogFormat)
	case r.klogLevel < 0:
		return fmt.Errorf("%w: -v %d: give 0 or more", ErrUsage, r.klogLevel)
	}
	if r.klogLevel > 0 && !given(fs, "log-level") {
		d.LogLevel = "debug"
	}
	return nil
}

func given(fs *flag.FlagSet, name string) (is bool) {
	fs.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}
