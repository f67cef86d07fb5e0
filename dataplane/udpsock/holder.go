package udpsock

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// explainBind says what to do when bind fails.
func explainBind(local netip.AddrPort, err error) error {
	cure := ""
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		cure = ": " + holder("/proc", local.Port())
	case errors.Is(err, unix.EADDRNOTAVAIL):
		cure = ": no interface has this address"
	case errors.Is(err, unix.EACCES):
		cure = ": ports below 1024 need CAP_NET_BIND_SERVICE"
	}
	return fmt.Errorf("bind UDP %v: %w%s", local, err, cure)
}

// holder says who has a UDP port. A socket that no process shows is the
// kernel's own: a VXLAN device opens one that outlives whoever made the device.
func holder(proc string, port uint16) string {
	inodes := socketsOn(proc, port)
	if len(inodes) == 0 {
		return "it was free a moment later; try again"
	}
	links, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	for _, link := range links {
		target, err := os.Readlink(link) // gone again, or not ours to see: not the one
		if err != nil || !inodes[target] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		return fmt.Sprintf("process %s (%s) holds the port", filepath.Base(dir), strings.TrimSpace(string(comm)))
	}
	return fmt.Sprintf("no process shows that it holds UDP %d, so a tunnel device of the kernel likely does, "+
		"such as a leftover flannel.1: ip link del flannel.1", port)
}

// socketsOn returns the sockets bound to a UDP port in this namespace, in the
// form that /proc/<pid>/fd shows them (proc_pid_fd(5), proc_pid_net(5)).
func socketsOn(proc string, port uint16) map[string]bool {
	inodes := make(map[string]bool)
	for _, table := range []string{"udp", "udp6"} {
		data, err := os.ReadFile(filepath.Join(proc, "thread-self", "net", table))
		if err != nil {
			continue
		}
		for line := range bytes.Lines(data) {
			if inode, ok := socketOn(string(line), port); ok {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	return inodes
}

// socketOn returns the inode of one line of the table if it is on the port:
//
//	sl  local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …
func socketOn(line string, port uint16) (inode string, ok bool) {
	words := strings.Fields(line)
	if len(words) < 10 {
		return "", false
	}
	_, hexPort, ok := strings.Cut(words[1], ":")
	if !ok {
		return "", false
	}
	n, err := strconv.ParseUint(hexPort, 16, 16)
	return words[9], err == nil && uint16(n) == port
}
