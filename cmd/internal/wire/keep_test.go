package wire

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flanx/cmd/internal/config"
	"flanx/control/hostnet"
	"flanx/control/lease"
)

// keptNode is a node without a data path, and what it said.
func keptNode(t *testing.T) (k *keeper, log *bytes.Buffer, ready *[]error) {
	log, ready = &bytes.Buffer{}, &[]error{}
	n := &node{
		cfg:     config.Daemon{SubnetFile: filepath.Join(t.TempDir(), "subnet.env"), TUNName: config.DefaultTUNName},
		log:     slog.New(slog.NewTextHandler(log, nil)),
		iface:   hostnet.Interface{Index: 4711, Name: "eth0", MTU: 1500, Addr4: netip.MustParseAddr("192.0.2.1")},
		ready:   &conditions{tell: func(err error) { *ready = append(*ready, err) }, bad: map[string]error{}},
		backend: backend{kind: "vxlan"},
		failed:  make(chan error, 2),
	}
	return &keeper{
		node: n, link: 1500, mtu: hostnet.MTU{V4: 1450, Underlay: 1500},
		cfg: lease.NetworkConfig{EnableIPv4: true, Network: netip.MustParsePrefix("10.5.0.0/16")},
		own: lease.Lease{Subnets: lease.Subnets{V4: netip.MustParsePrefix("10.5.1.0/24")}},
	}, log, ready
}

func TestKeeperEndsTheNodeWhenTheAddressStaysAway(t *testing.T) {
	k, log, ready := keptNode(t)
	began := time.Now()
	for after := time.Duration(0); after < addressGrace; after += 5 * time.Second {
		k.followUnderlay(began.Add(after)) // no interface has that index
	}
	if len(k.failed) != 0 {
		t.Error("ended within the grace")
	}
	if len(*ready) != 1 || (*ready)[0] == nil || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("told %v, logged\n%s", *ready, log)
	}
	for range 5 { // more often than there is room for
		k.followUnderlay(began.Add(addressGrace))
	}
	if err := <-k.failed; err == nil || !strings.Contains(err.Error(), "192.0.2.1 is no longer on eth0") {
		t.Errorf("ended with %v", err)
	}
}

func TestKeeperTakesTheAddressBack(t *testing.T) {
	k, _, ready := keptNode(t)
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	began := time.Now()
	k.followUnderlay(began)
	k.iface.Index, k.iface.MTU, k.iface.Addr4 = lo.Index, lo.MTU, netip.MustParseAddr("127.0.0.1")
	k.link = lo.MTU
	k.followUnderlay(began.Add(time.Second))
	if len(*ready) != 2 || (*ready)[1] != nil || !k.gone.IsZero() {
		t.Errorf("told %v", *ready)
	}
	k.followUnderlay(began.Add(2 * addressGrace))
	if len(k.failed) != 0 || len(*ready) != 2 {
		t.Errorf("told %v afterwards", *ready)
	}
}

func TestKeeperFollowsTheMTU(t *testing.T) {
	tests := []struct {
		name     string
		link     int
		backend  int // Backend.MTU
		want     int
		logs     string
		fileSays string
	}{
		{name: "smaller", link: 1400, want: 1350, logs: "follows", fileSays: "FLANNEL_MTU=1350\n"},
		{name: "larger than at the start", link: 9000, want: 1450, logs: "restart to use it"},
		{name: "smaller, but not than configured", link: 1450, backend: 1300, want: 1250, logs: "follows", fileSays: "FLANNEL_MTU=1250\n"},
		{name: "too small", link: 100, want: 1450, logs: "cannot be followed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			k, log, ready := keptNode(t)
			k.backend.mtu = test.backend
			k.link = test.link
			k.followMTU("eth0")
			if k.mtu.Link() != test.want || !strings.Contains(log.String(), test.logs) {
				t.Errorf("MTU %d, want %d; logged %s", k.mtu.Link(), test.want, log)
			}
			f, err := hostnet.ReadSubnetFile(k.node.cfg.SubnetFile)
			if test.fileSays == "" {
				if err == nil {
					t.Errorf("subnet file was written: %+v", f)
				}
				return
			}
			if err != nil || !strings.Contains(string(f.Bytes()), test.fileSays) {
				t.Errorf("subnet file holds %+v, %v", f, err)
			}
			if len(*ready) != 1 || (*ready)[0] != nil {
				t.Errorf("told %v", *ready)
			}
		})
	}
}

func TestKeeperSaysATroubleOnce(t *testing.T) {
	k, log, _ := keptNode(t)
	k.engine = &engine{}
	for range 3 {
		k.healDevice() // nothing is open: nothing to heal
	}
	if log.Len() > 0 {
		t.Errorf("logged\n%s", log)
	}
	k.said = ""
	for _, err := range []error{errors.New("a"), errors.New("a"), errors.New("b"), nil, errors.New("b")} {
		k.complain(err)
	}
	if got := strings.Count(log.String(), "\n"); got != 3 {
		t.Errorf("%d lines, want 3:\n%s", got, log)
	}
}
