package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// explainTUNOpen says what to do when the clone device cannot be opened.
func explainTUNOpen(path string, err error) error {
	cure := ""
	switch {
	case errors.Is(err, unix.ENOENT):
		cure = ": load the driver (modprobe tun), or pass the device into the container (--device " + path + ")"
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		cure = ": the kernel has no TUN driver loaded (modprobe tun)"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		cure = ": run as root, or allow the device and CAP_NET_ADMIN"
	}
	return fmt.Errorf("open %s: %w%s", path, explainLimit(err), cure)
}

// explainTUNAttach says what to do when TUNSETIFF fails (tun_set_iff in
// drivers/net/tun.c).
func explainTUNAttach(name string, cfg TUNConfig, err error) error {
	cure := ""
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		cure = ": CAP_NET_ADMIN is needed"
	case errors.Is(err, unix.EBUSY):
		cure = ": " + tunHolder("/proc", name)
	case errors.Is(err, unix.EINVAL):
		cure = fmt.Sprintf(": a device of that name exists that is no TUN with %d queue(s); "+
			"remove it (ip link del %s) or choose another name", cfg.Queues, name)
	case errors.Is(err, unix.E2BIG):
		cure = ": other programs hold queues of this device"
	}
	return fmt.Errorf("attach to TUN %s: %w%s", name, err, cure)
}

// explainLimit names the limit behind an error about descriptors.
func explainLimit(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("%w: raise the process's limit (ulimit -n, LimitNOFILE=)", err)
	case errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: raise the machine's limit (sysctl fs.file-max)", err)
	}
	return err
}

// tunHolder says who holds a TUN device: the kernel shows its name in the
// fdinfo of each descriptor (tun_chr_show_fdinfo in drivers/net/tun.c). Every
// network namespace may have a device of that name, so a process in ours comes
// first.
func tunHolder(proc, name string) string {
	const inside = "ns/net"
	here, _ := os.Readlink(filepath.Join(proc, "thread-self", inside))
	who := "another process"
	infos, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fdinfo", "*"))
	for _, path := range infos {
		info, err := os.ReadFile(path) // gone again, or not ours to read: not the one
		if err != nil || !isTUNInfo(info, name) {
			continue
		}
		dir := filepath.Dir(filepath.Dir(path))
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		who = fmt.Sprintf("process %s (%s)", filepath.Base(dir), strings.TrimSpace(string(comm)))
		if there, err := os.Readlink(filepath.Join(dir, inside)); err == nil && there == here {
			break
		}
	}
	return "in use by " + who
}

// isTUNInfo says whether an fdinfo has the line "iff:\tname".
func isTUNInfo(info []byte, name string) bool {
	for line := range bytes.Lines(info) {
		if value, ok := bytes.CutPrefix(line, []byte("iff:")); ok {
			return string(bytes.TrimSpace(value)) == name
		}
	}
	return false
}
