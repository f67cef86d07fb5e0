package archtest

// module is the prefix of our own import paths.
const module = "flanx/"

// rooms says which of our packages a package may import outside its tests. Keys
// and values are paths below the module; "x/..." means x and all below it. The
// first key that fits counts, so the closer one comes first. A package that no
// key fits is an error: the house has a room for everything.
var rooms = []struct {
	room string
	may  []string
}{
	// How packets are held, wrapped and looked up.
	{"dataplane/packet", nil},
	{"encap", []string{"dataplane/packet"}},
	{"encap/header", []string{"dataplane/packet"}},
	{"encap/encaptest", []string{"dataplane/packet", "encap", "encap/header"}},
	{"encap/...", []string{"dataplane/packet", "encap", "encap/header"}}, // codecs

	// The two loops, the table, the counters.
	{"dataplane", []string{"dataplane/packet", "dataplane/fib", "dataplane/stats", "encap", "encap/header"}},
	{"dataplane/fib", []string{"dataplane/packet", "encap", "encap/header", "control/lease"}},
	{"dataplane/stats", []string{"dataplane/packet"}},

	// What needs privilege: it opens what the ports then only use.
	{"dataplane/host", []string{
		"dataplane/packet", "dataplane/fib", "dataplane/stats", "dataplane/tun", "dataplane/xsk",
		"dataplane/xdpprog", "dataplane/udpsock", "encap", "encap/header",
	}},

	// Ports: they carry packets, and know neither codecs nor routes. Headers are
	// plain views of bytes, which offloads cannot do without.
	{"dataplane/porttest", []string{"dataplane", "dataplane/packet", "encap/header"}},
	{"dataplane/...", []string{"dataplane/packet", "encap/header"}},

	// Control knows the cluster, and nothing of packets.
	{"control", []string{"control/lease"}},
	{"control/lease", nil},
	{"control/...", []string{"control", "control/lease"}},

	// Measuring. The lab and the generators know nothing of overlays.
	{"perf/lab", nil},
	{"perf/lab/labtest", []string{"perf/lab"}},
	{"perf/gen", nil},
	{"perf/...", []string{"dataplane/...", "encap/...", "perf/..."}},

	{"cmd/...", []string{"..."}},
}

// libraries says where a library may be imported, outside tests. Keys fit as in
// rooms, without the module.
var libraries = []struct {
	library string
	why     string
	may     []string
}{
	{"github.com/cilium/ebpf/...", "eBPF", []string{"dataplane/xdpprog", "dataplane/host"}},
	{"github.com/vishvananda/...", "netlink", []string{"dataplane/host", "control/hostnet", "perf/lab"}},
	{"github.com/mdlayher/...", "netlink", []string{"control/hostnet"}},
	{"github.com/google/nftables/...", "the firewall", []string{"control/hostnet"}},
	{"github.com/coreos/go-iptables/...", "the firewall", []string{"control/hostnet"}},
	{"go.etcd.io/etcd/server/...", "an etcd server", []string{"control/embedetcd"}},
	{"go.etcd.io/...", "etcd", []string{"control/etcd", "control/embedetcd"}},
	{"github.com/prometheus/...", "metrics", []string{"cmd/internal/metrics"}},
	{"github.com/coreos/go-systemd/...", "systemd", []string{"cmd/..."}},
	{"github.com/gopacket/...", "packet decoding", []string{"dataplane/pcapport", "encap/encaptest", "perf/...", "cmd/flanx/..."}},
	{"github.com/songgao/water/...", "the naive TUN to compare with", []string{"perf/..."}},
	{"github.com/spf13/...", "the command line of flanx", []string{"cmd/flanx/..."}},
	{"github.com/schollz/...", "progress", []string{"cmd/flanx/..."}},
	{"gonum.org/...", "plots", []string{"perf/bench/...", "cmd/flanx/..."}},
	{"github.com/gaissmai/bart/...", "longest-prefix match", []string{"dataplane/fib"}},
	{"testing/...", "code for tests", []string{"encap/encaptest", "dataplane/porttest", "control/controltest", "perf/lab/labtest"}},
}

// notInDaemon are import paths that must not be linked into flanxd, directly or
// through others.
var notInDaemon = []string{
	"testing/...",
	"flanx/control/embedetcd",
	"flanx/perf/...",
	"go.etcd.io/etcd/server/...",
	"go.etcd.io/bbolt/...",
	"github.com/spf13/...",
	"github.com/songgao/...",
	"gonum.org/...",
}

// forbiddenNames are package names that say nothing about what is inside.
var forbiddenNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "shared", "base", "lib"}

// maxMain is the length in lines of a main.go: it wires, and does nothing else.
const maxMain = 60
