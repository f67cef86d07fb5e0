package packet

import (
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/sys/unix"
)

// Headroom is the space, in bytes, before a received packet in its frame. It
// equals XDP_PACKET_HEADROOM (linux/bpf.h), which the kernel leaves before a
// packet it receives by AF_XDP, so a frame looks the same whichever port filled
// it. The largest stack of outer headers (VXLAN over IPv6: 84 bytes) fits.
const Headroom = 256

// Frame sizes, in bytes. AF_XDP takes powers of two from 2048 to the page size
// (xdp_umem_reg in net/xdp/xdp_umem.c); a UDP port may use larger ones.
const (
	FrameSize2K  = 2048
	FrameSize4K  = 4096
	FrameSize16K = 16384
	FrameSize64K = 65536
)

// ErrPoolConfig says that a Pool was asked for with sizes it cannot have.
var ErrPoolConfig = errors.New("invalid pool size")

// Pool is one slab of memory cut into frames, and the stack of those that are
// free. It belongs to one worker.
type Pool struct {
	slab  []byte
	shift uint
	free  []uint32 // stack; its capacity is the number of frames
	guard guard    // race builds only: who owns each frame
}

// NewPool maps a slab of frames of frameSize bytes each. frameSize is a power
// of two, at least FrameSize2K and at most FrameSize64K. The slab is zeroed and
// aligned to the page size.
func NewPool(frames, frameSize int) (*Pool, error) {
	if frames <= 0 || frames > 1<<24 ||
		frameSize < FrameSize2K || frameSize > FrameSize64K || frameSize&(frameSize-1) != 0 {
		return nil, fmt.Errorf("%w: %d frames of %d bytes", ErrPoolConfig, frames, frameSize)
	}
	slab, err := unix.Mmap(-1, 0, frames*frameSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d frames of %d bytes: %w", frames, frameSize, err)
	}
	p := &Pool{
		slab:  slab,
		shift: uint(bits.TrailingZeros(uint(frameSize))),
		free:  make([]uint32, frames),
		guard: newGuard(frames),
	}
	for i := range p.free { // lowest frame on top, so that a short run stays in cache
		p.free[i] = uint32(frames - 1 - i)
	}
	return p, nil
}

// Close unmaps the slab. No Buf of it may be used afterwards, and an AF_XDP
// socket that registered it must be closed before.
func (p *Pool) Close() error {
	if p.slab == nil {
		return nil
	}
	slab := p.slab
	p.slab, p.free = nil, nil
	if err := unix.Munmap(slab); err != nil {
		return fmt.Errorf("unmap pool: %w", err)
	}
	return nil
}

// Slab returns the whole memory, for registering as a UMEM.
func (p *Pool) Slab() []byte { return p.slab }

// FrameSize returns the size of one frame in bytes.
func (p *Pool) FrameSize() int { return 1 << p.shift }

// Frames returns the number of frames, free or not.
func (p *Pool) Frames() int { return cap(p.free) }

// Free returns the number of free frames.
func (p *Pool) Free() int { return len(p.free) }

// Get takes a free frame out of the pool. It says no when none is left.
func (p *Pool) Get() (frame uint32, ok bool) {
	n := len(p.free)
	if n == 0 {
		return 0, false
	}
	frame = p.free[n-1]
	p.free = p.free[:n-1]
	p.guard.take(frame)
	return frame, true
}

// Put gives a frame back. The caller must have owned it.
func (p *Pool) Put(frame uint32) {
	p.guard.put(p, frame)
	p.free = append(p.free, frame)
}

// Frame returns the bytes of one whole frame.
func (p *Pool) Frame(frame uint32) []byte {
	start := int(frame) << p.shift
	end := start + 1<<p.shift
	return p.slab[start:end:end]
}

// Offset returns where in the slab a byte of a frame lies: an AF_XDP address.
func (p *Pool) Offset(frame, at uint32) uint64 {
	return uint64(frame)<<p.shift + uint64(at)
}

// Locate is the inverse of Offset. The address must lie inside the slab; ok
// says whether it does, so that an address read from a ring can be checked.
func (p *Pool) Locate(addr uint64) (frame, at uint32, ok bool) {
	if addr >= uint64(len(p.slab)) {
		return 0, 0, false
	}
	return uint32(addr >> p.shift), uint32(addr & (1<<p.shift - 1)), true
}
