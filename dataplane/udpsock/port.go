package udpsock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Port is a UDP socket on the tunnel port. It satisfies dataplane.Port.
type Port struct {
	fd  int // -1 after Close
	in  inbox
	out outbox
}

// Open makes and binds a socket in the network namespace of the calling thread.
func Open(cfg Config) (*Port, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	fam, err := familyOf(cfg)
	if err != nil {
		return nil, err
	}
	fd, err := openSocket(cfg, fam)
	if err != nil {
		return nil, err
	}
	return &Port{fd: fd, in: newInbox(fam, cfg), out: newOutbox(fam, cfg.Batch)}, nil
}

func familyOf(cfg Config) (family, error) {
	addr := cfg.Local.Addr()
	if addr.Is4() {
		return family{number: unix.AF_INET, size: unix.SizeofSockaddrInet4}, nil
	}
	index, err := scope(addr.Zone())
	if err != nil {
		return family{}, err
	}
	return family{number: unix.AF_INET6, size: unix.SizeofSockaddrInet6, scope: index}, nil
}

// Room returns how many packets Send can take: Config.Batch, or nothing while
// some are held.
func (p *Port) Room() int {
	if p.fd < 0 {
		return 0
	}
	return p.out.room()
}

// Held returns how many packets wait in the port for the socket.
func (p *Port) Held() int { return p.out.len() }

// Flush sends on what the socket had no room for.
func (p *Port) Flush() error {
	if p.fd < 0 {
		return errClosed()
	}
	return p.out.push(p.fd)
}

// FD returns the socket, readable when a datagram waits and writable when there
// is room, or -1 after Close.
func (p *Port) FD() int { return p.fd }

// Close closes the socket and drops what is held. It may be called more than
// once.
func (p *Port) Close() error {
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	p.out.abandon()
	if err := unix.Close(fd); err != nil {
		return fmt.Errorf("close UDP socket: %w", err)
	}
	return nil
}

func errClosed() error { return fmt.Errorf("UDP socket: %w", os.ErrClosed) }

// openSocket makes the socket and undoes it on failure.
func openSocket(cfg Config, fam family) (fd int, err error) {
	fd, err = unix.Socket(int(fam.number), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return -1, fmt.Errorf("open UDP socket: %w", err)
	}
	if err = setOptions(fd, cfg); err == nil {
		err = bind(fd, cfg, fam)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func bind(fd int, cfg Config, fam family) error {
	addr, port := cfg.Local.Addr(), int(cfg.Local.Port())
	var to unix.Sockaddr
	if addr.Is4() {
		to = &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	} else {
		to = &unix.SockaddrInet6{Port: port, Addr: addr.As16(), ZoneId: fam.scope}
	}
	if err := unix.Bind(fd, to); err != nil {
		return explainBind(cfg.Local, err)
	}
	return nil
}
