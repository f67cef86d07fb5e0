package xdpprog

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// DefaultQueues is how many queues a Program has room for unless told
// otherwise: more than a device has today, as drivers may change the number
// when a program is attached. A slot is a pointer.
const DefaultQueues = 256

// maxMaxFrame is as far as the verifier lets a program look into a packet, less
// one (MAX_PACKET_OFF in kernel/bpf/verifier.c).
const maxMaxFrame = 0xffff - 1

// Config says which packets are ours. At least one address is needed.
type Config struct {
	IPv4 netip.Addr // our IPv4 address on the underlay, or the zero Addr
	IPv6 netip.Addr // our IPv6 address on the underlay, or the zero Addr
	Port uint16     // the tunnel's UDP port, in host order

	// MaxFrame is the longest frame, in bytes with its Ethernet header, that is
	// redirected: what fits a frame of the UMEM behind the headroom. Longer ones
	// pass, for the kernel would drop them after the redirect. 0: no limit.
	MaxFrame int
	// Queues is how many queues can be registered. 0 means DefaultQueues.
	Queues int
}

func (c Config) check() error {
	switch {
	case !c.IPv4.IsValid() && !c.IPv6.IsValid():
		return fmt.Errorf("%w: no address", ErrConfig)
	case c.IPv4.IsValid() && !c.IPv4.Is4():
		return fmt.Errorf("%w: %s is no IPv4 address", ErrConfig, c.IPv4)
	case c.IPv6.IsValid() && (!c.IPv6.Is6() || c.IPv6.Is4In6()):
		return fmt.Errorf("%w: %s is no IPv6 address", ErrConfig, c.IPv6)
	case c.Port == 0:
		return fmt.Errorf("%w: no port", ErrConfig)
	case c.MaxFrame < 0 || c.MaxFrame > maxMaxFrame || c.Queues < 0:
		return fmt.Errorf("%w: longest frame %d, %d queues", ErrConfig, c.MaxFrame, c.Queues)
	}
	return nil
}

// Program is the filter in the kernel with its map of sockets.
type Program struct {
	prog *ebpf.Program
	xsks *ebpf.Map
}

// Load puts the filter into the kernel. It is attached nowhere yet. On error
// nothing is left behind.
func Load(cfg Config) (*Program, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Queues == 0 {
		cfg.Queues = DefaultQueues
	}
	// Until Linux 5.11 maps and programs count against RLIMIT_MEMLOCK; where
	// they do not, this changes nothing. If it fails, the next step says so.
	limitErr := rlimit.RemoveMemlock()
	xsks, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "flanx_xsks", Type: ebpf.XSKMap,
		KeySize: 4, ValueSize: 4, MaxEntries: uint32(cfg.Queues),
	})
	if err != nil {
		return nil, fmt.Errorf("create XSK map: %w", explain(err, limitErr))
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "flanx_filter", Type: ebpf.XDP,
		Instructions: assemble(cfg, xsks.FD()),
		License:      "Apache-2.0", // no GPL-only helper is called
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load XDP program: %w", explain(err, limitErr)), xsks.Close())
	}
	return &Program{prog: prog, xsks: xsks}, nil
}

// explain adds what to do about an error of the bpf system call.
func explain(err, limitErr error) error {
	switch {
	case errors.Is(err, unix.EPERM) && limitErr != nil:
		return fmt.Errorf("%w: needs CAP_BPF and CAP_NET_ADMIN, and RLIMIT_MEMLOCK lifted: %w", err, limitErr)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: needs CAP_BPF and CAP_NET_ADMIN (or CAP_SYS_ADMIN), and on Linux before 5.11 RLIMIT_MEMLOCK lifted (ulimit -l, LimitMEMLOCK=)", err)
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("%w: the memory limit (cgroup, or RLIMIT_MEMLOCK) is too low", err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: %w: the kernel is built without CONFIG_BPF_SYSCALL", ErrNotSupported, err)
	}
	return err
}

// Register enters an AF_XDP socket for the packets of one queue. The kernel
// takes it out again when the socket is closed.
func (p *Program) Register(queue, fd int) error {
	if err := p.xsks.Put(uint32(queue), uint32(fd)); err != nil {
		return fmt.Errorf("register AF_XDP socket for queue %d: %w", queue, err)
	}
	return nil
}

// Unregister takes the socket of a queue out: its packets pass from now on. A
// queue without a socket is no error.
func (p *Program) Unregister(queue int) error {
	if err := p.xsks.Delete(uint32(queue)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("unregister AF_XDP socket of queue %d: %w", queue, err)
	}
	return nil
}

// Close gives the program and the map back. Where it is still attached it stays
// so until the Attachment is closed too.
func (p *Program) Close() error {
	return errors.Join(p.prog.Close(), p.xsks.Close())
}
