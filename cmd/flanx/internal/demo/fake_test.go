package demo_test

import (
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// This binary also plays the programs that a demo starts, so that the demo itself
// is tested without a daemon to wait for or an etcd to fill. The part is chosen by
// the environment; what shall go wrong, on host2 only, too.
const (
	partEnv  = "DEMO_TEST_PART"
	faultEnv = "DEMO_TEST_FAULT"
)

func TestMain(m *testing.M) {
	if os.Getenv(partEnv) != "" && len(os.Args) > 1 {
		if os.Args[1] == "etcd" {
			fakeEtcd(os.Args[2:])
		}
		fakeDaemon(os.Args[1:])
	}
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		os.Exit(1)
	}
}

// fakeEtcd notes what it was told to put, and waits to be killed.
func fakeEtcd(args []string) {
	f := flag.NewFlagSet("etcd", flag.ExitOnError)
	dir, ready := f.String("dir", "", ""), f.String("ready", "", "")
	f.String("listen", "", "")
	f.Func("put", "", func(s string) error {
		fmt.Println("put", s)
		return nil
	})
	must(f.Parse(args))
	if os.Getenv(faultEnv) == "etcd" {
		fmt.Println("the disk is on fire")
		os.Exit(1)
	}
	must(os.MkdirAll(*dir, 0o700))
	must(os.WriteFile(*ready, nil, 0o600))
	waitForSignal()
}

func waitForSignal() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
	os.Exit(0)
}

// ip runs iproute2.
func ip(line string) {
	out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ip %s: %w: %s", line, err, out)
	}
	must(err)
}

// fakeDaemon is an overlay of the poorest kind: host N has 10.244.N.0/24, and a
// plain route by the underlay leads to each of the others.
func fakeDaemon(args []string) {
	f := flag.NewFlagSet("flanxd", flag.ExitOnError)
	io, env := f.String("io", "", ""), f.String("subnet-file", "", "")
	for _, name := range []string{"etcd-endpoints", "etcd-prefix", "iface"} {
		f.String(name, "", "")
	}
	must(f.Parse(args))
	me, fault := number(), ""
	if me == 2 {
		fault = os.Getenv(faultEnv)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log.Info("fake daemon", "host", me, "fault", fault)
	switch fault {
	case "exit":
		log.Error("cannot go on", "error", "no such luck")
		os.Exit(1)
	case "no lease":
		waitForSignal()
	}
	up(me, fault)
	way := map[string]string{"native": "native copy", "generic": "generic copy", "udp": "UDP socket"}[*io]
	if fault == "other way" {
		way = "UDP socket"
	}
	if fault != "mute" {
		log.Info("way on the wire", "asked", *io, "granted", way, "why", "fake")
	}
	subnet := fmt.Sprintf("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.%d.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n", me)
	if fault == "bad file" {
		subnet = "FLANNEL_SUBNET=10.244.2.300/24\n"
	}
	must(os.WriteFile(*env+"~", []byte(subnet), 0o600))
	must(os.Rename(*env+"~", *env))
	if fault == "late exit" {
		time.Sleep(50 * time.Millisecond)
		os.Exit(3)
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
	if fault != "leaves device" {
		ip("link del flannel0")
	}
	for n := 1; n <= 4; n++ {
		if n != me && fault != "deaf" {
			ip(fmt.Sprintf("route del 10.244.%d.0/24", n))
		}
	}
	os.Exit(0)
}

// number is the last part of eth0's address.
func number() int {
	eth0, err := net.InterfaceByName("eth0")
	must(err)
	addrs, err := eth0.Addrs()
	must(err)
	return int(addrs[0].(*net.IPNet).IP.To4()[3])
}

func up(me int, fault string) {
	ip("link add flannel0 type bridge")
	ip(fmt.Sprintf("addr add 10.244.%d.0/32 dev flannel0", me))
	ip("link set flannel0 up")
	ip("route add 10.244.0.0/16 dev flannel0")
	for n := 1; n <= 4; n++ {
		if n != me && fault != "deaf" {
			ip(fmt.Sprintf("route add 10.244.%d.0/24 via 10.99.0.%d", n, n))
		}
	}
}

// standIn is the path of this binary under a name that a demo can start.
func standIn(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "flanxd")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}
