package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// boot makes a bare kernel into something that programs run on.
func boot() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"devtmpfs", "/dev"},
		{"tmpfs", "/run"},
		{"tmpfs", "/tmp"},
		{"bpf", "/sys/fs/bpf"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil && m.kind != "bpf" {
			return fmt.Errorf("make %s: %w", m.at, err)
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) && m.kind != "bpf" {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return loadModules("/mod")
}

// loadModules loads what lies in a folder. Modules need others, so what fails is
// tried again while that helps.
func loadModules(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return err
	}
	for {
		var failed []string
		var why error
		for _, path := range left {
			if err := loadModule(path); err != nil {
				failed = append(failed, path)
				why = fmt.Errorf("load %s: %w", path, err)
			}
		}
		if len(failed) == 0 {
			time.Sleep(time.Second) // devices appear behind their drivers
			return nil
		}
		if len(failed) == len(left) {
			return why
		}
		left = failed
	}
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// powerOff ends the guest.
func powerOff() {
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
