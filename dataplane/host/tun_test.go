package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/porttest"
)

// openIn opens a TUN in the namespace and closes it with the test.
func openIn(t *testing.T, n *porttest.Namespace, cfg TUNConfig) *TUN {
	t.Helper()
	tun, err := tryIn(n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tun.Close() })
	return tun
}

func tryIn(n *porttest.Namespace, cfg TUNConfig) (tun *TUN, err error) {
	n.Do(func() { tun, err = OpenTUN(cfg) })
	return tun, err
}

func TestOpenTUN(t *testing.T) {
	tests := map[string]struct {
		cfg   TUNConfig
		name  string // if not the configured one
		mtu   int
		flags int
	}{
		"plain":       {cfg: TUNConfig{Name: "flannel0"}, mtu: 1500, flags: unix.IFF_TUN | unix.IFF_NO_PI},
		"MTU":         {cfg: TUNConfig{Name: "flannel0", MTU: 1472}, mtu: 1472, flags: unix.IFF_TUN | unix.IFF_NO_PI},
		"least MTU":   {cfg: TUNConfig{Name: "flannel0", MTU: 68}, mtu: 68, flags: unix.IFF_TUN | unix.IFF_NO_PI},
		"largest MTU": {cfg: TUNConfig{Name: "flannel0", MTU: 65535}, mtu: 65535, flags: unix.IFF_TUN | unix.IFF_NO_PI},
		"numbered":    {cfg: TUNConfig{Name: "fx%d"}, name: "fx0", mtu: 1500, flags: unix.IFF_TUN | unix.IFF_NO_PI},
		"long name":   {cfg: TUNConfig{Name: "flannel89abcdef"}, mtu: 1500, flags: unix.IFF_TUN | unix.IFF_NO_PI},
		"offload": {
			cfg: TUNConfig{Name: "flannel0", Offload: true}, mtu: 1500,
			flags: unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR,
		},
		"queues": {
			cfg: TUNConfig{Name: "flannel0", Queues: 4}, mtu: 1500,
			flags: unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_MULTI_QUEUE,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := porttest.NewNamespace(t)
			tun := openIn(t, n, tt.cfg)
			if tt.name == "" {
				tt.name = tt.cfg.Name
			}
			n.Do(func() {
				link, err := net.InterfaceByName(tt.name)
				if err != nil {
					t.Fatal(err)
				}
				if tun.Name != tt.name || tun.Index != link.Index || link.MTU != tt.mtu {
					t.Errorf("TUN %s index %d MTU %d, want %s index %d MTU %d",
						tun.Name, tun.Index, link.MTU, tt.name, link.Index, tt.mtu)
				}
			})
			if want := max(1, tt.cfg.Queues); tun.Queues() != want {
				t.Fatalf("%d queues, want %d", tun.Queues(), want)
			}
			if (tun.Offloads != 0) != tt.cfg.Offload {
				t.Errorf("offloads are %#x", tun.Offloads)
			}
			for i := range tun.Queues() {
				checkQueue(t, tun.queues[i], tt.flags)
			}
		})
	}
}

// checkQueue checks that a descriptor is of the right kind and does not block.
func checkQueue(t *testing.T, fd, flags int) {
	t.Helper()
	req, err := unix.NewIfreq("")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlIfreq(fd, unix.TUNGETIFF, req); err != nil {
		t.Fatalf("TUNGETIFF: %v", err)
	}
	const kind = unix.IFF_TUN | unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE
	if got := int(req.Uint16()) & kind; got != flags {
		t.Errorf("flags are %#x, want %#x", got, flags)
	}
	if _, err := unix.Read(fd, make([]byte, 1)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("Read of an idle queue: %v, want EAGAIN", err)
	}
	if cloexec, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || cloexec&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags are %#x, %v: a child would inherit it", cloexec, err)
	}
}

func TestTUNConfigErrors(t *testing.T) {
	for name, cfg := range map[string]TUNConfig{
		"no name":         {},
		"name too long":   {Name: "flannel89abcdef0"},
		"slash":           {Name: "a/b"},
		"space":           {Name: "a b"},
		"nul":             {Name: "a\x00b"},
		"negative queues": {Name: "fx", Queues: -1},
		"many queues":     {Name: "fx", Queues: 257},
		"small MTU":       {Name: "fx", MTU: 67},
		"negative MTU":    {Name: "fx", MTU: -1},
		"large MTU":       {Name: "fx", MTU: 65536},
	} {
		if tun, err := OpenTUN(cfg); !errors.Is(err, ErrTUNConfig) {
			t.Errorf("%s: %v, %v", name, tun, err)
		}
	}
}

// wantErr checks that an error has a cause and names each of the words.
func wantErr(t *testing.T, err, cause error, words ...string) {
	t.Helper()
	if !errors.Is(err, cause) {
		t.Fatalf("error is %v, want %v", err, cause)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

func TestTUNWithoutDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tun")
	_, err := openTUN(path, TUNConfig{Name: "fx"})
	wantErr(t, err, unix.ENOENT, path, "modprobe tun", "--device")
}

func TestTUNWithoutPrivilege(t *testing.T) {
	n := porttest.NewNamespace(t)
	done := make(chan error)
	go n.Do(func() { // on a thread that ends with its goroutine, stripped for good
		runtime.LockOSThread()
		if err := dropNetAdmin(); err != nil {
			done <- err
			return
		}
		_, err := OpenTUN(TUNConfig{Name: "fx"})
		done <- err
		runtime.Goexit()
	})
	wantErr(t, <-done, unix.EPERM, "TUN fx", "CAP_NET_ADMIN")
}

// dropNetAdmin takes CAP_NET_ADMIN from the calling thread.
func dropNetAdmin() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("get capabilities: %w", err)
	}
	data[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}

func TestTUNBusyNamesTheHolder(t *testing.T) {
	n := porttest.NewNamespace(t)
	name := fmt.Sprintf("fx%d", os.Getpid()) // no other process has one of that name
	openIn(t, n, TUNConfig{Name: name})
	_, err := tryIn(n, TUNConfig{Name: name})
	wantErr(t, err, unix.EBUSY, name, fmt.Sprintf("process %d (", os.Getpid()))
}

func TestTUNOfAnotherKind(t *testing.T) {
	n := porttest.NewNamespace(t)
	n.IP("link add fx0 type veth peer name fx1")
	_, err := tryIn(n, TUNConfig{Name: "fx0"})
	wantErr(t, err, unix.EINVAL, "fx0", "ip link del fx0")

	n.IP("tuntap add dev fx2 mode tap")
	_, err = tryIn(n, TUNConfig{Name: "fx2"})
	wantErr(t, err, unix.EINVAL, "fx2")

	openIn(t, n, TUNConfig{Name: "fx3", Queues: 2})
	_, err = tryIn(n, TUNConfig{Name: "fx3"})
	wantErr(t, err, unix.EINVAL, "fx3", "1 queue(s)")
}

func TestTUNPersist(t *testing.T) {
	n := porttest.NewNamespace(t)
	tun := openIn(t, n, TUNConfig{Name: "fx0", Persist: true, Offload: true})
	if err := tun.Close(); err != nil {
		t.Fatal(err)
	}
	n.IP("link show dev fx0")
	tun = openIn(t, n, TUNConfig{Name: "fx0"}) // attaches, and turns the offloads off
	if err := tun.Close(); err != nil {
		t.Fatal(err)
	}
	n.IP("link del fx0")
}

func TestTUNGoesWithItsDescriptors(t *testing.T) {
	n := porttest.NewNamespace(t)
	before := openFDs(t)
	tun := openIn(t, n, TUNConfig{Name: "fx0", Queues: 3})
	for range 2 {
		if err := tun.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := n.TryIP("link show dev fx0"); err == nil {
		t.Errorf("the device is still there: %s", out)
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// TestOpenTUNUndoes fails at each attachment in turn and finds nothing left.
func TestOpenTUNUndoes(t *testing.T) {
	n := porttest.NewNamespace(t)
	openIn(t, n, TUNConfig{Name: "fx0", Queues: maxTUNQueues - 2})
	before := openFDs(t)
	for queues, cause := range map[int]error{
		1: unix.EINVAL, // the first queue fails: not of the same kind
		3: unix.E2BIG,  // the third
	} {
		_, err := tryIn(n, TUNConfig{Name: "fx0", Queues: queues})
		wantErr(t, err, cause, "fx0")
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors after failures, %d before", after, before)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestTUNTake(t *testing.T) {
	n := porttest.NewNamespace(t)
	tun := openIn(t, n, TUNConfig{Name: "fx0", Queues: 2})
	fd := tun.Take(1)
	if err := tun.Close(); err != nil {
		t.Fatal(err)
	}
	checkQueue(t, fd, unix.IFF_TUN|unix.IFF_NO_PI|unix.IFF_MULTI_QUEUE)
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a queue taken twice: no panic")
		}
	}()
	tun.Take(1)
}

func TestExplainTUN(t *testing.T) {
	tests := map[string]struct {
		err   error
		cause error
		words []string
	}{
		"no driver":   {explainTUNOpen("/dev/net/tun", unix.ENXIO), unix.ENXIO, []string{"modprobe tun"}},
		"no device":   {explainTUNOpen("/dev/net/tun", unix.ENODEV), unix.ENODEV, []string{"modprobe tun"}},
		"no right":    {explainTUNOpen("/dev/net/tun", unix.EACCES), unix.EACCES, []string{"CAP_NET_ADMIN"}},
		"own limit":   {explainTUNOpen("/dev/net/tun", unix.EMFILE), unix.EMFILE, []string{"ulimit -n", "LimitNOFILE"}},
		"host limit":  {explainTUNOpen("/dev/net/tun", unix.ENFILE), unix.ENFILE, []string{"fs.file-max"}},
		"no memory":   {explainTUNOpen("/dev/net/tun", unix.ENOMEM), unix.ENOMEM, []string{"/dev/net/tun"}},
		"no queue":    {explainTUNAttach("fx", TUNConfig{Queues: 2}, unix.E2BIG), unix.E2BIG, []string{"TUN fx", "queues"}},
		"no capacity": {explainTUNAttach("fx", TUNConfig{}, unix.ENOMEM), unix.ENOMEM, []string{"TUN fx"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantErr(t, tt.err, tt.cause, tt.words...) })
	}
}

func TestTUNHolderUnknown(t *testing.T) {
	if got := tunHolder(t.TempDir(), "fx"); got != "in use by another process" {
		t.Errorf("holder is %q", got)
	}
}
