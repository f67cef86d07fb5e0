package systemtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/nftables"

	"flanx/perf/lab"
)

// ruleset lists a host's firewall tables with their chains and numbers of rules.
func ruleset(t *testing.T, h *lab.Host) string {
	t.Helper()
	var b strings.Builder
	err := h.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		chains, err := c.ListChains()
		if err != nil {
			return err
		}
		for _, ch := range chains {
			rules, err := c.GetRules(ch.Table, ch)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "nft %d %s %s: %d rules\n", ch.Table.Family, ch.Table.Name, ch.Name, len(rules))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list rules of %s: %v", h.Name(), err)
	}
	return b.String()
}

// snmp reads one of the host's protocol counters: "Udp", "InCsumErrors".
func snmp(t *testing.T, h *lab.Host, protocol, name string) int {
	t.Helper()
	var content []byte
	err := h.Do(func() (err error) {
		content, err = os.ReadFile("/proc/thread-self/net/snmp")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range bytes.Lines(content) {
		f := strings.Fields(string(line))
		if f[0] != protocol+":" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, n := range names {
			if n == name {
				v, err := strconv.Atoi(f[i])
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
	}
	t.Fatalf("no counter %s %s", protocol, name)
	return 0
}

// checksumErrors sums the host's counters of wrong checksums.
func checksumErrors(t *testing.T, h *lab.Host) int {
	t.Helper()
	return snmp(t, h, "Udp", "InCsumErrors") + snmp(t, h, "Tcp", "InCsumErrors") + snmp(t, h, "Icmp", "InCsumErrors")
}

// device finds a network device of a host.
func device(t *testing.T, h *lab.Host, dev string) *net.Interface {
	t.Helper()
	var ifi *net.Interface
	err := h.Do(func() (err error) {
		ifi, err = net.InterfaceByName(dev)
		return err
	})
	if err != nil {
		t.Fatalf("find %s on %s: %v", dev, h.Name(), err)
	}
	return ifi
}

// hasDevice says whether a host has a device.
func hasDevice(h *lab.Host, dev string) bool {
	return h.Do(func() error {
		_, err := net.InterfaceByName(dev)
		return err
	}) == nil
}

// setSysctl writes a value in the calling thread's namespace.
func setSysctl(key, value string) error { return os.WriteFile("/proc/sys/"+key, []byte(value), 0) }
