package xsk

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setUMEM registers slab, cut into chunks of frameSize bytes. The kernel pins
// its pages until the socket is closed; the memory is not the Go heap's.
func setUMEM(fd int, slab []byte, frameSize uint32) error {
	reg := unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(slab)))),
		Len:  uint64(len(slab)),
		Size: frameSize,
	}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0)
	runtime.KeepAlive(slab)
	return errnoErr(errno)
}

// mmapOffsets reads where in each ring's mapping its parts lie.
func mmapOffsets(fd int) (unix.XDPMmapOffsets, error) {
	var off unix.XDPMmapOffsets
	err := getsockopt(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&off), uint32(unsafe.Sizeof(off)))
	return off, err
}

// statistics reads the kernel's counters of the socket.
func statistics(fd int) (unix.XDPStatistics, error) {
	var st unix.XDPStatistics
	err := getsockopt(fd, unix.XDP_STATISTICS, unsafe.Pointer(&st), uint32(unsafe.Sizeof(st)))
	return st, err
}

func getsockopt(fd, opt int, value unsafe.Pointer, size uint32) error {
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(opt),
		uintptr(value), uintptr(unsafe.Pointer(&size)), 0)
	return errnoErr(errno)
}

func errnoErr(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// mapRing maps one ring and views it. own and other are the offsets of the
// index that we publish and of the one that the kernel publishes.
func mapRing[T any](fd int, pgoff int64, slots uint32, own, other, flags, desc uint64) ([]byte, ring[T], error) {
	var entry T
	size := int(desc) + int(slots)*int(unsafe.Sizeof(entry))
	mem, err := unix.Mmap(fd, pgoff, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, ring[T]{}, err
	}
	word := func(off uint64) *uint32 { return (*uint32)(unsafe.Pointer(&mem[off])) }
	entries := unsafe.Slice((*T)(unsafe.Pointer(&mem[desc])), slots)
	return mem, newRing(entries, word(own), word(other), word(flags)), nil
}
