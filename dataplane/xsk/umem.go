package xsk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// registerUMEM makes the pool's slab the socket's packet memory. No headroom is
// asked for: the kernel leaves XDP_PACKET_HEADROOM anyway, so that received
// packets start at packet.Headroom.
func (s *socket) registerUMEM(pool *packet.Pool) error {
	slab := pool.Slab()
	err := setUMEM(s.fd, slab, uint32(pool.FrameSize()))
	switch {
	case errors.Is(err, unix.ENOBUFS):
		// xdp_umem_account_pages in net/xdp/xdp_umem.c
		return fmt.Errorf("%w: %d KiB of packet memory against RLIMIT_MEMLOCK of %s; raise the limit (ulimit -l, LimitMEMLOCK=) or grant CAP_IPC_LOCK",
			err, len(slab)>>10, memlockLimit())
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: %w: frames of %d bytes (the kernel takes 2048 to the page size)", ErrConfig, err, pool.FrameSize())
	}
	return err
}

func memlockLimit() string {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim); err != nil {
		return "unknown size"
	}
	return fmt.Sprintf("%d KiB", lim.Cur>>10)
}
