package lease

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// The bytes are those that a flanneld of August 2026 was seen to write.
var goldenAttrs = []struct {
	name  string
	value string
	attrs Attrs
}{
	{
		"udp and alloc",
		`{"PublicIP":"10.99.0.1","PublicIPv6":null}`,
		Attrs{PublicIP: netip.MustParseAddr("10.99.0.1")},
	},
	{
		"vxlan",
		`{"PublicIP":"10.99.0.2","PublicIPv6":null,"BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"fa:b7:dd:78:7f:f6"}}`,
		Attrs{
			PublicIP: netip.MustParseAddr("10.99.0.2"), BackendType: "vxlan",
			BackendData: VXLANData{1, MAC{0xfa, 0xb7, 0xdd, 0x78, 0x7f, 0xf6}}.Encode(),
		},
	},
	{
		"vxlan dual stack",
		`{"PublicIP":"10.99.0.2","PublicIPv6":"fd99::2","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"fa:b7:dd:78:7f:f6"},"BackendV6Data":{"VNI":1,"VtepMAC":"02:00:00:00:00:0a"}}`,
		Attrs{
			PublicIP: netip.MustParseAddr("10.99.0.2"), PublicIPv6: netip.MustParseAddr("fd99::2"), BackendType: "vxlan",
			BackendData:   VXLANData{1, MAC{0xfa, 0xb7, 0xdd, 0x78, 0x7f, 0xf6}}.Encode(),
			BackendV6Data: VXLANData{1, MAC{2, 0, 0, 0, 0, 10}}.Encode(),
		},
	},
	{
		"host-gw",
		`{"PublicIP":"10.99.0.3","PublicIPv6":null,"BackendType":"host-gw"}`,
		Attrs{PublicIP: netip.MustParseAddr("10.99.0.3"), BackendType: "host-gw"},
	},
	{
		"wireguard",
		`{"PublicIP":"10.99.0.4","PublicIPv6":null,"BackendType":"wireguard","BackendData":{"PublicKey":"a+b/c=","Port":51820}}`,
		Attrs{
			PublicIP: netip.MustParseAddr("10.99.0.4"), BackendType: "wireguard",
			BackendData: json.RawMessage(`{"PublicKey":"a+b/c=","Port":51820}`),
		},
	},
	{
		"IPv6 only",
		`{"PublicIP":"0.0.0.0","PublicIPv6":"fd99::2"}`,
		Attrs{PublicIPv6: netip.MustParseAddr("fd99::2")},
	},
}

func TestAttrsGolden(t *testing.T) {
	for _, c := range goldenAttrs {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(c.attrs)
			if err != nil || string(got) != c.value {
				t.Errorf("wrote %s, %v\nwant  %s", got, err, c.value)
			}
			back, err := ParseAttrs([]byte(c.value))
			if err != nil || !back.Equal(c.attrs) {
				t.Errorf("read %+v, %v, want %+v", back, err, c.attrs)
			}
		})
	}
}

func TestParseAttrsIsLenientAboutForm(t *testing.T) {
	a, err := ParseAttrs([]byte(` { "publicip" : "10.99.0.2", "Extra": [1], "backendType":"vxlan",
		"BackendData": { "VNI" : 1 }, "BackendV6Data": null } `))
	if err != nil {
		t.Fatal(err)
	}
	want := Attrs{PublicIP: netip.MustParseAddr("10.99.0.2"), BackendType: "vxlan", BackendData: json.RawMessage(`{"VNI":1}`)}
	if !a.Equal(want) {
		t.Errorf("got %+v, want %+v", a, want)
	}
}

func TestParseAttrsRefuses(t *testing.T) {
	for _, c := range []struct{ name, value, says string }{
		{"nothing", ``, "JSON"},
		{"open brace", `{`, "JSON"},
		{"null", `null`, "PublicIP"},
		{"string", `""`, "JSON"},
		{"array", `[]`, "JSON"},
		{"number for address", `{"PublicIP":12}`, "PublicIP"},
		{"no address", `{}`, "PublicIP"},
		{"not an address", `{"PublicIP":"node-7"}`, "PublicIP"},
		{"unspecified", `{"PublicIP":"0.0.0.0"}`, "PublicIP"},
		{"multicast", `{"PublicIP":"224.0.0.1"}`, "PublicIP"},
		{"loopback", `{"PublicIP":"127.0.0.1"}`, "PublicIP"},
		{"broadcast", `{"PublicIP":"255.255.255.255"}`, "PublicIP"},
		{"class E", `{"PublicIP":"240.0.0.1"}`, "PublicIP"},
		{"this network", `{"PublicIP":"0.1.2.3"}`, "PublicIP"},
		{"IPv6 in PublicIP", `{"PublicIP":"fd99::1"}`, "PublicIP"},
		{"mapped in PublicIP", `{"PublicIP":"::ffff:10.0.0.1"}`, "PublicIP"},
		{"IPv4 in PublicIPv6", `{"PublicIP":"10.99.0.1","PublicIPv6":"10.99.0.1"}`, "PublicIPv6"},
		{"multicast v6", `{"PublicIP":"10.99.0.1","PublicIPv6":"ff02::1"}`, "PublicIPv6"},
		{"zone", `{"PublicIP":"10.99.0.1","PublicIPv6":"fe80::1%eth0"}`, "PublicIPv6"},
		{"long backend", `{"PublicIP":"10.99.0.1","BackendType":"` + strings.Repeat("x", 33) + `"}`, "BackendType"},
		{"too long", `{"PublicIP":"10.99.0.1","x":"` + strings.Repeat("x", MaxValue) + `"}`, "more than"},
		{"trailing text", `{"PublicIP":"10.99.0.1"}x`, "JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ParseAttrs([]byte(c.value))
			if err == nil {
				t.Fatalf("took %+v", a)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("message %q does not say %q", err, c.says)
			}
		})
	}
}

func TestMarshalRefusesAttrsWithoutAddress(t *testing.T) {
	if b, err := json.Marshal(Attrs{}); err == nil {
		t.Errorf("wrote %s", b)
	}
}

func TestLeaseEqualIgnoresBookkeeping(t *testing.T) {
	a := Lease{Subnets: subnets(t, "10.5.1.0/24", ""), Attrs: goldenAttrs[1].attrs}
	b := a
	b.Expires, b.ID, b.Revision = time.Now(), 7, 9
	if !a.Equal(b) {
		t.Error("bookkeeping makes a difference")
	}
	for name, change := range map[string]func(*Lease){
		"subnets":  func(l *Lease) { l.Subnets = subnets(t, "10.5.2.0/24", "") },
		"reserved": func(l *Lease) { l.Reserved = true },
		"address":  func(l *Lease) { l.Attrs.PublicIP = netip.MustParseAddr("10.99.0.9") },
		"MAC":      func(l *Lease) { l.Attrs.BackendData = VXLANData{1, MAC{2}}.Encode() },
	} {
		b := a
		change(&b)
		if a.Equal(b) {
			t.Errorf("a change of %s makes no difference", name)
		}
	}
}

func FuzzAttrs(f *testing.F) {
	for _, c := range goldenAttrs {
		f.Add([]byte(c.value))
	}
	f.Add([]byte(`{"PublicIP":"10.0.0.1","BackendData":"<&>"}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		a, err := ParseAttrs(value)
		if err != nil {
			return
		}
		out, err := json.Marshal(a)
		if err != nil {
			t.Fatalf("took %q, but cannot write %+v: %v", value, a, err)
		}
		if len(out) > MaxValue {
			return // escapes may make it longer than what was read
		}
		b, err := ParseAttrs(out)
		if err != nil || b.PublicIP != a.PublicIP || b.PublicIPv6 != a.PublicIPv6 {
			t.Errorf("%s came back as %+v, %v", out, b, err)
		}
		_, _ = ParseVXLANData(a.BackendData)
	})
}
