package host

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// tunPath is the clone device of Documentation/networking/tuntap.rst.
const tunPath = "/dev/net/tun"

// maxTUNQueues is MAX_TAP_QUEUES of drivers/net/tun.c.
const maxTUNQueues = 256

// VnetHeaderLen is the size in bytes of the struct virtio_net_hdr that stands
// before each packet on a queue opened with TUNConfig.Offload.
const VnetHeaderLen = 10

// ErrTUNConfig says that a TUN was asked for that no kernel can give.
var ErrTUNConfig = errors.New("invalid TUN configuration")

// TUNConfig describes a TUN device. If one of the name exists and nobody holds
// it, OpenTUN attaches to that.
type TUNConfig struct {
	// Name is the interface's name, 1 to 15 bytes. A %d in it stands for the
	// first free number.
	Name string
	// MTU in bytes; 0 leaves it as it is (1500 on a new device).
	MTU int
	// Queues is how many descriptors to open, at most 256; 0 means 1. The kernel
	// spreads flows over them.
	Queues int
	// Offload puts a struct virtio_net_hdr before every packet on the queues,
	// and lets the kernel hand over packets without checksums and runs of one
	// flow as one packet of up to 64 KiB.
	Offload bool
	// Persist keeps the device when the last descriptor is closed.
	Persist bool
}

// TUN is an open TUN device: its queues, each a non-blocking descriptor that
// reads and writes one IP packet per call, without the packet information header.
type TUN struct {
	Name     string
	Index    int
	Offloads int // the TUN_F_ bits in force (linux/if_tun.h); 0 without Offload

	queues []int // -1 where taken
}

// OpenTUN makes a TUN device, or attaches to an idle one, in the network
// namespace of the calling thread. It does not set it up or give it addresses.
// Needs CAP_NET_ADMIN. A new device disappears with its last descriptor, also
// when the process is killed, unless it persists.
func OpenTUN(cfg TUNConfig) (*TUN, error) { return openTUN(tunPath, cfg) }

func openTUN(path string, cfg TUNConfig) (*TUN, error) {
	if cfg.Queues == 0 {
		cfg.Queues = 1
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	t := &TUN{Name: cfg.Name}
	for range cfg.Queues {
		if err := t.addQueue(path, cfg); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	if err := t.configure(cfg); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (cfg TUNConfig) check() error {
	switch {
	case cfg.Name == "" || len(cfg.Name) >= unix.IFNAMSIZ || strings.ContainsAny(cfg.Name, "/ \x00"):
		return fmt.Errorf("%w: name %q, want 1 to 15 bytes without space or slash", ErrTUNConfig, cfg.Name)
	case cfg.Queues < 0 || cfg.Queues > maxTUNQueues:
		return fmt.Errorf("%w: %d queues, want 1 to %d", ErrTUNConfig, cfg.Queues, maxTUNQueues)
	case cfg.MTU != 0 && (cfg.MTU < 68 || cfg.MTU > 65535): // tun_net_init in drivers/net/tun.c
		return fmt.Errorf("%w: MTU %d, want 68 to 65535", ErrTUNConfig, cfg.MTU)
	}
	return nil
}

// flags returns the flags for TUNSETIFF. All queues of a device have the same.
func (cfg TUNConfig) flags() uint16 {
	flags := unix.IFF_TUN | unix.IFF_NO_PI
	if cfg.Queues > 1 {
		flags |= unix.IFF_MULTI_QUEUE
	}
	if cfg.Offload {
		flags |= unix.IFF_VNET_HDR
	}
	return uint16(flags)
}

// addQueue opens one more descriptor and attaches it to the device, which the
// first one makes. It is not given to Go's poller: the workers poll it, and
// before TUNSETIFF it could not be polled at all.
func (t *TUN) addQueue(path string, cfg TUNConfig) error {
	fd, err := openRetry(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		return explainTUNOpen(path, err)
	}
	t.queues = append(t.queues, fd)
	req, err := unix.NewIfreq(t.Name)
	if err != nil {
		return fmt.Errorf("%w: name %q: %w", ErrTUNConfig, t.Name, err)
	}
	req.SetUint16(cfg.flags())
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return explainTUNAttach(t.Name, cfg, err)
	}
	t.Name = req.Name() // with %d filled in
	return nil
}

func openRetry(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// configure sets what belongs to the device, not to a queue.
func (t *TUN) configure(cfg TUNConfig) error {
	if err := t.setOffloads(cfg.Offload); err != nil {
		return err
	}
	if err := t.setLink(cfg.MTU); err != nil {
		return err
	}
	if !cfg.Persist {
		return nil
	}
	if err := unix.IoctlSetInt(t.queues[0], unix.TUNSETPERSIST, 1); err != nil {
		return fmt.Errorf("make TUN %s persist: %w", t.Name, err)
	}
	return nil
}

// setOffloads tells the kernel what it may leave to us. It is also told when
// that is nothing: a device we attached to may have been used otherwise.
func (t *TUN) setOffloads(on bool) error {
	fd := t.queues[0]
	if !on {
		if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, 0); err != nil {
			return fmt.Errorf("turn offloads of TUN %s off: %w", t.Name, err)
		}
		return nil
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, VnetHeaderLen); err != nil {
		return fmt.Errorf("set header size of TUN %s: %w", t.Name, err)
	}
	const tcp = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN
	const udp = unix.TUN_F_USO4 | unix.TUN_F_USO6 // since Linux 6.2
	var err error
	for _, offloads := range []int{tcp | udp, tcp} {
		if err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads); err == nil {
			t.Offloads = offloads
			return nil
		}
	}
	return fmt.Errorf("turn offloads of TUN %s on: %w: open it without", t.Name, err)
}

// setLink sets the MTU, if one is given, and learns the index (netdevice(7)).
func (t *TUN) setLink(mtu int) (err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open control socket for TUN %s: %w", t.Name, explainLimit(err))
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	req, err := unix.NewIfreq(t.Name)
	if err != nil {
		return fmt.Errorf("%w: name %q: %w", ErrTUNConfig, t.Name, err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, req); err != nil {
		return fmt.Errorf("find index of TUN %s: %w", t.Name, err)
	}
	t.Index = int(req.Uint32())
	if mtu == 0 {
		return nil
	}
	req.SetUint32(uint32(mtu))
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFMTU, req); err != nil {
		return fmt.Errorf("set MTU of TUN %s to %d: %w", t.Name, mtu, err)
	}
	return nil
}

// Queues returns the number of queues, taken or not.
func (t *TUN) Queues() int { return len(t.queues) }

// Take hands the i-th queue's descriptor to the caller, who closes it. Each can
// be taken once.
func (t *TUN) Take(i int) (fd int) {
	fd = t.queues[i]
	if fd < 0 {
		panic("host: TUN queue taken twice")
	}
	t.queues[i] = -1
	return fd
}

// Close closes the queues that nobody took. It may be called more than once.
func (t *TUN) Close() error {
	var errs []error
	for i, fd := range t.queues {
		if fd < 0 {
			continue
		}
		t.queues[i] = -1
		if err := unix.Close(fd); err != nil {
			errs = append(errs, fmt.Errorf("close queue %d of TUN %s: %w", i, t.Name, err))
		}
	}
	return errors.Join(errs...)
}
