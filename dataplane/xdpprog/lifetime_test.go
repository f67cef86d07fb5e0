package xdpprog

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childMode makes this test binary a process that attaches and then waits to be
// killed; its value is the mode.
const childMode = "FLANX_XDPPROG_ATTACH"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		if err := attachAndWait(mode); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// attachAndWait runs in the child. Descriptor 3 is the namespace.
func attachAndWait(mode string) error {
	runtime.LockOSThread()
	if err := unix.Setns(3, unix.CLONE_NEWNET); err != nil {
		return err
	}
	p, err := Load(cableConfig())
	if err != nil {
		return err
	}
	ifi, err := net.InterfaceByName("va")
	if err != nil {
		return err
	}
	m := Native
	if mode == Generic.String() {
		m = Generic
	}
	at, err := p.Attach(ifi.Index, m)
	if err != nil {
		return err
	}
	fmt.Println("attached")
	time.Sleep(time.Minute)
	return at.Close()
}

// startChild returns a process that holds an attachment in c.a.
func startChild(t *testing.T, c *cable, mode Mode) *exec.Cmd {
	t.Helper()
	ns, err := os.Open(c.a.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode.String())
	cmd.ExtraFiles = []*os.File{ns}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "attached\n" {
		t.Fatalf("child says %q", line)
	}
	return cmd
}

// TestKilledProcessLeavesNothing: after SIGKILL the program is gone and the
// host's traffic flows, and a start in the other mode finds the place free.
func TestKilledProcessLeavesNothing(t *testing.T) {
	needRoot(t)
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			c := newCable(t)
			child := startChild(t, c, mode)
			if c.attached() == "" {
				t.Fatal("the child's program does not show")
			}
			c.talk(t, 8472)
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = child.Wait()
			if got := c.attached(); got != "" {
				t.Fatalf("after SIGKILL ip still shows %q", got)
			}
			c.talk(t, 8472)
			at, err := c.attach(load(t, cableConfig()), 1-mode)
			if err != nil {
				t.Fatalf("attach in the other mode: %v", err)
			}
			if err := at.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// asCapable runs f on a thread of its own with only these capabilities, and
// lets the thread die.
func asCapable(t *testing.T, f func(), caps ...uint) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := dropTo(caps)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func dropTo(caps []uint) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for _, c := range caps {
		data[c/32].Effective |= 1 << (c % 32)
		data[c/32].Permitted |= 1 << (c % 32)
	}
	return unix.Capset(&hdr, &data[0])
}

func TestCapabilities(t *testing.T) {
	needRoot(t)
	load(t, cableConfig()) // whatever is probed once is probed with all capabilities
	t.Run("enough", func(t *testing.T) {
		asCapable(t, func() {
			cfg := cableConfig()
			cfg.MaxFrame = 1792
			p, err := Load(cfg)
			if err != nil {
				t.Errorf("Load with CAP_BPF and CAP_NET_ADMIN: %+v", err)
				return
			}
			defer p.Close()
		}, unix.CAP_BPF, unix.CAP_NET_ADMIN)
	})
	t.Run("none", func(t *testing.T) {
		asCapable(t, func() {
			_, err := Load(cableConfig())
			if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_BPF") {
				t.Errorf("Load without capabilities: %v, want EPERM naming CAP_BPF", err)
			}
		})
	})
}
