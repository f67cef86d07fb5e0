package lease

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestParseConfigDefaults(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"wide network", `{"Network":"10.5.0.0/16"}`, "v4 10.5.0.0/16 /24 10.5.1.0-10.5.255.0 udp"},
		{"/22", `{"Network":"10.5.0.0/22"}`, "v4 10.5.0.0/22 /24 10.5.1.0-10.5.3.0 udp"},
		{"/23", `{"Network":"10.5.0.0/23"}`, "v4 10.5.0.0/23 /25 10.5.0.128-10.5.1.128 udp"},
		{"/28", `{"Network":"10.5.0.0/28"}`, "v4 10.5.0.0/28 /30 10.5.0.4-10.5.0.12 udp"},
		{"the end of the addresses", `{"Network":"255.255.255.240/28"}`, "v4 255.255.255.240/28 /30 255.255.255.244-255.255.255.252 udp"},
		{"host bits are cut off", `{"Network":"10.5.1.1/16"}`, "v4 10.5.0.0/16 /24 10.5.1.0-10.5.255.0 udp"},
		{"explicit", `{"Network":"10.5.0.0/16","SubnetLen":28,"SubnetMin":"10.5.2.16","SubnetMax":"10.5.9.240"}`, "v4 10.5.0.0/16 /28 10.5.2.16-10.5.9.240 udp"},
		{"first subnet on request", `{"Network":"10.5.0.0/16","SubnetMin":"10.5.0.0"}`, "v4 10.5.0.0/16 /24 10.5.0.0-10.5.255.0 udp"},
		{"backend case", `{"network":"10.5.0.0/16","BACKEND":{"type":"VXLAN"}}`, "v4 10.5.0.0/16 /24 10.5.1.0-10.5.255.0 vxlan"},
		{"unknown keys", `{"Network":"10.5.0.0/16","Foo":{"Bar":[1]}}`, "v4 10.5.0.0/16 /24 10.5.1.0-10.5.255.0 udp"},
		{"dual stack", `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd05::/48"}`, "v4 10.5.0.0/16 /24 10.5.1.0-10.5.255.0 v6 fd05::/48 /64 fd05:0:0:1::-fd05:0:0:ffff:: udp"},
		{"small v6", `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd05::/63"}`, "v6 fd05::/63 /65 fd05::8000:0:0:0-fd05:0:0:1:8000:: udp"},
		{"smallest v6", `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd05::/124"}`, "v6 fd05::/124 /126 fd05::4-fd05::c udp"},
		{"v6 ignored when off", `{"Network":"10.5.0.0/16","IPv6Network":"nonsense"}`, "v4 10.5.0.0/16 /24 10.5.1.0-10.5.255.0 udp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := ParseConfig([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(cfg); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			again, err := json.Marshal(cfg)
			if err != nil {
				t.Fatal(err)
			}
			back, err := ParseConfig(again)
			if err != nil || !back.Equal(cfg) {
				t.Errorf("written as %s it comes back as %s, %v", again, describe(back), err)
			}
		})
	}
}

func describe(c NetworkConfig) string {
	var parts []string
	if c.EnableIPv4 {
		parts = append(parts, fmt.Sprintf("v4 %s /%d %s-%s", c.Network, c.SubnetLen, c.SubnetMin, c.SubnetMax))
	}
	if c.EnableIPv6 {
		parts = append(parts, fmt.Sprintf("v6 %s /%d %s-%s", c.IPv6Network, c.IPv6SubnetLen, c.IPv6SubnetMin, c.IPv6SubnetMax))
	}
	return strings.Join(append(parts, c.BackendType), " ")
}

func TestParseConfigRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, says string }{
		{"nothing", ``, "JSON"},
		{"text", `"10.5.0.0/16"`, "JSON"},
		{"trailing text", `{"Network":"10.5.0.0/16"}}`, "JSON"},
		{"too long", `{"Network":"10.5.0.0/16","x":"` + strings.Repeat("x", MaxConfig) + `"}`, "more than"},
		{"no network", `{}`, "Network is missing"},
		{"null", `null`, "Network is missing"},
		{"no family", `{"EnableIPv4":false,"Network":"10.5.0.0/16"}`, "EnableIPv6"},
		{"no length", `{"Network":"10.5.0.0"}`, "Network"},
		{"v6 as Network", `{"Network":"fd05::/48"}`, "family"},
		{"v4 as IPv6Network", `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"10.6.0.0/16"}`, "family"},
		{"mapped", `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"::ffff:10.6.0.0/112"}`, "IPv6Network"},
		{"/29 without SubnetLen", `{"Network":"10.5.0.0/29"}`, "too small"},
		{"v6 /125 without length", `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd05::/125"}`, "too small"},
		{"SubnetLen 31", `{"Network":"10.5.0.0/16","SubnetLen":31}`, "SubnetLen 31"},
		{"IPv6SubnetLen 127", `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd05::/48","IPv6SubnetLen":127}`, "IPv6SubnetLen 127"},
		{"SubnetLen too wide", `{"Network":"10.5.0.0/16","SubnetLen":17}`, "at least 18"},
		{"SubnetLen negative", `{"Network":"10.5.0.0/16","SubnetLen":-1}`, "SubnetLen"},
		{"SubnetLen text", `{"Network":"10.5.0.0/16","SubnetLen":"24"}`, "SubnetLen"},
		{"SubnetMin outside", `{"Network":"10.5.0.0/16","SubnetMin":"10.6.0.0"}`, "SubnetMin 10.6.0.0 is outside"},
		{"SubnetMax outside", `{"Network":"10.5.0.0/16","SubnetMax":"10.6.0.0"}`, "SubnetMax 10.6.0.0 is outside"},
		{"SubnetMin askew", `{"Network":"10.5.0.0/16","SubnetMin":"10.5.1.1"}`, "10.5.1.0 is"},
		{"SubnetMax askew", `{"Network":"10.5.0.0/16","SubnetMax":"10.5.9.128"}`, "10.5.9.0 is"},
		{"SubnetMin of other family", `{"Network":"10.5.0.0/16","SubnetMin":"::ffff:10.5.1.0"}`, "outside"},
		{"SubnetMin not an address", `{"Network":"10.5.0.0/16","SubnetMin":"first"}`, "SubnetMin"},
		{"Min after Max", `{"Network":"10.5.0.0/16","SubnetMin":"10.5.9.0","SubnetMax":"10.5.2.0"}`, "swap"},
		{"Backend without Type", `{"Network":"10.5.0.0/16","Backend":{}}`, "Backend has no Type"},
		{"Backend null", `{"Network":"10.5.0.0/16","Backend":null}`, "Backend has no Type"},
		{"Backend text", `{"Network":"10.5.0.0/16","Backend":"vxlan"}`, "Backend"},
		{"Backend.Type long", `{"Network":"10.5.0.0/16","Backend":{"Type":"` + strings.Repeat("x", 100) + `"}}`, "Backend.Type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := ParseConfig([]byte(c.in))
			if err == nil {
				t.Fatalf("took %s", describe(cfg))
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("message %q does not say %q", err, c.says)
			}
		})
	}
}

func TestUDPBackend(t *testing.T) {
	for _, c := range []struct {
		name, backend string
		port          uint16
		says          string
	}{
		{"no backend", ``, 8285, ""},
		{"type only", `,"Backend":{"Type":"udp"}`, 8285, ""},
		{"port", `,"Backend":{"Type":"UDP","port":9000}`, 9000, ""},
		{"port 0", `,"Backend":{"Type":"udp","Port":0}`, 0, "Backend.Port 0"},
		{"port too big", `,"Backend":{"Type":"udp","Port":65536}`, 0, "Backend.Port 65536"},
		{"port text", `,"Backend":{"Type":"udp","Port":"8285"}`, 0, "Port"},
		{"other type", `,"Backend":{"Type":"vxlan"}`, 0, `"vxlan"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := config(t, c.backend).UDP()
			wantError(t, err, c.says)
			if b.Port != c.port {
				t.Errorf("Port = %d, want %d", b.Port, c.port)
			}
		})
	}
}

func TestVXLANBackend(t *testing.T) {
	for _, c := range []struct {
		name, backend string
		want          VXLANBackend
		says          string
	}{
		{"defaults", `{"Type":"vxlan"}`, VXLANBackend{VNI: 1, Port: 8472}, ""},
		{"port 0 is the kernel's", `{"Type":"vxlan","Port":0}`, VXLANBackend{VNI: 1, Port: 8472}, ""},
		{
			"everything", `{"Type":"vxlan","VNI":42,"Port":4789,"MTU":1400,"GBP":true,"Learning":true,"DirectRouting":true}`,
			VXLANBackend{42, 4789, 1400, true, true, true},
			"",
		},
		{"VNI too big", `{"Type":"vxlan","VNI":16777216}`, VXLANBackend{}, "Backend.VNI"},
		{"VNI negative", `{"Type":"vxlan","VNI":-1}`, VXLANBackend{}, "Backend.VNI"},
		{"port", `{"Type":"vxlan","Port":70000}`, VXLANBackend{}, "Backend.Port"},
		{"MTU too small", `{"Type":"vxlan","MTU":50}`, VXLANBackend{}, "Backend.MTU"},
		{"MTU too big", `{"Type":"vxlan","MTU":65536}`, VXLANBackend{}, "Backend.MTU"},
		{"not a bool", `{"Type":"vxlan","GBP":1}`, VXLANBackend{}, "GBP"},
		{"other type", `{"Type":"udp"}`, VXLANBackend{}, `"udp"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := config(t, `,"Backend":`+c.backend).VXLAN()
			wantError(t, err, c.says)
			if b != c.want {
				t.Errorf("got %+v, want %+v", b, c.want)
			}
		})
	}
}

func config(t testing.TB, more string) NetworkConfig {
	t.Helper()
	c, err := ParseConfig([]byte(`{"Network":"10.5.0.0/16"` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantError(t *testing.T, err error, says string) {
	t.Helper()
	switch {
	case says == "" && err != nil:
		t.Errorf("refused: %v", err)
	case says != "" && err == nil:
		t.Errorf("no error, want one that says %q", says)
	case says != "" && !strings.Contains(err.Error(), says):
		t.Errorf("message %q does not say %q", err, says)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":1}}`))
	f.Add([]byte(`{"Network":"10.5.0.0/23","EnableIPv6":true,"IPv6Network":"fd05::/48","SubnetMin":"10.5.0.0"}`))
	f.Add([]byte(`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"::/0"}`))
	f.Add([]byte(`{"Network":"0.0.0.0/0","SubnetLen":30}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := ParseConfig(value)
		if err != nil {
			return
		}
		_, _ = c.UDP()
		_, _ = c.VXLAN()
		v4, v6 := c.Free(nil, 3)
		if c.EnableIPv4 && len(v4) == 0 || c.EnableIPv6 && len(v6) == 0 {
			t.Errorf("%s has no subnet to give", describe(c))
		}
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > MaxConfig {
			return
		}
		if back, err := ParseConfig(out); err != nil || describe(back) != describe(c) {
			t.Errorf("%s came back as %s, %v", out, describe(back), err)
		}
	})
}
