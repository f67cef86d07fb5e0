package host

import (
	"errors"
	"strings"
	"testing"

	"flanx/dataplane/packet"
	"flanx/perf/lab"
)

func TestProbe(t *testing.T) {
	l := newXSKLab(t, lab.Wire{MTU: 2000, Queues: 3})
	l.ip(l.us, "link add br0 type bridge")
	cases := map[string]struct {
		want     Device
		software bool
	}{
		"eth0": {Device{Driver: "veth", Kind: "veth", Queues: 3, MTU: 2000}, true},
		"br0":  {Device{Driver: "bridge", Kind: "bridge", Queues: 1, MTU: 1500}, true},
		"lo":   {Device{Queues: 1, MTU: 65536}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := l.probe(name)
			if d.Name != name || d.Index != l.index(name) || d.software() != c.software || d.features == nil {
				t.Errorf("%+v", d)
			}
			if d.Driver != c.want.Driver || d.Kind != c.want.Kind || d.Queues != c.want.Queues || d.MTU != c.want.MTU {
				t.Errorf("driver %q, kind %q, %d queues, MTU %d; want %+v", d.Driver, d.Kind, d.Queues, d.MTU, c.want)
			}
		})
	}
}

func TestProbeMissing(t *testing.T) {
	l := newXSKLab(t, lab.Wire{})
	err := l.us.Do(func() error {
		_, err := Probe(4711)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "4711") {
		t.Errorf("Probe of a missing interface: %v", err)
	}
}

func TestProbeSeesOffloads(t *testing.T) {
	l := newXSKLab(t, lab.Wire{Offloads: true})
	if on := l.probe("eth0").offloadsOn(); len(on) != len(senderOffloads) {
		t.Errorf("a default veth has %q on, want all of %q", on, senderOffloads)
	}
	for _, name := range senderOffloads {
		if _, known := l.probe("eth0").features[name]; !known {
			t.Errorf("the kernel knows no feature %s", name)
		}
	}
	if err := l.us.SetOffloads("eth0", false); err != nil {
		t.Fatal(err)
	}
	if on := l.probe("eth0").offloadsOn(); len(on) != 0 {
		t.Errorf("with offloads off, %q are on", on)
	}
}

func TestSuperPackets(t *testing.T) {
	cases := map[string]struct {
		d             Device
		before, after bool // may be expected
	}{
		"veth as made":         {Device{Kind: "veth", features: map[string]bool{"tx-udp-segmentation": true}}, true, true},
		"veth as wire":         {Device{Kind: "veth", features: map[string]bool{"tx-udp-segmentation": false, "rx-gro": true}}, false, false},
		"veth, tx csum left":   {Device{Kind: "veth", features: map[string]bool{"tx-checksum-ip-generic": true}}, true, true},
		"bridge":               {Device{Kind: "bridge", features: map[string]bool{"tx-tcp-segmentation": true}}, true, true},
		"loopback":             {Device{loopback: true, features: map[string]bool{"tx-generic-segmentation": true}}, true, true},
		"veth, nothing known":  {Device{Kind: "veth"}, true, true},
		"NIC":                  {Device{Driver: "igb", features: map[string]bool{"tx-tcp-segmentation": true}}, false, false},
		"NIC, nothing known":   {Device{}, false, false},
		"NIC that coalesces":   {Device{Driver: "virtio_net", features: map[string]bool{"rx-gro-hw": true}}, false, true},
		"NIC with LRO left on": {Device{features: map[string]bool{"rx-lro": true}}, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := c.d.superPackets(false), c.d.superPackets(true)
			if (before != nil) != c.before || (after != nil) != c.after {
				t.Errorf("before attaching: %v; after: %v; want %v, %v", before, after, c.before, c.after)
			}
			for _, err := range []error{before, after} {
				if err != nil && !errors.Is(err, ErrSuperPackets) {
					t.Errorf("%v is not ErrSuperPackets", err)
				}
			}
		})
	}
}

func TestFrameSize(t *testing.T) {
	for mtu, want := range map[int]int{
		68: packet.FrameSize2K, 1500: packet.FrameSize2K, 1766: packet.FrameSize2K,
		1767: packet.FrameSize4K, 3498: packet.FrameSize4K, 3814: packet.FrameSize4K,
		3815: 0, 9000: 0, 65536: 0,
	} {
		got, err := Device{Name: "eth0", MTU: mtu}.frameSize()
		if got != want || errors.Is(err, ErrMTU) != (want == 0) {
			t.Errorf("MTU %d: %d, %v; want %d", mtu, got, err, want)
		}
	}
}

func TestUnfinishedChecksums(t *testing.T) {
	on := map[string]bool{"tx-checksum-ip-generic": true}
	for name, c := range map[string]struct {
		d    Device
		want bool
	}{
		"veth as made": {Device{Kind: "veth", features: on}, true},
		"veth as wire": {Device{Kind: "veth"}, false},
		"NIC":          {Device{features: on}, false},
	} {
		if w := c.d.unfinishedChecksums(); (w != "") != c.want {
			t.Errorf("%s: warning %q, want one: %v", name, w, c.want)
		}
	}
}
