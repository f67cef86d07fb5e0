package hostnet

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// sysctlRoot shows the calling thread's network namespace (proc(5)).
const sysctlRoot = "/proc/sys"

// Advice is something about the host that hampers the overlay and that is not
// ours to change: what it is, and what cures it.
type Advice struct {
	What, Cure string
}

// Host is what CheckHost needs to know.
type Host struct {
	V4, V6        bool
	Underlay      string // interface name; an empty one is not looked at
	DirectRouting bool   // peers may send pod packets without encapsulation
}

// CheckHost reads the host's network settings and says which of them are in the
// overlay's way. It changes nothing, and none of it is a reason to stop: a node
// may serve only its own processes.
func CheckHost(h Host) []Advice { return checkHost(sysctlRoot, h) }

func checkHost(root string, h Host) []Advice {
	var all []Advice
	if h.V4 && !sysctlIs(root, "net/ipv4/ip_forward", "1") {
		all = append(all, Advice{
			"the kernel does not forward IPv4 packets: pods are cut off",
			"sysctl -w net.ipv4.ip_forward=1",
		})
	}
	if h.V6 && !sysctlIs(root, "net/ipv6/conf/all/forwarding", "1") {
		all = append(all, Advice{
			"the kernel does not forward IPv6 packets: pods are cut off",
			"sysctl -w net.ipv6.conf.all.forwarding=1",
		})
	}
	if h.V4 && h.DirectRouting && strictRPFilter(root, h.Underlay) {
		all = append(all, Advice{
			"strict rp_filter on " + h.Underlay + " drops the pod packets that peers send without encapsulation (DirectRouting)",
			"sysctl -w net.ipv4.conf." + strings.ReplaceAll(h.Underlay, ".", "/") + ".rp_filter=2",
		})
	}
	if h.V4 && !sysctlIs(root, "net/bridge/bridge-nf-call-iptables", "1") {
		all = append(all, Advice{
			"packets between pods on one bridge do not pass the firewall (only services, kube-proxy, need that)",
			"modprobe br_netfilter && sysctl -w net.bridge.bridge-nf-call-iptables=1",
		})
	}
	return all
}

// strictRPFilter: the kernel takes the larger of both values, 1 is strict, 2
// loose (Documentation/networking/ip-sysctl.rst).
func strictRPFilter(root, iface string) bool {
	if iface == "" {
		return false
	}
	conf := filepath.Join(root, "net/ipv4/conf")
	all, _ := readSysctl(filepath.Join(conf, "all/rp_filter"))
	own, _ := readSysctl(filepath.Join(conf, iface, "rp_filter"))
	return max(all, own) == "1"
}

func sysctlIs(root, name, want string) bool {
	v, err := readSysctl(filepath.Join(root, name))
	return err == nil && v == want
}

func readSysctl(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read setting: %w", err)
	}
	return trimLine(b), nil
}

func trimLine(b []byte) string { return string(bytes.TrimSpace(b)) }

// CheckOverlap refuses an overlay that holds the node's own underlay address:
// the encapsulated packets would be routed into the overlay again.
func CheckOverlap(i Interface, networks ...netip.Prefix) error {
	for _, n := range networks {
		for _, a := range []netip.Addr{i.Addr4, i.Addr6} {
			if n.IsValid() && a.IsValid() && n.Contains(a) {
				return fmt.Errorf("check network %s: %w: it holds the underlay address %s of %s: choose another Network",
					n, ErrConflict, a, i.Name)
			}
		}
	}
	return nil
}
