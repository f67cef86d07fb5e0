package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// From linux/ethtool.h: what x/sys does not name.
const (
	ethSSFeatures = 4  // string set of the features' names
	ethNameLen    = 32 // bytes of a name in a string set
)

// ethtool asks about devices of one network namespace.
type ethtool struct{ fd int }

func openEthtool() (*ethtool, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open socket for ethtool: %w", err)
	}
	return &ethtool{fd: fd}, nil
}

func (e *ethtool) close() { _ = unix.Close(e.fd) }

// driver returns the driver's name, empty for a device that has none to tell.
func (e *ethtool) driver(device string) string {
	info, err := unix.IoctlGetEthtoolDrvinfo(e.fd, device)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}

// command lays out size bytes of zeros behind a command's number.
func command(number uint32, size int) []byte {
	return binary.NativeEndian.AppendUint32(make([]byte, 0, 4+size), number)[:4+size]
}

// queues returns how many receive and transmit queues are in use, as the driver
// tells (struct ethtool_channels).
func (e *ethtool) queues(device string) (rx, tx int, err error) {
	data := command(unix.ETHTOOL_GCHANNELS, 8*4)
	if err := ethtoolCall(e.fd, device, data); err != nil {
		return 0, 0, fmt.Errorf("read channels of %s: %w", device, err)
	}
	word := func(i int) int { return int(binary.NativeEndian.Uint32(data[4*i:])) }
	const rxCount, txCount, combinedCount = 5, 6, 8
	return word(rxCount) + word(combinedCount), word(txCount) + word(combinedCount), nil
}

// features returns which features are active, by the kernel's names for them
// (net/ethtool/common.c).
func (e *ethtool) features(device string) (map[string]bool, error) {
	names, err := e.featureNames(device)
	if err != nil {
		return nil, fmt.Errorf("read names of features of %s: %w", device, err)
	}
	const blockSize, activeAt = 16, 8 // struct ethtool_get_features_block
	blocks := (len(names) + 31) / 32
	data := command(unix.ETHTOOL_GFEATURES, 4+blocks*blockSize)
	binary.NativeEndian.PutUint32(data[4:], uint32(blocks))
	if err := ethtoolCall(e.fd, device, data); err != nil {
		return nil, fmt.Errorf("read features of %s: %w", device, err)
	}
	active := make(map[string]bool, len(names))
	for i, name := range names {
		block := data[8+i/32*blockSize:]
		active[name] = binary.NativeEndian.Uint32(block[activeAt:])>>(i%32)&1 != 0
	}
	return active, nil
}

func (e *ethtool) featureNames(device string) ([]string, error) {
	info := command(unix.ETHTOOL_GSSET_INFO, 4+8+4)
	binary.NativeEndian.PutUint64(info[8:], 1<<ethSSFeatures)
	if err := ethtoolCall(e.fd, device, info); err != nil {
		return nil, err
	}
	count := int(binary.NativeEndian.Uint32(info[16:]))
	if binary.NativeEndian.Uint64(info[8:]) == 0 || count == 0 {
		return nil, errors.ErrUnsupported
	}
	data := command(unix.ETHTOOL_GSTRINGS, 8+count*ethNameLen)
	binary.NativeEndian.PutUint32(data[4:], ethSSFeatures)
	binary.NativeEndian.PutUint32(data[8:], uint32(count))
	if err := ethtoolCall(e.fd, device, data); err != nil {
		return nil, err
	}
	names := make([]string, count)
	for i := range names {
		name := data[12+i*ethNameLen:][:ethNameLen]
		names[i] = string(bytes.TrimRight(name, "\x00"))
	}
	return names, nil
}
