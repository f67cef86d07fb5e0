package xsk

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// A closed socket lets go of its queue in a work item of the kernel, some
// milliseconds later (xp_put_pool in net/xdp/xsk_buff_pool.c): binding retries.
const (
	bindPatience = 2 * time.Second
	bindInterval = 5 * time.Millisecond
)

// defaultTXBudget is what the kernel sends per call unless told otherwise
// (TX_BATCH_SIZE in net/xdp/xsk.c), and the least that it can be set to.
const defaultTXBudget = 32

// socket is the AF_XDP descriptor with its four rings mapped.
type socket struct {
	fd       int
	zerocopy bool // as granted, not as asked

	fill       producer[uint64]
	rx         consumer[unix.XDPDesc]
	tx         producer[unix.XDPDesc]
	completion consumer[uint64]

	mapped [][]byte
}

// opener makes a socket in steps. Tests set before, to fail each one in turn.
type opener struct {
	cfg    Config
	budget budget
	sizes  sizes
	pool   *packet.Pool
	before func(step string) error
}

func (o *opener) open() (*socket, error) {
	s := &socket{fd: -1}
	steps := []struct {
		name string
		do   func() error
	}{
		{"open AF_XDP socket", s.create},
		{"register packet memory", func() error { return s.registerUMEM(o.pool) }},
		{"size AF_XDP rings", func() error { return s.sizeRings(o.sizes) }},
		{"map AF_XDP rings", func() error { return s.mapRings(o.sizes) }},
		{"tune AF_XDP socket", func() error { return s.tune(o.budget, o.sizes, o.pool.FrameSize()) }},
		{"bind AF_XDP socket", func() error { return s.bind(o.cfg) }},
		{"read granted AF_XDP mode", s.readMode},
	}
	for _, step := range steps {
		err := o.fail(step.name)
		if err == nil {
			err = step.do()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", step.name, err), s.close())
		}
	}
	return s, nil
}

func (o *opener) fail(step string) error {
	if o.before == nil {
		return nil
	}
	return o.before(step)
}

func (s *socket) create() error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: needs CAP_NET_RAW", err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("%w: %w: the kernel is built without CONFIG_XDP_SOCKETS", ErrNotSupported, err)
	case err != nil:
		return err
	}
	s.fd = fd
	return nil
}

func (s *socket) sizeRings(n sizes) error {
	for _, r := range []struct {
		opt   int
		slots uint32
	}{
		{unix.XDP_UMEM_FILL_RING, n.fill},
		{unix.XDP_UMEM_COMPLETION_RING, n.completion},
		{unix.XDP_RX_RING, n.rx},
		{unix.XDP_TX_RING, n.tx},
	} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, r.opt, int(r.slots)); err != nil {
			return fmt.Errorf("%d slots: %w", r.slots, err)
		}
	}
	return nil
}

func (s *socket) mapRings(n sizes) error {
	off, err := mmapOffsets(s.fd)
	if err != nil {
		return err
	}
	if s.fill.ring, err = mapProducer[uint64](s, unix.XDP_UMEM_PGOFF_FILL_RING, n.fill, off.Fr); err != nil {
		return err
	}
	if s.completion.ring, err = mapConsumer[uint64](s, unix.XDP_UMEM_PGOFF_COMPLETION_RING, n.completion, off.Cr); err != nil {
		return err
	}
	if s.rx.ring, err = mapConsumer[unix.XDPDesc](s, unix.XDP_PGOFF_RX_RING, n.rx, off.Rx); err != nil {
		return err
	}
	s.tx.ring, err = mapProducer[unix.XDPDesc](s, unix.XDP_PGOFF_TX_RING, n.tx, off.Tx)
	return err
}

func mapProducer[T any](s *socket, pgoff int64, slots uint32, off unix.XDPRingOffset) (ring[T], error) {
	mem, r, err := mapRing[T](s.fd, pgoff, slots, off.Producer, off.Consumer, off.Flags, off.Desc)
	return r, s.keep(mem, err)
}

func mapConsumer[T any](s *socket, pgoff int64, slots uint32, off unix.XDPRingOffset) (ring[T], error) {
	mem, r, err := mapRing[T](s.fd, pgoff, slots, off.Consumer, off.Producer, off.Flags, off.Desc)
	return r, s.keep(mem, err)
}

func (s *socket) keep(mem []byte, err error) error {
	if err == nil {
		s.mapped = append(s.mapped, mem)
	}
	return err
}

// tune lifts two limits on copy-mode sending that need fewer, longer calls.
// Both may be refused (an older kernel, no CAP_NET_ADMIN): then the kernel
// says EAGAIN earlier and the port calls again.
func (s *socket) tune(b budget, n sizes, frameSize int) error {
	if n.tx >= defaultTXBudget {
		// XDP_MAX_TX_SKB_BUDGET: frames per call, new in Linux 6.18.
		_ = unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, int(n.tx))
	}
	// Copies in flight are charged to the send buffer, like any socket's. The
	// kernel doubles the value for its own overhead (socket(7)).
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, b.tx*frameSize); err != nil {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, b.tx*frameSize)
	}
	return nil
}

func (s *socket) bind(cfg Config) error {
	addr := &unix.SockaddrXDP{
		Flags:   unix.XDP_USE_NEED_WAKEUP | cfg.Mode.flag(),
		Ifindex: uint32(cfg.IfIndex),
		QueueID: uint32(cfg.Queue),
	}
	err := unix.Bind(s.fd, addr)
	for start := time.Now(); errors.Is(err, unix.EBUSY) && time.Since(start) < bindPatience; {
		time.Sleep(bindInterval)
		err = unix.Bind(s.fd, addr)
	}
	return bindError(cfg, err)
}

// bindError says what an errno of bind means here; xsk_bind and xp_assign_dev
// in net/xdp are the source.
func bindError(cfg Config, err error) error {
	where := fmt.Sprintf("queue %d of interface %d", cfg.Queue, cfg.IfIndex)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w (%w)", where, ErrQueueBusy, err)
	case errors.Is(err, unix.EOPNOTSUPP) && cfg.Mode == ZeroCopy:
		return fmt.Errorf("%s: %w: the driver offers no zero-copy (%w)", where, ErrNotSupported, err)
	case errors.Is(err, unix.EINVAL) && cfg.Mode == ZeroCopy:
		return fmt.Errorf("%s: %w: no such queue, or the MTU does not fit a frame, or the driver refuses zero-copy", where, err)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%s: %w: no such queue", where, err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%s: %w: no such interface", where, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

func (s *socket) readMode() error {
	flags, err := unix.GetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_OPTIONS)
	s.zerocopy = flags&unix.XDP_OPTIONS_ZEROCOPY != 0
	return err
}

// close unmaps the rings and closes the descriptor. It may be called on a
// socket that open left half made, and twice.
func (s *socket) close() error {
	var errs []error
	for _, mem := range s.mapped {
		errs = append(errs, unix.Munmap(mem))
	}
	s.mapped = nil
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
		s.fd = -1
	}
	return errors.Join(errs...)
}
