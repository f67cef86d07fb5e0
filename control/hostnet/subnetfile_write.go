package hostnet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteSubnetFile writes subnet.env, mode 0644, so that readers see the old
// file or the new one and never part of it, also after a crash: a temporary file
// beside it, synced, renamed over it, and the folder synced. The folder is made,
// mode 0755, if need be. On failure the old file stands as it was (but for a
// failure to sync the folder, when the new one may); the error names the file
// and the cure.
//
// The temporary file has one fixed name, so that an instance that is killed
// leaves at most one; [TakeLock] keeps others from writing it meanwhile.
func WriteSubnetFile(path string, f SubnetFile) error {
	if err := writeAtomic(path, f.Bytes()); err != nil {
		return fmt.Errorf("write subnet file %s: %w", path, explainFile(err))
	}
	return nil
}

func writeAtomic(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
	if err := writeSynced(tmp, content); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	return syncDir(filepath.Dir(path))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// writeSynced makes a new file. What has the name already is removed first, so
// that neither a link is followed nor a file's old mode kept.
func writeSynced(path string, content []byte) (err error) {
	if err := removeIfThere(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(0o644); err != nil { // whatever the umask
		return err
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems cannot
		return err
	}
	return nil
}
