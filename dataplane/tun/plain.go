package tun

import (
	"flanx/dataplane/packet"
)

// Plain is a TUN queue without a virtio-net header: one IP packet per system
// call. It satisfies dataplane.Port.
type Plain struct{ queue }

// NewPlain makes a port of a non-blocking descriptor, which it owns from now on.
func NewPlain(fd int) *Plain { return &Plain{queue{fd}} }

// Recv reads until the kernel has no more or the batch is full. A packet that
// fills its frame to the last byte may have been longer, for the kernel cuts
// without a word, and is dropped as Truncated.
func (p *Plain) Recv(b *packet.Batch) error {
	if p.fd < 0 {
		return errClosed()
	}
	for {
		i, space, ok := b.Extend()
		if !ok {
			return nil
		}
		n, errno := p.read(space)
		switch {
		case errno == 0 && n < len(space):
			b.Resize(i, n)
			continue
		case errno == 0:
			b.Drop(i, packet.Truncated)
			continue
		}
		b.Undo()
		switch v := judgeRead(errno); v {
		case again:
		case idle:
			return nil
		default:
			return failed("read", v, errno)
		}
	}
}

// Send writes every packet of b. What the kernel refuses is dropped as
// TunWriteFailed and does not keep the rest back.
func (p *Plain) Send(b *packet.Batch) error {
	var err error
	if p.fd < 0 {
		err = errClosed()
	}
	for i := range b.Len() {
		switch {
		case !b.Live(i):
		case err != nil:
			b.Drop(i, packet.TunWriteFailed)
		default:
			err = p.send(b, i)
		}
	}
	b.Reset()
	return err
}

// send writes the i-th packet, and returns an error only when the device is gone.
func (p *Plain) send(b *packet.Batch, i int) error {
	for {
		_, errno := p.write(b.Bytes(i))
		if errno == 0 {
			b.Release(i)
			return nil
		}
		switch v := judgeWrite(errno); v {
		case again:
		case refused:
			b.Drop(i, packet.TunWriteFailed)
			return nil
		default:
			b.Drop(i, packet.TunWriteFailed)
			return failed("write", v, errno)
		}
	}
}
