package lab

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Commands and sizes of linux/ethtool.h.
const (
	ethtoolGStrings  = 0x1b
	ethtoolGSSetInfo = 0x37
	ethtoolGFeatures = 0x3a
	ethtoolSFeatures = 0x3b
	ethSSFeatures    = 4  // the string set of feature names
	ethGStringLen    = 32 // bytes of a name, zero-padded
)

// Offloads are the features, under the kernel's names (net/ethtool/common.c),
// through which something other than one whole frame of at most MTU bytes can
// cross a veth. They are what "ethtool -K DEV tso off gso off gro off tx off rx
// off tx-udp-segmentation off" turns off.
var Offloads = []string{
	"tx-checksum-ip-generic",
	"rx-checksum",
	"tx-generic-segmentation",
	"tx-tcp-segmentation",
	"tx-tcp-ecn-segmentation",
	"tx-tcp-mangleid-segmentation",
	"tx-tcp6-segmentation",
	"tx-udp-segmentation",
	"rx-gro",
}

// SetOffloads turns the Offloads of a device on or off; those it does not have
// are passed over. It is an error if the kernel did not do as asked.
func (h *Host) SetOffloads(dev string, on bool) error {
	want := make(map[string]bool, len(Offloads))
	for _, name := range Offloads {
		want[name] = on
	}
	return h.SetFeatures(dev, want)
}

// SetFeatures turns the named features of a device on or off, all in one call.
func (h *Host) SetFeatures(dev string, want map[string]bool) error {
	err := h.ethtool(func(fd int) error { return setFeatures(fd, dev, want) })
	return wrap(err, "set offloads of %s on host %s", dev, h.name)
}

// Features returns which features of a device are active, by the kernel's names.
func (h *Host) Features(dev string) (map[string]bool, error) {
	var active map[string]bool
	err := h.ethtool(func(fd int) error {
		names, blocks, err := readFeatures(fd, dev)
		active = make(map[string]bool, len(names))
		for i, name := range names {
			active[name] = blocks.bit(i, blockActive)
		}
		return err
	})
	return active, wrap(err, "read offloads of %s on host %s", dev, h.name)
}

// ethtool runs fn inside the host with a socket to send the ioctl through.
func (h *Host) ethtool(fn func(fd int) error) error {
	return h.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open socket: %w", err)
		}
		defer unix.Close(fd)
		return fn(fd)
	})
}

// featureBlocks is struct ethtool_get_features_block[]: 32 features each, as
// the masks available, requested, active, never_changed.
type featureBlocks []byte

const (
	blockSize         = 16
	blockAvailable    = 0
	blockActive       = 8
	blockNeverChanged = 12
)

func (b featureBlocks) bit(i, mask int) bool {
	word := binary.NativeEndian.Uint32(b[i/32*blockSize+mask:])
	return word>>(i%32)&1 == 1
}

// readFeatures returns the names of all features and their states.
func readFeatures(fd int, dev string) ([]string, featureBlocks, error) {
	names, err := featureNames(fd, dev)
	if err != nil {
		return nil, nil, err
	}
	count := (len(names) + 31) / 32
	req := request(8+count*blockSize, ethtoolGFeatures, uint32(count))
	if err := ethtoolIoctl(fd, dev, req); err != nil {
		return nil, nil, fmt.Errorf("get features: %w", err)
	}
	return names, req[8:], nil
}

// featureNames asks how many features this kernel knows, and for their names.
func featureNames(fd int, dev string) ([]string, error) {
	info := request(20, ethtoolGSSetInfo, 0) // cmd, reserved, u64 mask, u32 length
	binary.NativeEndian.PutUint64(info[8:], 1<<ethSSFeatures)
	if err := ethtoolIoctl(fd, dev, info); err != nil {
		return nil, fmt.Errorf("count features: %w", err)
	}
	n := int(binary.NativeEndian.Uint32(info[16:]))
	req := request(12+n*ethGStringLen, ethtoolGStrings, ethSSFeatures) // cmd, set, length
	if err := ethtoolIoctl(fd, dev, req); err != nil {
		return nil, fmt.Errorf("name features: %w", err)
	}
	names := make([]string, n)
	for i := range names {
		raw := req[12+i*ethGStringLen:][:ethGStringLen]
		name, _, _ := bytes.Cut(raw, []byte{0})
		names[i] = string(name)
	}
	return names, nil
}

// setFeatures asks for all changes at once, so that the kernel's rules about
// which feature needs which other one see only the whole, and looks at the
// result: the kernel may grant less without an error.
func setFeatures(fd int, dev string, want map[string]bool) error {
	names, have, err := readFeatures(fd, dev)
	if err != nil {
		return err
	}
	count := len(have) / blockSize
	req := request(8+count*8, ethtoolSFeatures, uint32(count)) // per block: valid, requested
	for i, name := range names {
		on, asked := want[name]
		if !asked || !have.bit(i, blockAvailable) || have.bit(i, blockNeverChanged) {
			continue
		}
		setBit(req[8+i/32*8:], i)
		if on {
			setBit(req[8+i/32*8+4:], i)
		}
	}
	if err := ethtoolIoctl(fd, dev, req); err != nil {
		return fmt.Errorf("set features: %w", err)
	}
	_, got, err := readFeatures(fd, dev)
	if err != nil {
		return err
	}
	for i, name := range names {
		if on, asked := want[name]; asked && have.bit(i, blockAvailable) && got.bit(i, blockActive) != on {
			return fmt.Errorf("kernel keeps %s at %v", name, !on)
		}
	}
	return nil
}

func setBit(word []byte, i int) {
	binary.NativeEndian.PutUint32(word, binary.NativeEndian.Uint32(word)|1<<(i%32))
}

// request returns size bytes that begin with a command and its first argument.
func request(size int, cmd, arg uint32) []byte {
	req := make([]byte, size)
	binary.NativeEndian.PutUint32(req, cmd)
	binary.NativeEndian.PutUint32(req[4:], arg)
	return req
}
