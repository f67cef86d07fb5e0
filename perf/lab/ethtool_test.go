package lab_test

import (
	"strings"
	"testing"

	"flanx/perf/lab"
	"flanx/perf/lab/labtest"
)

func TestOffloadsReadBack(t *testing.T) {
	tests := []struct {
		name string
		wire lab.Wire
		want bool
	}{
		{"a plain wire has none", lab.Wire{}, false},
		{"a wire with offloads", lab.Wire{Offloads: true}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, hosts := labtest.Hosts(t, tt.wire, "a", "b", "c")
			for _, h := range hosts {
				expect(t, h, "eth0", tt.want)
			}
		})
	}
}

// expect checks all offloads but rx-gro, which veth has off unless XDP or
// somebody asks for it.
func expect(t *testing.T, h *lab.Host, dev string, want bool) {
	t.Helper()
	got, err := h.Features(dev)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lab.Offloads {
		on, known := got[name]
		if !known {
			t.Errorf("the kernel knows no feature %s", name)
		}
		if on != want && name != "rx-gro" || on && !want {
			t.Errorf("%s %s: %s is %v, want %v", h.Name(), dev, name, on, want)
		}
	}
}

func TestSetOffloads(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	for _, on := range []bool{true, false, true} {
		if err := hosts[0].SetOffloads("eth0", on); err != nil {
			t.Fatal(err)
		}
		expect(t, hosts[0], "eth0", on)
		expect(t, hosts[1], "eth0", false)
	}
	if err := hosts[0].SetFeatures("eth0", map[string]bool{"tx-udp-segmentation": false}); err != nil {
		t.Fatal(err)
	}
	got, err := hosts[0].Features("eth0")
	if err != nil {
		t.Fatal(err)
	}
	if got["tx-udp-segmentation"] || !got["tx-tcp-segmentation"] {
		t.Errorf("one feature off: udp %v, tcp %v", got["tx-udp-segmentation"], got["tx-tcp-segmentation"])
	}
}

func TestOffloadErrorsNameTheDevice(t *testing.T) {
	_, hosts := labtest.Hosts(t, lab.Wire{}, "a", "b")
	for _, dev := range []string{"eth9", "a-name-that-is-too-long"} {
		if err := hosts[0].SetOffloads(dev, false); err == nil || !strings.Contains(err.Error(), dev) {
			t.Errorf("set offloads of %s: %v", dev, err)
		}
		if _, err := hosts[0].Features(dev); err == nil || !strings.Contains(err.Error(), dev) {
			t.Errorf("features of %s: %v", dev, err)
		}
	}
	// What the kernel does not grant is an error: segmentation needs checksums.
	err := hosts[0].SetFeatures("eth0", map[string]bool{"tx-tcp-segmentation": true})
	if err == nil || !strings.Contains(err.Error(), "tx-tcp-segmentation") {
		t.Errorf("segmentation without checksums: %v", err)
	}
}
