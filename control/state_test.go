package control

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/control/lease"
)

func testState(t testing.TB) state {
	t.Helper()
	cfg, err := lease.ParseConfig([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":7}}`))
	if err != nil {
		t.Fatal(err)
	}
	own := testLease(100)
	own.ID, own.Revision = 77, 9
	reserved := testLease(2)
	reserved.Reserved = true
	return state{
		Version: stateVersion, Origin: "etcd /coreos.com/network", Saved: time.Now().UTC(),
		Config: cfg, Own: own, Peers: []lease.Lease{testLease(1), reserved},
	}
}

func TestStateRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	want := testState(t)
	for range 2 { // also over the old file
		if err := saveState(path, want); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v, want 0600", info.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left in the directory: %v", left)
	}
	got, err := loadState(path, want.Origin)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Config.Equal(want.Config) || !got.Own.Equal(want.Own) || got.Own.ID != 77 || got.Own.Revision != 9 || !got.Saved.Equal(want.Saved) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i := range want.Peers {
		if !got.Peers[i].Equal(want.Peers[i]) {
			t.Errorf("peer %d is %+v, want %+v", i, got.Peers[i], want.Peers[i])
		}
	}
}

func TestStateWithoutALeaseOfOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s := testState(t)
	s.Own, s.Peers = lease.Lease{}, nil
	if err := saveState(path, s); err != nil {
		t.Fatal(err)
	}
	if got, err := loadState(path, s.Origin); err != nil || !got.Own.Subnets.IsZero() {
		t.Errorf("got %+v, %v", got.Own, err)
	}
}

func TestLoadStateRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	if err := saveState(path, testState(t)); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, with string) func(t *testing.T) {
		return func(t *testing.T) {
			if !strings.Contains(string(good), old) {
				t.Fatalf("no %s in %s", old, good)
			}
			write(t, path, strings.Replace(string(good), old, with, 1), 0o600)
		}
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T)
		says string
	}{
		{"empty", func(t *testing.T) { write(t, path, "", 0o600) }, "read state file"},
		{"cut off", func(t *testing.T) { write(t, path, string(good[:len(good)/2]), 0o600) }, "read state file"},
		{"not JSON", func(t *testing.T) { write(t, path, "\x00\x01", 0o600) }, "read state file"},
		{"version", replace(`"version":1`, `"version":2`), "version 2"},
		{"another store", replace("coreos", "elsewhere"), "elsewhere"},
		{"network", replace(`"Network":"10.5.0.0/16"`, `"Network":"10.5.0.0/31"`), "SubnetLen"},
		{"our lease outside", replace("10.5.100.0/24", "10.6.100.0/24"), "our own lease"},
		{"our lease gone wrong", replace("10.99.0.100", "0.0.0.0"), "our own lease"},
		{"peer's host bits", replace("10.5.1.0/24", "10.5.1.7/24"), "malformed"},
		{"peer's address", replace("10.99.0.1\"", "239.0.0.1\""), "PublicIP"},
		{"peer without subnet", replace(`"ipv4":"10.5.1.0/24",`, ""), "no subnet"},
		{"others may write", func(t *testing.T) { write(t, path, string(good), 0o622) }, "chmod"},
		{"symbolic link", func(t *testing.T) { write(t, path+".real", string(good), 0o600); symlink(t, path+".real", path) }, "open state file"},
		{"named pipe", func(t *testing.T) { os.Remove(path); mkfifo(t, path) }, "regular"},
		{"directory", func(t *testing.T) { os.Remove(path); os.Mkdir(path, 0o700) }, "regular"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.make(t)
			_, err := loadState(path, testState(t).Origin)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want one that says %q", err, c.says)
			}
			os.Remove(path)
		})
	}
	if _, err := loadState(path, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file is %v", err)
	}
}

func TestStateOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file away")
	}
	path := filepath.Join(t.TempDir(), "state.json")
	if err := saveState(path, testState(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := loadState(path, testState(t).Origin); err == nil || !strings.Contains(err.Error(), "65534") {
		t.Errorf("error is %v", err)
	}
}

func TestHugeStateIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	write(t, path, "", 0o600)
	if err := os.Truncate(path, maxStateFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := loadState(path, ""); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("error is %v", err)
	}
}

func TestSaveStateFailsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "state.json")
	if err := saveState(path, testState(t)); err == nil {
		t.Error("saved into a missing directory")
	}
	s := testState(t)
	s.Peers = append(s.Peers, lease.Lease{Subnets: testLease(3).Subnets}) // no address
	path = filepath.Join(t.TempDir(), "state.json")
	if err := saveState(path, s); err == nil {
		t.Error("saved a lease that cannot be read back")
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left in the directory: %v", left)
	}
}

func write(t *testing.T, path, data string, mode fs.FileMode) {
	t.Helper()
	os.Remove(path)
	if err := os.WriteFile(path, []byte(data), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	os.Remove(path)
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

func FuzzStateEntry(f *testing.F) {
	f.Add([]byte(`{"ipv4":"10.5.1.0/24","attrs":{"PublicIP":"10.99.0.1"},"revision":3}`))
	f.Add([]byte(`{"ipv6":"::ffff:10.0.0.0/104","attrs":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e stateEntry
		if json.Unmarshal(data, &e) != nil {
			return
		}
		l, err := e.lease()
		if err != nil {
			return
		}
		back, err := toEntry(l)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := back.lease(); err != nil || again.Subnets != l.Subnets {
			t.Errorf("%+v came back as %+v, %v", l, again, err)
		}
	})
}
