package config

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"flanx/dataplane/host"
)

// Defaults that are ours; those of flanneld stand beside its flags.
const (
	defaultSpin   = 50 * time.Microsecond
	defaultBatch  = 64
	defaultFrames = host.DefaultFrames
)

// raw is what the flags fill in before it is checked.
type raw struct {
	d           Daemon
	endpoints   string
	canReach    string
	publicIP    string
	publicIPv6  string
	healthzIP   string
	io          string
	marginMins  int
	resyncSecs  int
	klogLevel   int
	kube        kube
	ifaces, res list
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// newFlags declares every flag, with its default and its line of help.
func newFlags(r *raw, out io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("flanxd", flag.ContinueOnError)
	fs.SetOutput(out)
	storeFlags(fs, r)
	underlayFlags(fs, r)
	hostFlags(fs, r)
	pathFlags(fs, r)
	viewFlags(fs, r)
	kubeFlags(fs, &r.kube)
	return fs
}

func storeFlags(fs *flag.FlagSet, r *raw) {
	d := &r.d
	fs.StringVar(&r.endpoints, "etcd-endpoints", "http://127.0.0.1:4001,http://127.0.0.1:2379", "etcd endpoints, separated by commas")
	fs.StringVar(&d.EtcdPrefix, "etcd-prefix", "/coreos.com/network", "prefix of all keys in etcd")
	fs.StringVar(&d.EtcdCAFile, "etcd-cafile", "", "file with the CA certificates to verify etcd with (PEM)")
	fs.StringVar(&d.EtcdCertFile, "etcd-certfile", "", "file with our certificate for etcd (PEM); needs -etcd-keyfile")
	fs.StringVar(&d.EtcdKeyFile, "etcd-keyfile", "", "file with the key of -etcd-certfile (PEM)")
	fs.StringVar(&d.EtcdUsername, "etcd-username", "", "user name for etcd")
	fs.StringVar(&d.EtcdPassword, "etcd-password", "", "password for etcd; better given as FLANNELD_ETCD_PASSWORD")
	fs.StringVar(&d.StaticConfig, "static-config", "", "file with the network and all nodes, in place of etcd")
	fs.IntVar(&r.marginMins, "subnet-lease-renew-margin", 60, "minutes before its end that the lease is renewed, 1 to 1439")
	fs.StringVar(&d.StateFile, "state-file", "", "file to keep the last known leases in, for a start without etcd; empty: none is kept")
}

func underlayFlags(fs *flag.FlagSet, r *raw) {
	fs.Var(&r.ifaces, "iface", "interface of the underlay, by name or address; the first of several that exists is taken")
	fs.Var(&r.res, "iface-regex", "regular expression for the underlay's interface, over addresses, then names; after -iface")
	fs.StringVar(&r.canReach, "iface-can-reach", "", "take the interface by which this address is reached")
	fs.StringVar(&r.publicIP, "public-ip", "", "IPv4 address that the other nodes reach us by; the interface's own if not given")
	fs.StringVar(&r.publicIPv6, "public-ipv6", "", "IPv6 address that the other nodes reach us by")
}

func hostFlags(fs *flag.FlagSet, r *raw) {
	d := &r.d
	fs.StringVar(&d.SubnetFile, "subnet-file", "/run/flannel/subnet.env", "file to write the node's subnet and MTU to")
	fs.StringVar(&d.TUNName, "tun-name", "flannel0", "name of the overlay's device")
	fs.BoolVar(&d.ForwardRules, "iptables-forward-rules", true, "let the overlay's packets be forwarded (by nftables)")
	fs.IntVar(&r.resyncSecs, "iptables-resync", 5, "seconds between checks that the firewall rules are as they must be")
	fs.BoolVar(&d.IPMasq, "ip-masq", false, "masquerade traffic that leaves the overlay")
	fs.BoolVar(&d.SequentialPorts, "ip-masq-fully-random-disable", false, "do not randomize the ports of masqueraded traffic")
	fs.BoolVar(&d.BlackholeRoute, "ip-blackhole-route", false, "add a blackhole route for the node's subnet")
	fs.BoolVar(&d.KeepFlannelDevice, "keep-flannel-device", false, "do not remove a flannel.<VNI> that flanneld left behind; refuse to start instead")
}

func pathFlags(fs *flag.FlagSet, r *raw) {
	d := &r.d
	fs.StringVar(&r.io, "io", "auto", "way on the wire: auto, zerocopy, native, generic or udp; auto takes the best that works")
	fs.BoolVar(&d.TUNOffload, "tun-offload", true, "let the kernel hand over and take whole runs of a flow at once")
	fs.IntVar(&d.Workers, "workers", 1, "threads that carry packets, each with a queue of its own; 0: one for each queue of the interface, at most one for each CPU")
	fs.DurationVar(&d.Spin, "spin", defaultSpin, "how long an idle worker looks for packets before it sleeps; 0: not at all")
	fs.IntVar(&d.Batch, "batch", defaultBatch, "packets that a worker carries at once, 1 to 1024")
	fs.IntVar(&d.Frames, "frames", defaultFrames, "frames of packet memory for each worker, a power of two, 256 to 65536")
	fs.BoolVar(&d.SourceCheck, "source-check", true, "take packets only from the member whose subnet holds their source")
}

func viewFlags(fs *flag.FlagSet, r *raw) {
	d := &r.d
	fs.StringVar(&r.healthzIP, "healthz-ip", "0.0.0.0", "address to answer health checks on")
	fs.IntVar(&d.HealthzPort, "healthz-port", 0, "port to answer health checks on; 0: none")
	fs.StringVar(&d.LogLevel, "log-level", "info", "debug, info, warn or error")
	fs.StringVar(&d.LogFormat, "log-format", "text", "text or json")
	fs.IntVar(&r.klogLevel, "v", 0, "as flanneld's: 1 and above mean -log-level debug")
	fs.BoolVar(&d.Version, "version", false, "print the version and exit")
}

// Parse reads the configuration. args is the command line without the program's
// name, env the environment in the form of os.Environ. Help goes to out, and is
// answered with flag.ErrHelp; everything else that is wrong with ErrUsage.
func Parse(args, env []string, out io.Writer) (Daemon, error) {
	r := &raw{}
	fs := newFlags(r, out)
	if err := fromEnv(fs, env); err != nil {
		return Daemon{}, err
	}
	r.ifaces, r.res = onlyFromArgs(args, "iface", r.ifaces), onlyFromArgs(args, "iface-regex", r.res)
	if err := parseArgs(fs, args); err != nil {
		return Daemon{}, err
	}
	return r.check(fs)
}

// parseArgs is fs.Parse with the flags' own errors as ErrUsage.
func parseArgs(fs *flag.FlagSet, args []string) error {
	out := fs.Output()
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	fs.SetOutput(out)
	switch {
	case err == flag.ErrHelp: //nolint:errorlint // the package returns it as it is
		fmt.Fprintln(out, "flanxd [flags]; every flag can be given as FLANNELD_<FLAG>, dashes as underscores")
		fs.PrintDefaults()
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUsage, err)
	case fs.NArg() > 0:
		return fmt.Errorf("%w: %q is no flag, and flanxd takes no other arguments", ErrUsage, fs.Arg(0))
	}
	return nil
}

// parseAddr reads an address flag; empty is the zero Addr.
func parseAddr(name, s string, v4 bool) (netip.Addr, error) {
	if s == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4() != v4 {
		family := map[bool]string{true: "IPv4", false: "IPv6"}[v4]
		return netip.Addr{}, fmt.Errorf("%w: -%s %q is not an %s address", ErrUsage, name, s, family)
	}
	return a, nil
}
