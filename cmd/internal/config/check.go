package config

import (
	"flag"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"flanx/dataplane/host"
)

// check turns what the flags hold into a Daemon.
func (r *raw) check(fs *flag.FlagSet) (Daemon, error) {
	for _, step := range []func() error{
		func() error { return refuse(fs) },
		r.checkStore, r.checkUnderlay, r.checkHost, r.checkPath, r.checkView,
	} {
		if err := step(); err != nil {
			return Daemon{}, err
		}
	}
	return r.d, nil
}

func (r *raw) checkStore() error {
	for e := range strings.SplitSeq(r.endpoints, ",") {
		if e = strings.TrimSpace(e); e != "" {
			r.d.EtcdEndpoints = append(r.d.EtcdEndpoints, e)
		}
	}
	r.d.EtcdPrefix = "/" + strings.Trim(r.d.EtcdPrefix, "/")
	r.d.RenewMargin = time.Duration(r.marginMins) * time.Minute
	switch {
	case len(r.d.EtcdEndpoints) == 0 && r.d.StaticConfig == "":
		return fmt.Errorf("%w: -etcd-endpoints is empty: name at least one, or give -static-config", ErrUsage)
	case (r.d.EtcdCertFile == "") != (r.d.EtcdKeyFile == ""):
		return fmt.Errorf("%w: -etcd-certfile and -etcd-keyfile go together: give both or none", ErrUsage)
	case r.marginMins < 1 || r.marginMins > 1439:
		return fmt.Errorf("%w: -subnet-lease-renew-margin %d is not between 1 and 1439 minutes", ErrUsage, r.marginMins)
	}
	return nil
}

func (r *raw) checkUnderlay() (err error) {
	r.d.Ifaces, r.d.Regexes = r.ifaces, r.res
	for _, re := range r.res {
		if _, err := regexp.Compile(re); err != nil {
			return fmt.Errorf("%w: -iface-regex %q: %w", ErrUsage, re, err)
		}
	}
	if r.d.PublicIP, err = parseAddr("public-ip", r.publicIP, true); err != nil {
		return err
	}
	if r.d.PublicIPv6, err = parseAddr("public-ipv6", r.publicIPv6, false); err != nil {
		return err
	}
	if r.canReach == "" {
		return nil
	}
	if r.d.CanReach, err = netip.ParseAddr(r.canReach); err != nil {
		return fmt.Errorf("%w: -iface-can-reach %q is not an address", ErrUsage, r.canReach)
	}
	return nil
}

// ifNameMax is the longest interface name (IFNAMSIZ in linux/if.h, less the
// closing zero).
const ifNameMax = 15

func (r *raw) checkHost() error {
	r.d.RulesResync = time.Duration(r.resyncSecs) * time.Second
	switch {
	case r.d.SubnetFile == "":
		return fmt.Errorf("%w: -subnet-file is empty: container runtimes read the node's subnet from it", ErrUsage)
	case r.resyncSecs < 1:
		return fmt.Errorf("%w: -iptables-resync %d is not at least 1 second", ErrUsage, r.resyncSecs)
	case r.d.TUNName == "" || len(r.d.TUNName) > ifNameMax || strings.ContainsAny(r.d.TUNName, "/% \t\n"):
		return fmt.Errorf("%w: -tun-name %q is no interface name: 1 to %d letters, no slash, %% or space", ErrUsage, r.d.TUNName, ifNameMax)
	}
	return nil
}

func (r *raw) checkPath() (err error) {
	d := &r.d
	if d.IO, err = host.ParseRung(r.io); err != nil {
		return fmt.Errorf("%w: -io %q: use auto, zerocopy, native, generic or udp", ErrUsage, r.io)
	}
	switch {
	case d.Workers < 0 || d.Workers > 256:
		return fmt.Errorf("%w: -workers %d is not between 0 and 256", ErrUsage, d.Workers)
	case d.Spin < 0 || d.Spin > time.Second:
		return fmt.Errorf("%w: -spin %v is not between 0 and 1s", ErrUsage, d.Spin)
	case d.Batch < 1 || d.Batch > 1024:
		return fmt.Errorf("%w: -batch %d is not between 1 and 1024", ErrUsage, d.Batch)
	case d.Frames < 256 || d.Frames > 65536 || d.Frames&(d.Frames-1) != 0:
		return fmt.Errorf("%w: -frames %d is not a power of two from 256 to 65536", ErrUsage, d.Frames)
	case d.Frames < 4*d.Batch:
		return fmt.Errorf("%w: -frames %d is less than four batches of %d: raise -frames or lower -batch", ErrUsage, d.Frames, d.Batch)
	}
	return nil
}

func (r *raw) checkView() (err error) {
	if r.klogLevel > 0 {
		r.d.LogLevel = "debug"
	}
	if r.d.HealthzIP, err = netip.ParseAddr(r.healthzIP); err != nil {
		return fmt.Errorf("%w: -healthz-ip %q is not an address", ErrUsage, r.healthzIP)
	}
	switch {
	case r.d.HealthzPort < 0 || r.d.HealthzPort > 65535:
		return fmt.Errorf("%w: -healthz-port %d is not between 0 and 65535", ErrUsage, r.d.HealthzPort)
	case !oneOf(r.d.LogLevel, "debug", "info", "warn", "error"):
		return fmt.Errorf("%w: -log-level %q: use debug, info, warn or error", ErrUsage, r.d.LogLevel)
	case !oneOf(r.d.LogFormat, "text", "json"):
		return fmt.Errorf("%w: -log-format %q: use text or json", ErrUsage, r.d.LogFormat)
	}
	return nil
}

func oneOf(s string, allowed ...string) bool {
	for _, a := range allowed {
		if s == a {
			return true
		}
	}
	return false
}
