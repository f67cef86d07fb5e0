package hostnet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// vxlan makes a VXLAN device as flanneld does.
func (n *namespace) vxlan(name string, vni, port int, local, mac string) {
	n.t.Helper()
	n.withLink("eth0", func(under netlink.Link) error {
		hw, err := net.ParseMAC(mac)
		if err != nil {
			return err
		}
		return netlink.LinkAdd(&netlink.Vxlan{
			LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: hw, MTU: 1450},
			VxlanId:   vni, VtepDevIndex: under.Attrs().Index, Port: port, SrcAddr: net.ParseIP(local),
		})
	})
	n.up(name)
}

func (n *namespace) vxlanDevices(vni, port int) []VXLANDevice {
	n.t.Helper()
	var found []VXLANDevice
	n.do(func() (err error) {
		found, err = VXLANDevices(vni, port)
		return err
	})
	return found
}

func withCard(t *testing.T) *namespace {
	n, far := newNamespace(t), newNamespace(t)
	wire(n, "eth0", far, "eth0")
	n.addr("eth0", "10.99.0.1/24")
	n.addr("eth0", "fd99::1/64")
	return n
}

func TestVXLANDevices(t *testing.T) {
	n := withCard(t)
	if got := n.vxlanDevices(1, 8472); len(got) != 0 {
		t.Errorf("found %+v", got)
	}
	n.vxlan("flannel.1", 1, 8472, "10.99.0.1", "fa:b7:dd:78:7f:f6")
	n.vxlan("flannel-v6.1", 1, 8472, "fd99::1", "fa:b7:dd:78:7f:f7")
	n.vxlan("other", 7, 4789, "10.99.0.1", "fa:b7:dd:78:7f:f8")
	n.vxlan("flannel.2", 2, 4790, "10.99.0.1", "fa:b7:dd:78:7f:f9")

	describe := func(ds []VXLANDevice) string {
		var all []string
		for _, d := range ds {
			all = append(all, fmt.Sprintf("%s vni=%d port=%d v6=%t mac=%s flannel=%t", d.Name, d.VNI, d.Port, d.IPv6, d.MAC, d.IsFlannel()))
		}
		return strings.Join(all, "\n")
	}
	const (
		v4     = "flannel.1 vni=1 port=8472 v6=false mac=fa:b7:dd:78:7f:f6 flannel=true"
		v6     = "flannel-v6.1 vni=1 port=8472 v6=true mac=fa:b7:dd:78:7f:f7 flannel=true"
		other  = "other vni=7 port=4789 v6=false mac=fa:b7:dd:78:7f:f8 flannel=false"
		second = "flannel.2 vni=2 port=4790 v6=false mac=fa:b7:dd:78:7f:f9 flannel=true"
	)
	for _, test := range []struct {
		name      string
		vni, port int
		want      string
	}{
		{"same VNI and port", 1, 8472, v4 + "\n" + v6},
		{"same VNI, port changed", 1, 4790, v4 + "\n" + v6 + "\n" + second},
		{"another's port", 3, 4789, other},
		{"another flannel network", 2, 8472, v4 + "\n" + v6 + "\n" + second},
		{"nothing", 3, 4791, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := describe(n.vxlanDevices(test.vni, test.port)); got != test.want {
				t.Errorf("found\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// As long as the device is there nobody can bind its port; afterwards at once.
func TestRemoveFreesThePort(t *testing.T) {
	n := withCard(t)
	n.vxlan("flannel.1", 1, 8472, "10.99.0.1", "fa:b7:dd:78:7f:f6")
	n.route("10.5.3.0/24", "", "flannel.1", 0)
	bind := func() error {
		var err error
		n.in(func() {
			var c net.PacketConn
			if c, err = net.ListenPacket("udp4", "10.99.0.1:8472"); err == nil {
				_ = c.Close()
			}
		})
		return err
	}
	if err := bind(); !errors.Is(err, unix.EADDRINUSE) {
		t.Fatalf("bind beside the device: %v", err)
	}
	d := n.vxlanDevices(1, 8472)[0]
	for range 2 {
		n.do(d.Remove)
	}
	if err := bind(); err != nil {
		t.Errorf("bind after removal: %v", err)
	}
	n.do(func() error {
		if routes, err := netlink.RouteGet(addr("10.5.3.1").AsSlice()); err == nil {
			t.Errorf("route of the device stayed: %v", routes)
		}
		return nil
	})
}

func TestRemoveLooksAgain(t *testing.T) {
	n := withCard(t)
	n.vxlan("flannel.1", 1, 8472, "10.99.0.1", "fa:b7:dd:78:7f:f6")
	d := n.vxlanDevices(1, 8472)[0]
	n.withLink("flannel.1", func(l netlink.Link) error {
		hw, _ := net.ParseMAC("02:00:00:00:00:01")
		return netlink.LinkSetHardwareAddr(l, hw)
	})
	n.in(func() {
		if err := d.Remove(); !errors.Is(err, ErrConflict) {
			t.Errorf("another device at the index: %v", err)
		}
		notVXLAN, err := netlink.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		d.Index = notVXLAN.Attrs().Index
		if err := d.Remove(); !errors.Is(err, ErrConflict) {
			t.Errorf("no VXLAN device at the index: %v", err)
		}
	})
	if got := n.vxlanDevices(1, 8472); len(got) != 1 {
		t.Errorf("devices left: %v", got)
	}
}

func TestCheckTUN(t *testing.T) {
	n := withCard(t)
	check := func(name string) (err error) {
		n.in(func() { err = CheckTUN(name) })
		return err
	}
	if err := check("flannel0"); err != nil {
		t.Errorf("no device: %v", err)
	}
	n.tun("held", false)
	err := check("held")
	if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) ||
		!strings.Contains(err.Error(), "-tun-name") {
		t.Errorf("held: %v", err)
	}
	n.tun("kept", true)
	if err := check("kept"); err != nil {
		t.Errorf("persistent: %v", err)
	}
	n.do(func() error {
		return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tap"}, Mode: netlink.TUNTAP_MODE_TAP})
	})
	if err := check("tap"); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "TAP") {
		t.Errorf("TAP: %v", err)
	}
	if err := check("eth0"); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "veth") {
		t.Errorf("veth: %v", err)
	}
}

func TestTUNInfo(t *testing.T) {
	const info = "pos:\t0\nflags:\t0104002\niff:\tflannel0\n"
	for name, want := range map[string]bool{"flannel0": true, "flannel": false, "flannel00": false, "": false} {
		if got := isTUNInfo([]byte(info), name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
	if got := holder(t.TempDir(), "flannel0"); got != "another process" {
		t.Errorf("holder in an empty /proc: %s", got)
	}
}

// Of two processes that hold a device of one name, the one in our namespace is
// named, whatever their order.
func TestHolderInOurNamespace(t *testing.T) {
	proc := t.TempDir()
	for _, p := range []struct{ dir, ns string }{{"1", "net:[7]"}, {"2", "net:[8]"}, {"3", "net:[7]"}, {"thread-self", "net:[8]"}} {
		for path, content := range map[string]string{"fdinfo/5": "pos:\t0\niff:\tflannel0\n", "comm": "holder" + p.dir + "\n"} {
			path = filepath.Join(proc, p.dir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(proc, p.dir, "ns", "net")
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(p.ns, link); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := holder(proc, "flannel0"), `process 2 ("holder2")`; got != want {
		t.Errorf("%s holds it, want %s", got, want)
	}
}
