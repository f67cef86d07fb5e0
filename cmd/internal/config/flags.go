package config

import (
	"flag"
	"io"
	"strings"

	"flanx/dataplane"
	"flanx/dataplane/host"
)

// Defaults that are ours; those of flanneld stand beside its flags.
const (
	defaultSpin   = dataplane.DefaultSpin
	defaultBatch  = dataplane.DefaultBatch
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
	ifaces, res list
	dropped     dropped
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

// group is a part of the flags, as help and manual show them.
type group struct {
	title   string
	declare func(fs *flag.FlagSet, r *raw)
}

var groups = []group{
	{"Store", storeFlags},
	{"Underlay", underlayFlags},
	{"Host", hostFlags},
	{"Data path", pathFlags},
	{"Health and logs", viewFlags},
	{"Known from flanneld, refused unless left at the default", refusedFlags},
	{"Known from flanneld, without effect", ignoredFlags},
}

// newFlags declares every flag, with its default and its line of help.
func newFlags(r *raw) *flag.FlagSet {
	fs := emptySet()
	for _, g := range groups {
		g.declare(fs, r)
	}
	return fs
}

// emptySet reports its errors to the caller only, who words them.
func emptySet() *flag.FlagSet {
	fs := flag.NewFlagSet("flanxd", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

func storeFlags(fs *flag.FlagSet, r *raw) {
	d := &r.d
	fs.StringVar(&r.endpoints, "etcd-endpoints", "http://127.0.0.1:4001,http://127.0.0.1:2379", "`URLs` of etcd, separated by commas")
	fs.StringVar(&d.EtcdPrefix, "etcd-prefix", "/coreos.com/network", "`prefix` of all keys in etcd")
	fs.StringVar(&d.EtcdCAFile, "etcd-cafile", "", "`file` with the CA certificates to verify etcd with (PEM)")
	fs.StringVar(&d.EtcdCertFile, "etcd-certfile", "", "`file` with our certificate for etcd (PEM); needs -etcd-keyfile")
	fs.StringVar(&d.EtcdKeyFile, "etcd-keyfile", "", "`file` with the key of -etcd-certfile (PEM)")
	fs.StringVar(&d.EtcdUsername, "etcd-username", "", "user `name` for etcd")
	fs.StringVar(&d.EtcdPassword, "etcd-password", "", "`password` for etcd; give it as a variable, where other users do not see it")
	fs.StringVar(&d.StaticConfig, "static-config", "", "`file` with the network and all nodes, in place of etcd")
	fs.IntVar(&r.marginMins, "subnet-lease-renew-margin", 60, "`minutes` before its end that the lease is renewed, 1 to 1439")
	fs.StringVar(&d.StateFile, "state-file", "", "`file` with the last known leases, for a start without etcd; none: not kept; empty: beside -subnet-file, with .state appended")
}

func underlayFlags(fs *flag.FlagSet, r *raw) {
	fs.Var(&r.ifaces, "iface", "underlay interface, by `name or address`; repeatable, the first that exists is taken")
	fs.Var(&r.res, "iface-regex", "underlay interface, by `expression` over all addresses, then over names; repeatable; after -iface")
	fs.StringVar(&r.canReach, "iface-can-reach", "", "underlay interface by which this `address` is reached; after -iface-regex")
	fs.StringVar(&r.publicIP, "public-ip", "", "IPv4 `address` that the other nodes reach us by; default: the interface's own")
	fs.StringVar(&r.publicIPv6, "public-ipv6", "", "IPv6 `address` that the other nodes reach us by; default: the interface's own")
}

func hostFlags(fs *flag.FlagSet, r *raw) {
	d := &r.d
	fs.StringVar(&d.SubnetFile, "subnet-file", "/run/flannel/subnet.env", "`file` to write the node's subnet and MTU to")
	fs.StringVar(&d.TUNName, "tun-name", DefaultTUNName, "`name` of the overlay's device")
	fs.BoolVar(&d.ForwardRules, "iptables-forward-rules", true, "let the overlay's packets be forwarded (by nftables)")
	fs.IntVar(&r.resyncSecs, "iptables-resync", 5, "`seconds` between checks of the firewall rules, the overlay's device and the underlay")
	fs.BoolVar(&d.IPMasq, "ip-masq", false, "masquerade packets that leave the overlay")
	fs.BoolVar(&d.SequentialPorts, "ip-masq-fully-random-disable", false, "do not draw the ports of masqueraded packets at random")
	fs.BoolVar(&d.BlackholeRoute, "ip-blackhole-route", false, "add a blackhole route for the node's subnet")
	fs.BoolVar(&d.KeepFlannelDevice, "keep-flannel-device", false, "refuse to start rather than remove a flannel.<VNI> that flanneld left behind")
}

func pathFlags(fs *flag.FlagSet, r *raw) {
	d := &r.d
	fs.StringVar(&r.io, "io", "auto", "`way` on the wire: auto, zerocopy, native, generic or udp; auto takes the best that works")
	fs.BoolVar(&d.TUNOffload, "tun-offload", true, "let the kernel hand over and take whole runs of a flow at once, if it can")
	fs.IntVar(&d.Workers, "workers", 1, "`number` of threads that carry packets, each with a queue of its own; 0: one for each queue, at most one for each CPU")
	fs.DurationVar(&d.Spin, "spin", defaultSpin, "`time` that an idle worker looks for packets before it sleeps; 0: none")
	fs.IntVar(&d.Batch, "batch", defaultBatch, "`number` of packets that a worker carries at once, 1 to 1024")
	fs.IntVar(&d.Frames, "frames", defaultFrames, "`number` of frames of packet memory for each worker, a power of two, 256 to 65536")
	fs.BoolVar(&d.SourceCheck, "source-check", true, "take packets only from the member whose subnet holds their source")
}

func viewFlags(fs *flag.FlagSet, r *raw) {
	d := &r.d
	fs.StringVar(&r.healthzIP, "healthz-ip", "0.0.0.0", "`address` to answer health checks on")
	fs.IntVar(&d.HealthzPort, "healthz-port", 0, "TCP `port` to answer health checks on; 0: none")
	fs.StringVar(&d.LogLevel, "log-level", defaultLevel, "lowest `level` to log: debug, info, warn or error")
	fs.StringVar(&d.LogFormat, "log-format", "text", "`form` of the log: text or json")
	fs.IntVar(&r.klogLevel, "v", 0, "flanneld's log `level`: 1 and above mean -log-level debug, unless that is given")
	fs.BoolVar(&d.Version, "version", false, "print the version and exit")
}
