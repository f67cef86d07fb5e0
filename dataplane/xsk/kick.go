package xsk

import (
	"fmt"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// sendto and recvfrom on an AF_XDP socket carry no data: they make the kernel
// work its rings (Documentation/networking/af_xdp.rst). With MSG_DONTWAIT they
// do not sleep, so the scheduler need not know.

func kickTX(fd int) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

func kickRX(fd int) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// kick makes the kernel send what is in the TX ring.
func (p *Port) kick() error {
	if p.zerocopy {
		return p.wakeTX()
	}
	return p.drainTX()
}

// drainTX calls the kernel until the TX ring is empty, or nothing moves. Each
// call sends a bounded number of frames and says EAGAIN when some are left, and
// also when the completion ring or the send buffer is full or the device's
// queue stopped; EBUSY when the device dropped one. All of that means: go on.
// Progress is seen in either ring, for the kernel does not publish its TX index
// when a call ends with a dropped frame.
func (p *Port) drainTX() error {
	for stalls := 0; stalls < maxStalls; {
		left := p.tx.pending()
		if left == 0 {
			p.unsent, p.down = false, false
			return nil
		}
		if err := p.kickOnce(); err != nil || p.down {
			return err
		}
		if p.reclaim() == 0 && p.tx.pending() == left {
			stalls++
		} else {
			stalls = 0
		}
	}
	p.counters.Stalls++
	p.unsent = true
	return nil
}

// wakeTX tells a sleeping driver that there is something to send; it goes on by
// itself from there.
func (p *Port) wakeTX() error {
	if !p.unsent && !p.down && !p.tx.needWakeup() {
		return nil
	}
	for range maxStalls {
		p.unsent = false
		if err := p.kickOnce(); err != nil || p.down || !p.unsent {
			return err
		}
	}
	p.counters.Stalls++
	return nil
}

// kickOnce calls the kernel once. It sets unsent when the kernel asks to be
// called again, and down when the link is.
func (p *Port) kickOnce() error {
	p.counters.Kicks++
	errno := kickTX(p.fd)
	p.down = errno == unix.ENETDOWN
	switch errno {
	case 0, unix.ENETDOWN:
	case unix.EBUSY:
		if !p.zerocopy {
			p.counters.DeviceDrops++
		}
		p.unsent = true
	case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM, unix.EINTR:
		p.unsent = true
	default:
		return p.fail("send", errno)
	}
	return nil
}

// wakeRX tells a sleeping driver that the fill ring has frames, and finds out
// whether the socket is still bound.
func (p *Port) wakeRX() error {
	p.counters.Wakeups++
	switch errno := kickRX(p.fd); errno {
	case 0, unix.ENETDOWN, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.ENOMEM, unix.EINTR:
		return nil
	default:
		return p.fail("receive", errno)
	}
}

// fail marks the port as broken. ENXIO is how the kernel says that the
// interface was deleted and the socket unbound.
func (p *Port) fail(op string, errno unix.Errno) error {
	switch errno {
	case unix.ENXIO, unix.EBADF, unix.ENODEV:
		p.gone = fmt.Errorf("%s on queue %d of interface %d: %w (%w)", op, p.cfg.Queue, p.cfg.IfIndex, packet.ErrPortGone, errno)
	default:
		p.gone = fmt.Errorf("%s on queue %d of interface %d: %w", op, p.cfg.Queue, p.cfg.IfIndex, errno)
	}
	return p.gone
}
