package host

import (
	"errors"
	"fmt"
	"net/netip"

	"flanx/dataplane/packet"
	"flanx/dataplane/xdpprog"
	"flanx/dataplane/xsk"
)

// DefaultFrames is how many frames each queue's pool has unless told otherwise:
// 8 MiB of 2 KiB frames.
const DefaultFrames = 4096

// XSKConfig says which packets to take from which interface.
type XSKConfig struct {
	IfIndex int        // the underlay interface, in the calling thread's namespace
	IPv4    netip.Addr // our addresses on it; one may be the zero Addr
	IPv6    netip.Addr
	Port    uint16 // the tunnel's UDP port

	// Queues is how many queues to serve, from queue 0. 0: all of them. What
	// comes in on others goes by way of the kernel.
	Queues int
	// Frames is how many frames each queue's pool has. 0 means DefaultFrames.
	Frames int
	// FillTarget and TXLimit are those of xsk.Config.
	FillTarget, TXLimit int

	// WireSized is the operator's promise that no packet longer than the MTU
	// arrives; see the package documentation on generic XDP.
	WireSized bool
}

// XSK is AF_XDP on one interface: the program, and a port with its own pool for
// each queue served.
type XSK struct {
	Ports  []*xsk.Port // by queue
	Rung   Rung        // ZeroCopy, Native or Generic
	Device Device      // as it was when the program was attached

	prog       *xdpprog.Program
	attachment *xdpprog.Attachment
}

// OpenXSK opens exactly one rung, or says why it cannot be had and leaves
// nothing behind. It needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF. It may wait
// two seconds for queues that were just closed.
func OpenXSK(cfg XSKConfig, rung Rung) (*XSK, error) {
	return (&opener{cfg: cfg, rung: rung}).open()
}

// opener opens in steps. Tests set before, to fail each one in turn.
type opener struct {
	cfg       XSKConfig
	rung      Rung
	before    func(step string) error
	frameSize int
}

func (o *opener) open() (*XSK, error) {
	x := &XSK{Rung: o.rung}
	steps := []struct {
		name string
		do   func(*XSK) error
	}{
		{"probe", o.probe},
		{"load", o.load},
		{"attach", o.attach},
		{"settle", o.settle},
		{"bind", o.bind},
	}
	for _, step := range steps {
		var err error
		if o.before != nil {
			err = o.before(step.name)
		}
		if err == nil {
			err = step.do(x)
		}
		if err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	return x, nil
}

// probe decides what can be known before anything is touched.
func (o *opener) probe(x *XSK) (err error) {
	if o.rung != ZeroCopy && o.rung != Native && o.rung != Generic {
		return fmt.Errorf("%w for AF_XDP: %s", ErrRung, o.rung)
	}
	if x.Device, err = Probe(o.cfg.IfIndex); err != nil {
		return err
	}
	if o.frameSize, err = x.Device.frameSize(); err != nil {
		return err
	}
	if o.rung == Generic && !o.cfg.WireSized {
		return x.Device.superPackets(false)
	}
	return nil
}

func (o *opener) load(x *XSK) (err error) {
	x.prog, err = xdpprog.Load(xdpprog.Config{
		IPv4: o.cfg.IPv4, IPv6: o.cfg.IPv6, Port: o.cfg.Port,
		MaxFrame: o.frameSize - packet.Headroom,
		Queues:   max(o.cfg.Queues, x.Device.Queues, xdpprog.DefaultQueues),
	})
	return err
}

func (o *opener) attach(x *XSK) (err error) {
	mode := xdpprog.Native
	if o.rung == Generic {
		mode = xdpprog.Generic
	}
	x.attachment, err = x.prog.Attach(o.cfg.IfIndex, mode)
	return err
}

// settle looks at the device again: attaching changes features, and with some
// drivers the number of queues.
func (o *opener) settle(x *XSK) (err error) {
	if x.Device, err = Probe(o.cfg.IfIndex); err != nil {
		return err
	}
	if o.cfg.Queues == 0 {
		o.cfg.Queues = x.Device.Queues
	}
	if o.cfg.Queues > x.Device.Queues {
		return fmt.Errorf("%w: %d asked for, %s has %d", ErrTooFewQueues, o.cfg.Queues, x.Device.description(), x.Device.Queues)
	}
	if o.rung == Generic && !o.cfg.WireSized {
		return x.Device.superPackets(true)
	}
	return nil
}

func (o *opener) bind(x *XSK) error {
	for queue := range o.cfg.Queues {
		port, err := o.bindQueue(queue)
		if err != nil {
			return err
		}
		x.Ports = append(x.Ports, port)
		if err := x.prog.Register(queue, port.FD()); err != nil {
			return err
		}
	}
	return nil
}

// bindQueue opens a pool and a port on it, and checks what was granted.
func (o *opener) bindQueue(queue int) (*xsk.Port, error) {
	frames := o.cfg.Frames
	if frames == 0 {
		frames = DefaultFrames
	}
	pool, err := packet.NewPool(frames, o.frameSize)
	if err != nil {
		return nil, err
	}
	mode := xsk.Copy
	if o.rung == ZeroCopy {
		mode = xsk.ZeroCopy
	}
	port, err := xsk.Open(xsk.Config{
		IfIndex: o.cfg.IfIndex, Queue: queue, Mode: mode,
		FillTarget: o.cfg.FillTarget, TXLimit: o.cfg.TXLimit,
	}, pool)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	if o.rung == ZeroCopy && !port.ZeroCopy() {
		return nil, errors.Join(fmt.Errorf("queue %d: %w", queue, ErrNotZeroCopy), port.Close(), pool.Close())
	}
	return port, nil
}

// Check returns an error when the program is no longer on the interface: then
// the ports receive nothing any more, and should be closed.
func (x *XSK) Check() error { return x.attachment.Check() }

// Warnings returns what the operator should know about the device, if anything.
func (x *XSK) Warnings() []string {
	if w := x.Device.unfinishedChecksums(); w != "" {
		return []string{w}
	}
	return nil
}

// Close takes the program off the interface, so that packets take the kernel's
// way again, and gives ports and pools back. No batch of the pools may be used
// afterwards. It may be called on what OpenXSK left half made.
func (x *XSK) Close() error {
	var errs []error
	if x.attachment != nil {
		errs = append(errs, x.attachment.Close())
	}
	for _, p := range x.Ports {
		errs = append(errs, p.Close(), p.Pool().Close())
	}
	if x.prog != nil {
		errs = append(errs, x.prog.Close())
	}
	x.Ports, x.attachment, x.prog = nil, nil, nil
	return errors.Join(errs...)
}
