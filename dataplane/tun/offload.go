package tun

import (
	"fmt"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// Offload is a TUN queue with a virtio-net header before each packet: the
// kernel hands over a run of one flow as one packet of up to 64 KiB, which Recv
// cuts into packets of one MTU, and takes such runs back from Send. It
// satisfies dataplane.Port.
type Offload struct {
	queue
	in  splitter
	out merger
}

// NewOffload makes a port of a non-blocking descriptor, which it owns from now
// on. offloads are the TUN_F_ bits in force on the device (linux/if_tun.h).
func NewOffload(fd, offloads int) *Offload {
	p := &Offload{queue: queue{fd: fd}, in: newSplitter()}
	p.out.queue = &p.queue
	p.out.noUDP = offloads&unix.TUN_F_USO4 == 0
	return p
}

// Recv reads until the kernel has no more or the batch is full, and completes
// every checksum. What is left of a packet that has more pieces than the batch
// has room comes first in the next Recv; FD does not tell of it.
func (p *Offload) Recv(b *packet.Batch) error {
	if p.fd < 0 {
		return errClosed()
	}
	for p.in.drain(b) {
		i, space, ok := b.Extend()
		if !ok {
			return nil
		}
		// The header goes into the headroom, right before the packet.
		buf := b.At(i)
		frame := b.Pool().Frame(buf.Frame)[buf.Start-vnetLen:]
		n, errno := p.readv(frame, p.in.over())
		switch {
		case errno == 0 && n >= vnetLen:
			p.in.accept(b, i, vnet(frame[:vnetLen]), space, n-vnetLen)
			continue
		case errno == 0:
			b.Undo()
			return fmt.Errorf("read TUN queue: %d bytes are no virtio-net header: was it opened with offloads?", n)
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
	return nil
}

// Send writes every packet of b. Packets of one flow that follow each other are
// written as one, in the flow's order. What the kernel refuses is dropped as
// TunWriteFailed and does not keep the rest back.
func (p *Offload) Send(b *packet.Batch) error {
	m := &p.out
	m.b, m.err = b, nil
	if p.fd < 0 {
		m.err = errClosed()
	}
	for i := range b.Len() {
		if i%maxPackets == 0 {
			m.flush()
		}
		if b.Live(i) {
			m.add(i)
		}
	}
	m.flush()
	b.Reset()
	return m.err
}
