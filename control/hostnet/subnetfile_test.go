package hostnet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/control/lease"
)

// Golden files as flanneld writes them.
var goldenSubnetFiles = []struct {
	name string
	file SubnetFile
	want string
}{
	{
		"udp",
		SubnetFile{Network: prefix("10.5.0.0/16"), Subnets: lease.Subnets{V4: prefix("10.5.72.0/24")}, MTU: 1472},
		"FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n",
	},
	{
		"vxlan with masquerade",
		SubnetFile{Network: prefix("10.5.0.0/16"), Subnets: lease.Subnets{V4: prefix("10.5.1.0/24")}, MTU: 1450, IPMasq: true},
		"FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
	},
	{
		"dual stack",
		SubnetFile{
			Network: prefix("10.5.0.0/16"), IPv6Network: prefix("fd05::/48"),
			Subnets: lease.Subnets{V4: prefix("10.5.39.0/24"), V6: prefix("fd05:0:0:23::/64")}, MTU: 1450, IPMasq: true,
		},
		"FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.39.1/24\n" +
			"FLANNEL_IPV6_NETWORK=fd05::/48\nFLANNEL_IPV6_SUBNET=fd05:0:0:23::1/64\n" +
			"FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
	},
	{
		"IPv6 only",
		SubnetFile{IPv6Network: prefix("fd05::/48"), Subnets: lease.Subnets{V6: prefix("fd05:0:0:1::/64")}, MTU: 1430},
		"FLANNEL_IPV6_NETWORK=fd05::/48\nFLANNEL_IPV6_SUBNET=fd05:0:0:1::1/64\nFLANNEL_MTU=1430\nFLANNEL_IPMASQ=false\n",
	},
	{
		"subnet of four addresses",
		SubnetFile{Network: prefix("10.5.0.0/28"), Subnets: lease.Subnets{V4: prefix("10.5.0.12/30")}, MTU: 1472},
		"FLANNEL_NETWORK=10.5.0.0/28\nFLANNEL_SUBNET=10.5.0.13/30\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n",
	},
}

func TestSubnetFileIsFlannels(t *testing.T) {
	for _, test := range goldenSubnetFiles {
		t.Run(test.name, func(t *testing.T) {
			if got := string(test.file.Bytes()); got != test.want {
				t.Errorf("wrote\n%swant\n%s", got, test.want)
			}
			back, err := ParseSubnetFile([]byte(test.want))
			if err != nil {
				t.Fatal(err)
			}
			if back != test.file {
				t.Errorf("read back %+v, want %+v", back, test.file)
			}
		})
	}
}

func TestParseSubnetFile(t *testing.T) {
	const good = "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=false\n"
	want := SubnetFile{Network: prefix("10.5.0.0/16"), Subnets: lease.Subnets{V4: prefix("10.5.72.0/24")}, MTU: 1472}

	accepted := map[string]string{
		"as written":                   good,
		"other order":                  "FLANNEL_IPMASQ=false\nFLANNEL_MTU=1472\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_NETWORK=10.5.0.0/16\n",
		"without IPMASQ":               strings.Replace(good, "FLANNEL_IPMASQ=false\n", "", 1),
		"without last line end":        strings.TrimSuffix(good, "\n"),
		"carriage returns":             strings.ReplaceAll(good, "\n", "\r\n"),
		"unknown variables, comments":  "# FLANNEL_MTU=1\n\nDOCKER=x\nno sign\n" + good,
		"the last of repeated":         "FLANNEL_SUBNET=10.5.1.1/24\n" + good,
		"another address of the range": strings.Replace(good, "10.5.72.1", "10.5.72.200", 1),
	}
	for name, in := range accepted {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSubnetFile([]byte(in))
			if err != nil || got != want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}

	refused := map[string]string{
		"empty":                 "",
		"torn in a value":       good[:60],
		"torn before the MTU":   good[:57],
		"zeros":                 strings.Repeat("\x00", 200),
		"binary":                "\xff\xfe\x00FLANNEL",
		"no subnet":             strings.Replace(good, "FLANNEL_SUBNET", "SUBNET", 1),
		"no network":            strings.Replace(good, "FLANNEL_NETWORK", "NETWORK", 1),
		"no MTU":                strings.Replace(good, "FLANNEL_MTU", "MTU", 1),
		"subnet not a prefix":   strings.Replace(good, "10.5.72.1/24", "10.5.72.1", 1),
		"subnet out of network": strings.Replace(good, "10.5.72.1/24", "10.6.72.1/24", 1),
		"subnet over network":   strings.Replace(good, "10.5.72.1/24", "10.5.0.1/8", 1),
		"IPv6 for IPv4":         strings.Replace(good, "10.5.72.1/24", "fd05::1/64", 1),
		"IPv4 for IPv6":         good + "FLANNEL_IPV6_NETWORK=10.5.0.0/16\n",
		"mapped":                good + "FLANNEL_IPV6_NETWORK=::ffff:10.5.0.0/112\n",
		"prefix too long":       strings.Replace(good, "/24", "/33", 1),
		"MTU not a number":      strings.Replace(good, "1472", "1472; rm -rf /", 1),
		"MTU of nothing":        strings.Replace(good, "1472", "", 1),
		"MTU negative":          strings.Replace(good, "1472", "-1", 1),
		"MTU huge":              strings.Replace(good, "1472", "99999999999999999999", 1),
		"IPMASQ not a boolean":  strings.Replace(good, "false", "maybe", 1),
		"too long":              good + strings.Repeat("#\n", maxSubnetFile/2),
	}
	for name, in := range refused {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSubnetFile([]byte(in))
			if !errors.Is(err, ErrSubnetFile) {
				t.Errorf("got %+v, %v; want an error", got, err)
			}
		})
	}

	t.Run("message is bounded", func(t *testing.T) {
		_, err := ParseSubnetFile([]byte("FLANNEL_SUBNET=" + strings.Repeat("x", 60000)))
		if err == nil || len(err.Error()) > 200 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
	})
}

func FuzzParseSubnetFile(f *testing.F) {
	for _, g := range goldenSubnetFiles {
		f.Add([]byte(g.want))
		f.Add([]byte(g.want)[:len(g.want)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseSubnetFile(b)
		if err != nil {
			return
		}
		// What is accepted can be written and read again.
		back, err := ParseSubnetFile(got.Bytes())
		if err != nil {
			t.Fatalf("%+v as written does not parse: %v", got, err)
		}
		if back.Subnets != got.Subnets || back.MTU != got.MTU || back.IPMasq != got.IPMasq {
			t.Fatalf("%+v came back as %+v", got, back)
		}
	})
}

func TestWriteSubnetFile(t *testing.T) {
	old := unix.Umask(0o077) // must not matter
	t.Cleanup(func() { unix.Umask(old) })
	dir := filepath.Join(t.TempDir(), "run", "flannel")
	path := filepath.Join(dir, "subnet.env")

	for _, g := range goldenSubnetFiles { // over and over the same file
		if err := WriteSubnetFile(path, g.file); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) != g.want {
			t.Errorf("%s: file holds %q, %v", g.name, b, err)
		}
		if got, err := ReadSubnetFile(path); err != nil || got != g.file {
			t.Errorf("%s: read %+v, %v", g.name, got, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v; want 0644", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("in the folder: %v, %v; want the file only", entries, err)
	}
}

func TestSubnetFileFolderMode(t *testing.T) {
	old := unix.Umask(0o022)
	t.Cleanup(func() { unix.Umask(old) })
	dir := filepath.Join(t.TempDir(), "flannel")
	if err := WriteSubnetFile(filepath.Join(dir, "subnet.env"), goldenSubnetFiles[0].file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("folder's mode %v, %v; want 0755", info.Mode(), err)
	}
}

// A writer that was killed leaves a temporary file of any content and mode.
func TestWriteSubnetFileOverLeftovers(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	leftovers := map[string]func(tmp string) error{
		"file":    func(tmp string) error { return os.WriteFile(tmp, bytes.Repeat([]byte("x"), 4096), 0o400) },
		"symlink": func(tmp string) error { return os.Symlink(victim, tmp) },
		"FIFO":    func(tmp string) error { return unix.Mkfifo(tmp, 0o644) },
		"folder":  func(tmp string) error { return os.Mkdir(tmp, 0o755) },
	}
	for name, leave := range leftovers {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := leave(filepath.Join(dir, ".subnet.env.tmp")); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "subnet.env")
			if err := WriteSubnetFile(path, goldenSubnetFiles[0].file); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != goldenSubnetFiles[0].want {
				t.Errorf("file holds %q, %v", b, err)
			}
		})
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("the file behind the link holds %q, %v", b, err)
	}
}

func TestWriteSubnetFileFails(t *testing.T) {
	needRoot(t) // for a small tmpfs
	small := t.TempDir()
	if err := unix.Mount("flanx-test", small, "tmpfs", 0, "size=4k,nr_inodes=8"); err != nil {
		t.Skipf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small, 0) })
	path := filepath.Join(small, "subnet.env")
	if err := WriteSubnetFile(path, goldenSubnetFiles[0].file); err != nil {
		t.Fatal(err)
	}

	check := func(t *testing.T, path string, cause error, cure string) {
		t.Helper()
		err := WriteSubnetFile(path, goldenSubnetFiles[1].file)
		if !errors.Is(err, cause) {
			t.Fatalf("error %v, want %v", err, cause)
		}
		for _, s := range []string{path, cure, "-subnet-file"} {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("error %q does not say %q", err, s)
			}
		}
	}
	keepsOld := func(t *testing.T) {
		t.Helper()
		if b, err := os.ReadFile(path); err != nil || string(b) != goldenSubnetFiles[0].want {
			t.Errorf("old file holds %q, %v", b, err)
		}
		if _, err := os.Lstat(filepath.Join(small, ".subnet.env.tmp")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("temporary file: %v", err)
		}
	}

	t.Run("disk full", func(t *testing.T) {
		// One page is the file's already.
		check(t, path, unix.ENOSPC, "free some space")
		keepsOld(t)
	})
	t.Run("read-only", func(t *testing.T) {
		if err := unix.Mount("", small, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		check(t, path, unix.EROFS, "mount it writable")
		keepsOld(t)
	})
	t.Run("folder is a file", func(t *testing.T) {
		check(t, filepath.Join(path, "subnet.env"), unix.ENOTDIR, "remove what stands there")
	})
	t.Run("file is a folder", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "subnet.env")
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o755); err != nil {
			t.Fatal(err)
		}
		check(t, dir, unix.EEXIST, "remove what stands there")
	})
}

func TestReadSubnetFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadSubnetFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := ReadSubnetFile(dir); !errors.Is(err, ErrSubnetFile) {
		t.Errorf("folder: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSubnetFile(fifo); !errors.Is(err, ErrSubnetFile) {
		t.Errorf("FIFO: %v", err)
	}
	endless := filepath.Join(dir, "zero")
	if err := os.Symlink("/dev/zero", endless); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSubnetFile(endless); !errors.Is(err, ErrSubnetFile) {
		t.Errorf("/dev/zero: %v", err)
	}
	sparse := filepath.Join(dir, "sparse")
	if err := os.WriteFile(sparse, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSubnetFile(sparse); !errors.Is(err, ErrSubnetFile) {
		t.Errorf("a file of 1 TiB: %v", err)
	}
}

func TestPreviousSubnets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))

	if s := PreviousSubnets(path, logger); !s.IsZero() || log.Len() > 0 {
		t.Errorf("no file: %v, logged %q", s, &log)
	}
	if err := WriteSubnetFile(path, goldenSubnetFiles[2].file); err != nil {
		t.Fatal(err)
	}
	if s := PreviousSubnets(path, logger); s != goldenSubnetFiles[2].file.Subnets || log.Len() > 0 {
		t.Errorf("good file: %v, logged %q", s, &log)
	}
	if err := os.WriteFile(path, []byte("FLANNEL_SUBNET=10.5."), 0o644); err != nil {
		t.Fatal(err)
	}
	if s := PreviousSubnets(path, logger); !s.IsZero() {
		t.Errorf("torn file: %v", s)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), path) {
		t.Errorf("logged %q", &log)
	}
}

func ExampleWriteSubnetFile() {
	dir, err := os.MkdirTemp("", "flanx")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "subnet.env")
	err = WriteSubnetFile(path, SubnetFile{
		Network: prefix("10.5.0.0/16"),
		Subnets: lease.Subnets{V4: prefix("10.5.72.0/24")},
		MTU:     1450,
	})
	if err != nil {
		panic(err)
	}
	b, _ := os.ReadFile(path)
	fmt.Print(string(b))
	// Output:
	// FLANNEL_NETWORK=10.5.0.0/16
	// FLANNEL_SUBNET=10.5.72.1/24
	// FLANNEL_MTU=1450
	// FLANNEL_IPMASQ=false
}
