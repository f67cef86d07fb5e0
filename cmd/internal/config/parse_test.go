package config

import (
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"flanx/dataplane/host"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// defaults is what flanxd without any flag is told.
func defaults() Daemon {
	return Daemon{
		EtcdEndpoints: []string{"http://127.0.0.1:4001", "http://127.0.0.1:2379"},
		EtcdPrefix:    "/coreos.com/network",
		RenewMargin:   time.Hour,
		StateFile:     "/run/flannel/subnet.env.state",
		SubnetFile:    "/run/flannel/subnet.env",
		TUNName:       "flannel0",
		ForwardRules:  true,
		RulesResync:   5 * time.Second,
		IO:            host.Auto,
		TUNOffload:    true,
		Workers:       1,
		Spin:          50 * time.Microsecond,
		Batch:         64,
		Frames:        4096,
		SourceCheck:   true,
		HealthzIP:     netip.IPv4Unspecified(),
		LogLevel:      "info",
		LogFormat:     "text",
	}
}

func parse(args, env string) (Daemon, error) {
	return Parse(strings.Fields(args), strings.Fields(env), io.Discard)
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, args, env string
		want            func(*Daemon)
	}{
		{name: "nothing"},
		{
			name: "flanneld's flags",
			args: "-etcd-endpoints https://a:2379,https://b:2379 -etcd-prefix /net -etcd-cafile ca -etcd-certfile crt -etcd-keyfile key " +
				"-etcd-username u -etcd-password p -iface eth0 -iface 10.0.0.1 -iface-regex ^eth -iface-regex ^10\\.{1,3} -iface-can-reach 192.0.2.1 " +
				"-public-ip 203.0.113.9 -public-ipv6 2001:db8::9 -subnet-file /tmp/s.env -subnet-lease-renew-margin 1439 -ip-masq " +
				"-ip-masq-fully-random-disable -ip-blackhole-route -iptables-forward-rules=false -iptables-resync 60 " +
				"-healthz-ip 127.0.0.1 -healthz-port 8081 -v 2",
			want: func(d *Daemon) {
				d.EtcdEndpoints, d.EtcdPrefix = []string{"https://a:2379", "https://b:2379"}, "/net"
				d.EtcdCAFile, d.EtcdCertFile, d.EtcdKeyFile = "ca", "crt", "key"
				d.EtcdUsername, d.EtcdPassword = "u", "p"
				d.Ifaces, d.Regexes = []string{"eth0", "10.0.0.1"}, []string{"^eth", `^10\.{1,3}`}
				d.CanReach = netip.MustParseAddr("192.0.2.1")
				d.PublicIP, d.PublicIPv6 = netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8::9")
				d.SubnetFile, d.StateFile = "/tmp/s.env", "/tmp/s.env.state"
				d.RenewMargin = 1439 * time.Minute
				d.IPMasq, d.SequentialPorts, d.BlackholeRoute, d.ForwardRules = true, true, true, false
				d.RulesResync = time.Minute
				d.HealthzIP, d.HealthzPort = netip.MustParseAddr("127.0.0.1"), 8081
				d.LogLevel = "debug"
			},
		},
		{
			name: "our flags",
			args: "-io zerocopy -workers 0 -spin 0 -batch 32 -frames 256 -static-config f.json -state-file /var/s -tun-name flannel7 " +
				"-keep-flannel-device -tun-offload=false -log-format json -log-level error",
			want: func(d *Daemon) {
				d.IO, d.Workers, d.Spin, d.Batch, d.Frames = host.ZeroCopy, 0, 0, 32, 256
				d.StaticConfig, d.StateFile, d.TUNName = "f.json", "/var/s", "flannel7"
				d.KeepFlannelDevice, d.TUNOffload = true, false
				d.LogFormat, d.LogLevel = "json", "error"
			},
		},
		{name: "two dashes", args: "--ip-masq --tun-name=x", want: func(d *Daemon) { d.IPMasq, d.TUNName = true, "x" }},
		{name: "no state", args: "-state-file none", want: func(d *Daemon) { d.StateFile = "" }},
		{
			name: "endpoints with spaces, gaps and without scheme", args: "-etcd-endpoints=,a:2379,,unix:///run/etcd.sock,",
			want: func(d *Daemon) { d.EtcdEndpoints = []string{"a:2379", "unix:///run/etcd.sock"} },
		},
		{
			name: "no endpoint needed with a file", args: "-etcd-endpoints= -static-config f",
			want: func(d *Daemon) { d.EtcdEndpoints, d.StaticConfig = nil, "f" },
		},
		{name: "prefix with slashes", args: "-etcd-prefix a/b//", want: func(d *Daemon) { d.EtcdPrefix = "/a/b" }},
		{name: "v 0", args: "-v 0"},
		{name: "v gives way to log-level", args: "-v 5 -log-level warn", want: func(d *Daemon) { d.LogLevel = "warn" }},
		{name: "v gives way to the default level, said aloud", args: "-v 5 -log-level info"},
		{
			name: "no source check is unwise", args: "-source-check=false",
			want: func(d *Daemon) { d.SourceCheck, d.Warnings = false, []string{"-source-check=false"} },
		},
		{
			name: "what klog knows has no effect", args: "-vmodule=a=1 -log_backtrace_at=f.go:1 -logtostderr=false -alsologtostderr -stderrthreshold=INFO",
			want: func(d *Daemon) {
				d.Warnings = []string{"-alsologtostderr", "-log_backtrace_at", "-logtostderr", "-stderrthreshold", "-vmodule"}
			},
		},
		{
			name: "defaults spelt out",
			args: "-kube-subnet-mgr=false -kube-api-url= -kubeconfig-file= -kube-annotation-prefix=flannel.alpha.coreos.com " +
				"-set-node-network-unavailable=true -net-config-path=/etc/kube-flannel/net-conf.json -logtostderr=true -vmodule=",
		},

		{
			name: "variables", env: "FLANNELD_ETCD_ENDPOINTS=http://e:2379 FLANNELD_IFACE=eth1 FLANNELD_IP_MASQ=true FLANNELD_V=1 " +
				"FLANNELD_IFACE_REGEX=^10\\.{1,3} FLANNELD_IO=udp FLANNELD_SPIN=1ms HOME=/root FLANNEL_MTU=7 garbage",
			want: func(d *Daemon) {
				d.EtcdEndpoints, d.Ifaces, d.Regexes = []string{"http://e:2379"}, []string{"eth1"}, []string{`^10\.{1,3}`}
				d.IPMasq, d.LogLevel, d.IO, d.Spin = true, "debug", host.UDP, time.Millisecond
			},
		},
		{
			name: "the command line wins", args: "-iface eth0 -ip-masq=false -tun-name a", env: "FLANNELD_IFACE=eth1 FLANNELD_IP_MASQ=true FLANNELD_TUN_NAME=b",
			want: func(d *Daemon) { d.Ifaces, d.TUNName = []string{"eth0"}, "a" },
		},
		{name: "the command line wins, though it says the default", args: "-io auto", env: "FLANNELD_IO=udp"},
		{
			name: "the command line wins over nonsense", args: "-workers 2", env: "FLANNELD_WORKERS=many",
			want: func(d *Daemon) { d.Workers = 2 },
		},
		{name: "empty variables", env: "FLANNELD_IO= FLANNELD_IFACE= FLANNELD_WORKERS="},
		{name: "version is not taken from the environment", env: "FLANNELD_VERSION=v0.27.0"},
		{
			name: "unknown variables", env: "FLANNELD_ZZZ=1 FLANNELD_ETCD_ENDPOINT=http://typo:2379 FLANNELD_HELP=1",
			want: func(d *Daemon) {
				d.Warnings = []string{"FLANNELD_ETCD_ENDPOINT", "FLANNELD_HELP", "FLANNELD_ZZZ"}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := defaults()
			if test.want != nil {
				test.want(&want)
			}
			got, err := parse(test.args, test.env)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Warnings) != len(want.Warnings) {
				t.Fatalf("warnings %q, want %d", got.Warnings, len(want.Warnings))
			}
			for i, w := range want.Warnings {
				if !strings.Contains(got.Warnings[i], w) {
					t.Errorf("warning %q does not name %s", got.Warnings[i], w)
				}
			}
			got.Warnings, want.Warnings = nil, nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%+v, want\n%+v", got, want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		args, env string
		says      string // parts of the message, divided by |
	}{
		{args: "-nonsense", says: "-nonsense|-help"},
		{args: "start", says: `"start"|no other arguments`},
		{args: "-ip-masq true", says: "-flag=true"},
		{args: "-workers", says: "-workers"},
		{args: "-workers many", says: "-workers|many"},
		{args: "-workers -1", says: "-workers -1|0 to 256"},
		{args: "-workers 257", says: "-workers 257"},
		{args: "-spin 2s", says: "-spin 2s|0 to 1s"},
		{args: "-spin -1ns", says: "-spin -1ns"},
		{args: "-spin 50", says: "-spin"},
		{args: "-batch 0", says: "-batch 0|1 to 1024"},
		{args: "-batch 1025", says: "-batch 1025"},
		{args: "-frames 128", says: "-frames 128|256 to 65536"},
		{args: "-frames 5000", says: "-frames 5000|power of two"},
		{args: "-frames 131072", says: "-frames 131072"},
		{args: "-frames 256 -batch 65", says: "-frames 256|65|raise -frames"},
		{args: "-io fast", says: `-io "fast"|auto, zerocopy, native, generic or udp`},
		{args: "-tun-name=", says: "-tun-name"},
		{args: "-tun-name sixteen-letters!", says: "-tun-name|15"},
		{args: "-tun-name a/b", says: `-tun-name "a/b"`},
		{args: "-tun-name ..", says: `-tun-name ".."`},
		{args: "-tun-name flannel%d", says: "-tun-name"},
		{args: "-subnet-file=", says: "-subnet-file"},
		{args: "-subnet-file /run/flannel/", says: "-subnet-file|names no file"},
		{args: "-iptables-resync 0", says: "-iptables-resync 0|1 to 86400"},
		{args: "-iptables-resync 86401", says: "-iptables-resync 86401"},
		{args: "-etcd-endpoints=", says: "-etcd-endpoints|-static-config"},
		{args: "-etcd-endpoints ftp://a", says: "-etcd-endpoints|ftp://a|https://"},
		{args: "-etcd-endpoints http://", says: "-etcd-endpoints|http://host:port"},
		{args: "-etcd-endpoints http://a:port", says: "-etcd-endpoints|a:port"},
		{args: "-etcd-prefix=/", says: "-etcd-prefix|/coreos.com/network"},
		{args: "-etcd-certfile c", says: "-etcd-certfile|-etcd-keyfile|both"},
		{args: "-etcd-keyfile k", says: "-etcd-certfile|-etcd-keyfile|both"},
		{args: "-etcd-username u", says: "-etcd-username|-etcd-password|both"},
		{args: "-iface=", says: "-iface"},
		{args: "-iface-regex [", says: `-iface-regex "["|Go's syntax`},
		{args: "-iface-can-reach etcd.example", says: `-iface-can-reach "etcd.example"`},
		{args: "-iface-can-reach fe80::1%eth0", says: "-iface-can-reach"},
		{args: "-public-ip 1.2.3", says: `-public-ip "1.2.3" is not an IPv4 address`},
		{args: "-public-ip 2001:db8::1", says: "-public-ip|IPv4"},
		{args: "-public-ip 0.0.0.0", says: "-public-ip|no address that another node can have"},
		{args: "-public-ip 224.0.0.1", says: "-public-ip"},
		{args: "-public-ip 127.0.0.1", says: "-public-ip"},
		{args: "-public-ip 255.255.255.255", says: "-public-ip"},
		{args: "-public-ipv6 1.2.3.4", says: "-public-ipv6|IPv6"},
		{args: "-public-ipv6 ::ffff:1.2.3.4", says: "-public-ipv6"},
		{args: "-public-ipv6 ::", says: "-public-ipv6"},
		{args: "-healthz-ip here", says: `-healthz-ip "here"|0.0.0.0`},
		{args: "-healthz-port 65536", says: "-healthz-port 65536"},
		{args: "-healthz-port -1", says: "-healthz-port -1"},
		{args: "-log-level loud", says: `-log-level "loud"|debug, info, warn or error`},
		{args: "-log-format xml", says: `-log-format "xml"|text or json`},
		{args: "-v -1", says: "-v -1"},

		{args: "-kube-subnet-mgr", says: "-kube-subnet-mgr|not supported|reads leases from etcd"},
		{args: "-kube-api-url http://k", says: "-kube-api-url|Kubernetes"},
		{args: "-kubeconfig-file k", says: "-kubeconfig-file|Kubernetes"},
		{args: "-kube-annotation-prefix p", says: "-kube-annotation-prefix|Kubernetes"},
		{args: "-set-node-network-unavailable=false", says: "-set-node-network-unavailable|Kubernetes"},
		{args: "-net-config-path /x", says: "-net-config-path|-static-config"},
		{env: "FLANNELD_KUBE_SUBNET_MGR=true", says: "-kube-subnet-mgr|not supported"},

		{env: "FLANNELD_WORKERS=many", says: "FLANNELD_WORKERS|many|unset"},
		{env: "FLANNELD_IO=fast", says: `-io "fast"`},
		{env: "FLANNELD_IP_MASQ=perhaps", says: "FLANNELD_IP_MASQ|perhaps"},
	}
	for _, test := range tests {
		t.Run(test.args+test.env, func(t *testing.T) {
			_, err := parse(test.args, test.env)
			if !errors.Is(err, ErrUsage) {
				t.Fatalf("error %v, want ErrUsage", err)
			}
			for s := range strings.SplitSeq(test.says, "|") {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
		})
	}
}

func TestMarginHasItsOwnError(t *testing.T) {
	for _, m := range []string{"0", "1440", "-5"} {
		_, err := parse("-subnet-lease-renew-margin="+m, "")
		if !errors.Is(err, ErrMargin) || errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), m) {
			t.Errorf("margin %s: error %v", m, err)
		}
	}
}

func TestVersionComesFirst(t *testing.T) {
	d, err := parse("-version -io nonsense -kube-subnet-mgr", "FLANNELD_WORKERS=many")
	if err != nil || !d.Version {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestHelp(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		var out strings.Builder
		if _, err := Parse([]string{arg}, nil, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: error %v", arg, err)
		}
		golden(t, "help.golden", out.String())
	}
}

// golden compares with a file in testdata, or with -update rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("output differs from %s (go test -update rewrites it):\n%s", path, got)
	}
}

// Every flag is in one group, has a meaning, and answers to a variable.
func TestEveryFlagIsDeclaredOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range groups {
		for _, f := range g.flags() {
			if seen[f.Name] {
				t.Errorf("-%s is in two groups", f.Name)
			}
			seen[f.Name] = true
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("-%s: help %q", f.Name, f.Usage)
			}
		}
	}
	if got := EnvName("iptables-forward-rules"); got != "FLANNELD_IPTABLES_FORWARD_RULES" {
		t.Errorf("variable %s", got)
	}
}

// flanneldFlags are all flags of flanneld 0.28 with their defaults.
var flanneldFlags = map[string]string{
	"etcd-endpoints": "http://127.0.0.1:4001,http://127.0.0.1:2379", "etcd-prefix": "/coreos.com/network",
	"etcd-keyfile": "", "etcd-certfile": "", "etcd-cafile": "", "etcd-username": "", "etcd-password": "",
	"iface": "", "iface-regex": "", "iface-can-reach": "", "public-ip": "", "public-ipv6": "",
	"subnet-file": "/run/flannel/subnet.env", "subnet-lease-renew-margin": "60",
	"ip-masq": "false", "ip-masq-fully-random-disable": "false", "ip-blackhole-route": "false",
	"iptables-forward-rules": "true", "iptables-resync": "5", "healthz-ip": "0.0.0.0", "healthz-port": "0",
	"net-config-path": "/etc/kube-flannel/net-conf.json", "kube-subnet-mgr": "false", "kube-api-url": "", "kubeconfig-file": "",
	"kube-annotation-prefix": "flannel.alpha.coreos.com", "set-node-network-unavailable": "true",
	"v": "0", "vmodule": "", "log_backtrace_at": "", "version": "false",
}

func TestFlanneldsFlagsAndDefaults(t *testing.T) {
	fs := newFlags(&raw{})
	for name, want := range flanneldFlags {
		f := fs.Lookup(name)
		if f == nil {
			t.Errorf("flanneld's -%s is missing", name)
			continue
		}
		if f.DefValue != want {
			t.Errorf("-%s: default %q, want %q", name, f.DefValue, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-iface eth0 -etcd-endpoints a:1,b:2", "FLANNELD_IO=udp")
	f.Add("-spin=1ms -public-ip 1.2.3.4", "FLANNELD_IFACE_REGEX=^a")
	f.Add("-tun-name \x00 -iface-regex (", "FLANNELD_=x FLANNELD_FRAMES=0x100")
	f.Fuzz(func(t *testing.T, args, env string) {
		d, err := parse(args, env)
		if err != nil || d.Version {
			return
		}
		if !isIfName(d.TUNName) || d.Frames < 4*d.Batch || d.SubnetFile == "" || d.RulesResync <= 0 ||
			len(d.EtcdEndpoints) == 0 && d.StaticConfig == "" {
			t.Errorf("accepted %+v", d)
		}
	})
}
