package packetsock

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// Config says which interface, and which way.
type Config struct {
	IfIndex int
	// Receive takes what arrives on the interface, without what leaves by it.
	// Without it the port only sends.
	Receive bool
	// Buffer is the receive buffer in bytes; 0 is 16 MiB. The kernel gives less
	// to whoever lacks CAP_NET_ADMIN.
	Buffer int
}

// Port is a packet socket. It satisfies dataplane.Port.
type Port struct {
	fd   int
	in   *vector
	out  *vector
	held []packet.Buf // not yet taken by the kernel, in order
	from *packet.Batch
}

// batchRoom is what Room answers when nothing is held.
const batchRoom = 1024

// Open makes a socket in the network namespace of the calling thread. It needs
// CAP_NET_RAW.
func Open(cfg Config) (*Port, error) {
	protocol := 0
	if cfg.Receive {
		protocol = int(swap(unix.ETH_P_ALL))
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	p := &Port{fd: fd, in: newVector(), out: newVector(), held: make([]packet.Buf, 0, batchRoom)}
	if err := p.prepare(cfg, uint16(protocol)); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("bind packet socket to interface %d: %w", cfg.IfIndex, err)
	}
	return p, nil
}

// swap turns a number to network byte order, which the address is in whatever
// ours is.
func swap(n uint16) uint16 { return n<<8 | n>>8 }

func (p *Port) prepare(cfg Config, protocol uint16) error {
	if cfg.Receive {
		if cfg.Buffer == 0 {
			cfg.Buffer = 16 << 20
		}
		if unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, cfg.Buffer) != nil {
			_ = unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, cfg.Buffer) // what can be had
		}
		if err := unix.SetsockoptInt(p.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
	}
	// Queueing would only hide that the interface has no room.
	_ = unix.SetsockoptInt(p.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	return unix.Bind(p.fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: cfg.IfIndex})
}

// Recv appends what has arrived, up to b's room. What is longer than a frame is
// dropped as Truncated.
func (p *Port) Recv(b *packet.Batch) error {
	for b.Room() > 0 {
		first, n := b.Len(), 0
		for n < perCall {
			_, space, ok := b.Extend()
			if !ok {
				break
			}
			p.in.set(n, space)
			n++
		}
		if n == 0 {
			return nil
		}
		got, errno := p.in.call(unix.SYS_RECVMMSG, p.fd, n)
		for range n - got {
			b.Undo()
		}
		for i := range got {
			if p.in.msgs[i].hdr.Flags&unix.MSG_TRUNC != 0 {
				b.Drop(first+i, packet.Truncated)
				continue
			}
			b.Resize(first+i, int(p.in.msgs[i].n))
		}
		if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
			return broken("receive", errno)
		}
		if got < n {
			return nil
		}
	}
	return nil
}

// Send gives every packet of b to the interface. What it has no room for is held
// for Flush; what it refuses is dropped: too long for its MTU as TooBig, else
// SendFailed.
func (p *Port) Send(b *packet.Batch) error {
	err := p.Flush()
	p.from = b
	for i := range b.Len() {
		buf := *b.At(i)
		if err != nil || len(p.held) == cap(p.held) {
			b.Drop(i, packet.SendFailed)
			continue
		}
		b.Take(i)
		p.held = append(p.held, buf)
	}
	b.Reset()
	return errors.Join(err, p.Flush())
}

// Room returns how many packets Send takes: none while some are held.
func (p *Port) Room() int {
	if len(p.held) > 0 {
		return 0
	}
	return batchRoom
}

// Flush tries again to send what is held.
func (p *Port) Flush() error {
	done := 0
	defer func() { p.held = append(p.held[:0], p.held[done:]...) }()
	for done < len(p.held) {
		n := min(perCall, len(p.held)-done)
		pool := p.from.Pool()
		for i, buf := range p.held[done : done+n] {
			p.out.set(i, pool.Frame(buf.Frame)[buf.Start:buf.End])
		}
		sent, errno := p.out.call(unix.SYS_SENDMMSG, p.fd, n)
		for i := range sent {
			pool.Put(p.held[done+i].Frame)
		}
		done += sent
		switch errno {
		case 0, unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS:
			return nil
		case unix.ENXIO, unix.ENODEV:
			return broken("send", errno)
		default:
			p.refuse(done, errno)
			done++
		}
	}
	return nil
}

// refuse drops one held packet, in the batch that brought it.
func (p *Port) refuse(i int, errno unix.Errno) {
	reason := packet.SendFailed
	if errno == unix.EMSGSIZE {
		reason = packet.TooBig
	}
	p.from.Drops()[reason]++
	p.from.Pool().Put(p.held[i].Frame)
}

func broken(verb string, errno unix.Errno) error {
	if errno == unix.ENXIO || errno == unix.ENODEV {
		return fmt.Errorf("%s on packet socket: %w: %w", verb, packet.ErrPortGone, errno)
	}
	return fmt.Errorf("%s on packet socket: %w", verb, errno)
}

// FD returns the socket, to poll; -1 after Close.
func (p *Port) FD() int { return p.fd }

// Close closes the socket and gives back the frames that are held. It may be
// called more than once.
func (p *Port) Close() error {
	for _, buf := range p.held {
		p.from.Pool().Put(buf.Frame)
	}
	p.held = p.held[:0]
	fd := p.fd
	p.fd = -1
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}
