package wire

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"flanx/control/hostnet"
	"flanx/control/lease"
	"flanx/encap"
)

func network(t *testing.T, backend string) lease.NetworkConfig {
	t.Helper()
	cfg, err := lease.ParseConfig([]byte(`{"Network":"10.5.0.0/16"` + backend + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func noDevice(uint32) net.HardwareAddr { return nil }

func TestNewBackend(t *testing.T) {
	cases := map[string]struct {
		json string
		want backend // but for the MAC
		says string  // what the refusal must name
	}{
		"no backend is udp": {"", backend{kind: "udp", port: 8285, df: true}, ""},
		"udp with a port":   {`,"Backend":{"Type":"UDP","Port":9000}`, backend{kind: "udp", port: 9000, df: true}, ""},
		"vxlan":             {`,"Backend":{"Type":"vxlan"}`, backend{kind: "vxlan", port: 8472, vni: 1}, ""},
		"vxlan with all":    {`,"Backend":{"Type":"vxlan","VNI":7,"Port":4789,"MTU":1400,"GBP":true}`, backend{kind: "vxlan", port: 4789, vni: 7, mtu: 1400, gbp: true}, ""},
		"alloc":             {`,"Backend":{"Type":"alloc"}`, backend{kind: "alloc"}, ""},
		"another backend":   {`,"Backend":{"Type":"wireguard"}`, backend{}, "wireguard"},
		"bad port":          {`,"Backend":{"Type":"udp","Port":70000}`, backend{}, "Port"},
		"bad VNI":           {`,"Backend":{"Type":"vxlan","VNI":-1}`, backend{}, "VNI"},
		"direct routing":    {`,"Backend":{"Type":"vxlan","DirectRouting":true}`, backend{}, "DirectRouting"},
		"IPv6":              {`,"EnableIPv6":true,"IPv6Network":"fd05::/48"`, backend{}, "EnableIPv6"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := newBackend(network(t, c.json), lease.Attrs{}, noDevice)
			if c.says != "" {
				if !errors.Is(err, ErrBackend) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want ErrBackend that names %s", err, c.says)
				}
				return
			}
			if (c.want.kind == "vxlan") == b.vtep.IsZero() {
				t.Errorf("MAC %x of backend %s", b.vtep, b.kind)
			}
			b.vtep = encap.MAC{}
			if err != nil || b != c.want {
				t.Errorf("backend %+v, %v; want %+v", b, err, c.want)
			}
		})
	}
}

func TestMACIsKept(t *testing.T) {
	before := lease.Attrs{BackendData: lease.VXLANData{VNI: 1, VtepMAC: lease.MAC{2, 0, 0, 0, 0, 1}}.Encode()}
	device := net.HardwareAddr{2, 0, 0, 0, 0, 2}
	cases := map[string]struct {
		prev    lease.Attrs
		device  net.HardwareAddr
		want    encap.MAC // zero: any
		example string
	}{
		"from the lease":         {prev: before, device: device, want: encap.MAC{2, 0, 0, 0, 0, 1}},
		"from flannel's device":  {device: device, want: encap.MAC{2, 0, 0, 0, 0, 2}},
		"hostile lease":          {prev: lease.Attrs{BackendData: []byte(`{"VtepMAC":"ff:ff:ff:ff:ff:ff"}`)}, device: device, want: encap.MAC{2, 0, 0, 0, 0, 2}},
		"a group address":        {device: net.HardwareAddr{1, 0, 0, 0, 0, 2}},
		"a device without a MAC": {device: net.HardwareAddr{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := chooseMAC(c.prev, c.device)
			if got.IsZero() || got[0]&1 != 0 || (!c.want.IsZero() && got != c.want) {
				t.Errorf("MAC %x, want %x", got, c.want)
			}
		})
	}
}

func TestAttrsAreFlannels(t *testing.T) {
	iface := hostnet.Interface{Public4: netip.MustParseAddr("10.99.0.2")}
	cases := map[string]struct {
		b    backend
		want string
	}{
		"udp":   {backend{kind: "udp"}, `{"PublicIP":"10.99.0.2","PublicIPv6":null}`},
		"alloc": {backend{kind: "alloc"}, `{"PublicIP":"10.99.0.2","PublicIPv6":null}`},
		"vxlan": {
			backend{kind: "vxlan", vni: 1, vtep: encap.MAC{0xfa, 0xb7, 0xdd, 0x78, 0x7f, 0xf6}},
			`{"PublicIP":"10.99.0.2","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"fa:b7:dd:78:7f:f6"}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := c.b.attrs(iface).MarshalJSON()
			if err != nil || string(got) != c.want {
				t.Errorf("lease %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestVTEPOfAnotherNode(t *testing.T) {
	b := backend{kind: "vxlan", vni: 1}
	cases := map[string]struct {
		data string
		ok   bool
	}{
		"ours":        {`{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}`, true},
		"without VNI": {`{"VtepMAC":"02:00:00:00:00:01"}`, true},
		"other VNI":   {`{"VNI":2,"VtepMAC":"02:00:00:00:00:01"}`, false},
		"no MAC":      {`{"VNI":1}`, false},
		"not JSON":    {`{`, false},
		"nothing":     {``, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := b.vtepOf()([]byte(c.data)); (err == nil) != c.ok {
				t.Errorf("%s: %v", c.data, err)
			}
		})
	}
	if (backend{kind: "udp"}).vtepOf() != nil {
		t.Error("the udp backend reads MACs out of leases")
	}
}

func TestCodecsOfBothLayers(t *testing.T) {
	for _, b := range []backend{{kind: "udp", port: 8285}, {kind: "vxlan", port: 8472, vni: 1, vtep: encap.MAC{2, 1}}} {
		for _, layer := range []encap.Layer{encap.Ethernet, encap.Datagram} {
			if _, err := b.codec(layer, 1500); err != nil {
				t.Errorf("%s, layer %d: %v", b.kind, layer, err)
			}
		}
	}
}

func TestFrameSize(t *testing.T) {
	cases := []struct{ mtu, want int }{{1500, 2048}, {1778, 2048}, {1779, 4096}, {9000, 16384}, {65000, 65536}}
	for _, c := range cases {
		if got, err := frameSize(c.mtu); err != nil || got != c.want {
			t.Errorf("frameSize(%d) = %d, %v; want %d", c.mtu, got, err, c.want)
		}
	}
	if _, err := frameSize(65535); err == nil {
		t.Error("an MTU larger than any frame was taken")
	}
}
