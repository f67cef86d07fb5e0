package xdpprog

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Mode says where in the receive path the program runs.
type Mode uint8

// The modes. There is no automatic one: the caller must know what it got.
const (
	// Native runs the program in the driver.
	Native Mode = iota
	// Generic runs it in the network stack, on any device, after the kernel
	// has made a socket buffer of the packet.
	Generic
)

// String returns the mode's name as it stands in messages.
func (m Mode) String() string {
	switch m {
	case Native:
		return "native"
	case Generic:
		return "generic"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

func (m Mode) flags() link.XDPAttachFlags {
	if m == Generic {
		return link.XDPGenericMode
	}
	return link.XDPDriverMode
}

// Attachment is a Program hooked to an interface, for as long as it is open or
// the process lives.
type Attachment struct {
	link    link.Link
	ifindex int
}

// Attach hooks the program to an interface of the calling thread's network
// namespace. It evicts nothing: ErrForeignProgram says that the place is taken.
func (p *Program) Attach(ifindex int, mode Mode) (*Attachment, error) {
	ifi, err := net.InterfaceByIndex(ifindex)
	if err != nil {
		return nil, fmt.Errorf("attach XDP program to interface %d: %w: %w", ifindex, unix.ENODEV, err)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p.prog, Interface: ifindex, Flags: mode.flags()})
	if err != nil {
		return nil, fmt.Errorf("attach XDP program to %s in %s mode: %w", ifi.Name, mode, attachError(err, ifi.MTU))
	}
	return &Attachment{link: l, ifindex: ifindex}, nil
}

// attachError says what an errno of attaching means (dev_xdp_attach in
// net/core/dev.c). The kernel gives its text only to netlink, not to bpf_link.
func attachError(err error, mtu int) error {
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%w, and stays there (%w)", ErrForeignProgram, err)
	case errors.Is(err, unix.ERANGE), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EMSGSIZE):
		return fmt.Errorf("%w: %w: MTU %d is more than the driver can give an XDP program, or it refuses for another reason of its set-up",
			ErrNotSupported, err, mtu)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %w: the driver cannot, or not as it is set up", ErrNotSupported, err)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: %w: the driver lacks queues or memory for XDP", ErrNotSupported, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: needs CAP_BPF and CAP_NET_ADMIN", err)
	}
	return err
}

// Check returns ErrDetached when the program is no longer on its interface:
// somebody forced it off, or the interface was deleted.
func (a *Attachment) Check() error {
	info, err := a.link.Info()
	if err != nil {
		return fmt.Errorf("query XDP attachment: %w", err)
	}
	if xdp := info.XDP(); xdp == nil || int(xdp.Ifindex) != a.ifindex {
		return fmt.Errorf("interface %d: %w", a.ifindex, ErrDetached)
	}
	return nil
}

// Close takes the program off the interface.
func (a *Attachment) Close() error {
	if err := a.link.Close(); err != nil {
		return fmt.Errorf("detach XDP program from interface %d: %w", a.ifindex, err)
	}
	return nil
}
