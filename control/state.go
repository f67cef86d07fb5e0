package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"flanx/control/lease"

	"golang.org/x/sys/unix"
)

const (
	stateVersion = 1
	maxStateFile = 32 << 20 // bytes; 65536 leases need about 20 MiB
)

// state is the last known cluster, as kept on disk between runs.
type state struct {
	Version int                 `json:"version"`
	Origin  string              `json:"origin"` // which store and prefix it tells about
	Saved   time.Time           `json:"saved"`
	Config  lease.NetworkConfig `json:"-"`
	Own     lease.Lease         `json:"-"`
	Peers   []lease.Lease       `json:"-"`
}

// stateJSON is state with the parts that need checks still raw.
type stateJSON struct {
	state
	RawConfig json.RawMessage `json:"config"`
	OwnEntry  *stateEntry     `json:"own,omitempty"`
	Entries   []stateEntry    `json:"peers"`
}

type stateEntry struct {
	IPv4     netip.Prefix    `json:"ipv4,omitzero"`
	IPv6     netip.Prefix    `json:"ipv6,omitzero"`
	Attrs    json.RawMessage `json:"attrs"`
	ID       int64           `json:"id,omitzero"`
	Revision int64           `json:"revision"`
	Reserved bool            `json:"reserved,omitzero"`
}

// saveState replaces the file in one step, readable by its owner only.
func saveState(path string, s state) (err error) {
	out := stateJSON{state: s, Entries: []stateEntry{}}
	if out.RawConfig, err = json.Marshal(s.Config); err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if !s.Own.Subnets.IsZero() {
		own, err := toEntry(s.Own)
		if err != nil {
			return fmt.Errorf("encode state: %w", err)
		}
		out.OwnEntry = &own
	}
	for _, l := range s.Peers {
		e, err := toEntry(l)
		if err != nil {
			return fmt.Errorf("encode state: %w", err)
		}
		out.Entries = append(out.Entries, e)
	}
	data, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	return replaceFile(path, append(data, '\n'))
}

func toEntry(l lease.Lease) (stateEntry, error) {
	attrs, err := json.Marshal(l.Attrs)
	return stateEntry{l.Subnets.V4, l.Subnets.V6, attrs, l.ID, l.Revision, l.Reserved}, err
}

// replaceFile writes beside the file and renames, so that a reader sees the old
// or the new whole, and a full disk leaves the old one.
func replaceFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("create state file beside %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	if err = f.Sync(); err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	if err = f.Close(); err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("replace state file: %w", err)
	}
	return nil
}

// loadState reads what saveState wrote. A missing file is fs.ErrNotExist. The
// content decides where packets go, so it is trusted only from a file that
// nobody else could have written, and then checked like a store's.
func loadState(path, origin string) (state, error) {
	data, err := readOwnFile(path)
	if err != nil {
		return state{}, err
	}
	var in stateJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return state{}, fmt.Errorf("read state file %s: %w", path, err)
	}
	if in.Version != stateVersion {
		return state{}, fmt.Errorf("state file %s has version %d, not %d", path, in.Version, stateVersion)
	}
	if in.Origin != origin {
		return state{}, fmt.Errorf("state file %s is about %q, not %q", path, in.Origin, origin)
	}
	s := in.state
	if s.Config, err = lease.ParseConfig(in.RawConfig); err != nil {
		return state{}, fmt.Errorf("state file %s: %w", path, err)
	}
	if in.OwnEntry != nil {
		if s.Own, err = in.OwnEntry.lease(); err == nil {
			err = s.Config.Fits(s.Own.Subnets)
		}
		if err != nil {
			return state{}, fmt.Errorf("state file %s: our own lease: %w", path, err)
		}
	}
	for _, e := range in.Entries {
		l, err := e.lease()
		if err != nil {
			return state{}, fmt.Errorf("state file %s: peer %s: %w", path, l.Subnets, err)
		}
		s.Peers = append(s.Peers, l)
	}
	return s, nil
}

func (e stateEntry) lease() (lease.Lease, error) {
	l := lease.Lease{
		Subnets: lease.Subnets{V4: e.IPv4, V6: e.IPv6},
		ID:      e.ID, Revision: e.Revision, Reserved: e.Reserved,
	}
	switch {
	case l.Subnets.IsZero():
		return l, errors.New("it has no subnet")
	case e.IPv4.IsValid() && (!e.IPv4.Addr().Is4() || e.IPv4 != e.IPv4.Masked()),
		e.IPv6.IsValid() && (!e.IPv6.Addr().Is6() || e.IPv6.Addr().Is4In6() || e.IPv6 != e.IPv6.Masked()):
		return l, errors.New("its subnets are malformed")
	}
	var err error
	l.Attrs, err = lease.ParseAttrs(e.Attrs)
	return l, err
}

// readOwnFile reads a regular file that belongs to us or root and that only its
// owner can write, without following a symbolic link.
func readOwnFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open state file: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("stat state file %s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("state file %s is not a regular file", path)
	case fs.FileMode(st.Mode)&0o022 != 0:
		return nil, fmt.Errorf("state file %s can be written by others: chmod go-w it or remove it", path)
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return nil, fmt.Errorf("state file %s belongs to user %d: remove it", path, st.Uid)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxStateFile+1))
	if err != nil {
		return nil, fmt.Errorf("read state file %s: %w", path, err)
	}
	if len(data) > maxStateFile {
		return nil, fmt.Errorf("state file %s is larger than %d bytes: remove it", path, maxStateFile)
	}
	return data, nil
}
