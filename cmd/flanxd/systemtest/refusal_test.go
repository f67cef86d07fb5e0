package systemtest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"flanx/perf/lab"
)

// What cannot be: each gets a message that names the thing and the cure, the exit
// code of the manual, and a host that is as it was.
func TestRefusals(t *testing.T) {
	const alloc = `{"Network":"10.244.0.0/16","Backend":{"Type":"alloc"}}`
	tests := []struct {
		name   string
		config string
		args   []string
		code   int
		words  []string
	}{
		{"unknown backend", `{"Network":"10.244.0.0/16","Backend":{"Type":"ipsec"}}`, nil, exitNetwork, []string{"ipsec", "vxlan", "udp", "alloc"}},
		{"VNI out of range", `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":16777216}}`, nil, exitNetwork, []string{"Backend.VNI", "16777216"}},
		{"MTU too small", `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","MTU":100}}`, nil, exitNetwork, []string{"Backend.MTU", "100"}},
		{"the underlay inside the overlay", `{"Network":"10.96.0.0/12","Backend":{"Type":"vxlan"}}`, nil, exitInUse, []string{"10.96.0.0/12", "10.99.0"}},
		{"wrong interface", vxlan, []string{"-iface", "eth7"}, exitFailure, []string{"-iface", "eth7"}},
		{"wrong address of an interface", vxlan, []string{"-iface", "192.0.2.1"}, exitFailure, []string{"-iface", "192.0.2.1"}},
		{"unknown flag", vxlan, []string{"-sideways"}, exitUsage, []string{"-sideways"}},
		{"an argument", vxlan, []string{"now"}, exitUsage, []string{"now"}},
		{"bad number", vxlan, []string{"-batch", "many"}, exitUsage, []string{"-batch", "many"}},
		{"bad address", vxlan, []string{"-public-ip", "10.99.0.256"}, exitUsage, []string{"-public-ip", "10.99.0.256"}},
		{"Kubernetes", vxlan, []string{"-kube-subnet-mgr"}, exitUsage, []string{"-kube-subnet-mgr", "etcd"}},
		{"bad endpoint", vxlan, []string{"-etcd-endpoints", "ftp://10.99.0.2"}, exitUsage, []string{"ftp"}},
		{"certificate without key", vxlan, []string{"-etcd-certfile", "/nowhere.pem"}, exitUsage, []string{"certfile", "keyfile"}},
		{"subnet file in a file", alloc, []string{"-subnet-file", "/proc/version/subnet.env"}, exitFailure, []string{"/proc/version", "-subnet-file"}},
	}
	parallel(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, lab.Wire{}, tt.config, "ours", "other")
			w.refused(w.hosts[0], tt.code, tt.words, tt.args...)
		})
	}
}

// A network configuration that is missing or cannot be read may be mended: the
// daemon says which key is wrong, waits, and takes it when it is right.
func TestConfigComesLater(t *testing.T) {
	parallel(t)
	for name, bad := range map[string]string{
		"malformed":        `{"Network":"10.244.0.0/16"`,
		"no network":       `{"Backend":{"Type":"udp"}}`,
		"bad network":      `{"Network":"10.244.0.0/40"}`,
		"backend no type":  `{"Network":"10.244.0.0/16","Backend":{}}`,
		"a list":           `[]`,
		"nothing to lease": `{"Network":"10.244.0.0/16","SubnetMin":"10.245.0.0"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, lab.Wire{}, bad, "ours", "other")
			before := inspect(t, w.hosts[0])
			d := w.launch(w.hosts[0])
			eventually(t, patience, func() error { return says(d, w.prefix+"/config") })
			if now := inspect(t, w.hosts[0]); now != before {
				t.Errorf("the host became\n%s, it was\n%s", now, before)
			}
			w.put("config", vxlan)
			d.ready()
			d.stop()
		})
	}
}

// A second daemon on the host leaves the first one alone.
func TestSecondInstance(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
	a, b := w.start(w.hosts[0]), w.start(w.hosts[1])
	w.refused(a.host, exitInUse, []string{"another flanxd", fmt.Sprintf("pid %d", a.process.PID()), "-subnet-file"})
	elsewhere := []string{"-subnet-file", filepath.Join(w.dir(a.host), "elsewhere.env")}
	w.refused(a.host, exitInUse, []string{"flannel0", fmt.Sprint(a.process.PID()), "-tun-name"}, elsewhere...)
	// In a network of its own, with a device of its own, but on the same port.
	w.prefix += "-two"
	w.put("config", `{"Network":"10.245.0.0/16","Backend":{"Type":"vxlan"}}`)
	elsewhere = append(elsewhere, "-tun-name", "flannel9", "-iptables-forward-rules=false")
	w.refused(a.host, exitInUse, []string{"8472", fmt.Sprint(a.process.PID())}, append(elsewhere, "-io", "udp")...)
	w.refused(a.host, exitInUse, []string{"another XDP program"}, append(elsewhere, "-io", "native")...)
	ping(t, a.host, a.addr(), b.addr(), 56)
	ping(t, b.host, b.addr(), a.addr(), 56)
	a.stop()
	b.stop()
}

// The tunnel's port is held by another program.
func TestPortHeld(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, udp, "ours", "other")
	var held *net.UDPConn
	err := w.hosts[0].Do(func() (err error) {
		held, err = net.ListenUDP("udp4", &net.UDPAddr{IP: netip.IPv4Unspecified().AsSlice(), Port: udpPort})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, io := range []string{"auto", "udp"} {
		w.refused(w.hosts[0], exitInUse, []string{"8285", fmt.Sprint(os.Getpid())}, "-io", io)
	}
}

// Another's VXLAN device holds the port, and is not ours to remove.
func TestVXLANDeviceHeld(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
	ip(t, w.hosts[0], "link add vx7 type vxlan id 7 dev eth0 dstport 8472 local 10.99.0.1")
	w.refused(w.hosts[0], exitInUse, []string{"vx7", "8472", "ip link del vx7", "Backend.Port"})
	ip(t, w.hosts[0], "link del vx7", "link add flannel.1 type vxlan id 1 dev eth0 dstport 8472 local 10.99.0.1")
	w.refused(w.hosts[0], exitInUse, []string{"flannel.1", "ip link del flannel.1"}, "-keep-flannel-device")
}

// A device called flannel0 that is no TUN is not ours to take.
func TestDeviceNameHeld(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
	ip(t, w.hosts[0], "link add flannel0 type bridge")
	w.refused(w.hosts[0], exitInUse, []string{"flannel0", "-tun-name"})
	ip(t, w.hosts[0], "link del flannel0", "route add 10.244.0.0/16 via 10.99.0.2")
	w.refused(w.hosts[0], exitInUse, []string{"10.244.0.0/16", "eth0", "ip route del"})
}

// Without its capabilities the daemon says which one it needs.
func TestMissingCapability(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("no setpriv (util-linux) to drop capabilities with")
	}
	parallel(t)
	for _, capability := range []string{"net_admin", "net_raw"} {
		w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
		h := w.hosts[0]
		before := inspect(t, h)
		d := w.launchBy([]string{setpriv, "--bounding-set", "-" + capability, "--inh-caps", "-" + capability, flanxd}, h, "-io", "native")
		code, said := d.end(endLimit)
		if code != exitPrivilege || !strings.Contains(said, "CAP_"+strings.ToUpper(capability)) {
			t.Errorf("without CAP_%s: exit code %d, want %d and the capability named:\n%s", strings.ToUpper(capability), code, exitPrivilege, said)
		}
		if after := inspect(t, h); after != before {
			t.Errorf("left behind:\n%s\nbefore:\n%s", after, before)
		}
	}
}

// A subnet file that cannot be written is a warning, as with flanneld: packets
// flow. (The lock lies beside it, so its folder must take files.)
func TestSubnetFileUnwritable(t *testing.T) {
	parallel(t)
	w := newWorld(t, lab.Wire{}, vxlan, "ours", "other")
	env := filepath.Join(w.dir(w.hosts[0]), "taken.env")
	if err := os.MkdirAll(filepath.Join(env, "by-a-folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := w.launch(w.hosts[0], "-subnet-file", env)
	eventually(t, patience, func() error { return says(d, "subnet file not written") })
	if err := says(d, env); err != nil {
		t.Error(err)
	}
	d.stop()
}
