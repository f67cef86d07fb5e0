package hostnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"flanx/control/lease"
)

// SubnetFile is the content of subnet.env, by which flannel tells container
// runtimes what to use: shell variables, one a line, in a fixed order.
type SubnetFile struct {
	Network, IPv6Network netip.Prefix
	Subnets              lease.Subnets
	MTU                  int // bytes
	IPMasq               bool
}

// maxSubnetFile bounds in bytes what is read: a real one has about 200.
const maxSubnetFile = 1 << 16

// Bytes returns the file as flanneld writes it. A subnet is written as its first
// host address with the prefix length.
func (f SubnetFile) Bytes() []byte {
	var b bytes.Buffer
	if f.Subnets.V4.IsValid() {
		fmt.Fprintf(&b, "FLANNEL_NETWORK=%s\nFLANNEL_SUBNET=%s\n", f.Network, firstHost(f.Subnets.V4))
	}
	if f.Subnets.V6.IsValid() {
		fmt.Fprintf(&b, "FLANNEL_IPV6_NETWORK=%s\nFLANNEL_IPV6_SUBNET=%s\n", f.IPv6Network, firstHost(f.Subnets.V6))
	}
	fmt.Fprintf(&b, "FLANNEL_MTU=%d\nFLANNEL_IPMASQ=%t\n", f.MTU, f.IPMasq)
	return b.Bytes()
}

func firstHost(p netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits())
}

// ParseSubnetFile reads what Bytes writes. It takes nothing on trust: the file
// may be torn, old or anybody's. Unknown variables and comments are passed over,
// of repeated ones the last counts, as in a shell. The error is [ErrSubnetFile].
func ParseSubnetFile(b []byte) (SubnetFile, error) {
	if len(b) > maxSubnetFile {
		return SubnetFile{}, fmt.Errorf("%w: more than %d bytes", ErrSubnetFile, maxSubnetFile)
	}
	var f SubnetFile
	for line := range bytes.Lines(b) {
		key, value, ok := strings.Cut(trimLine(line), "=")
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		if err := f.set(key, value); err != nil {
			return SubnetFile{}, fmt.Errorf("%w: %.32q = %.64q: %w", ErrSubnetFile, key, value, err)
		}
	}
	if err := f.check(); err != nil {
		return SubnetFile{}, fmt.Errorf("%w: %w", ErrSubnetFile, err)
	}
	return f, nil
}

// maxValue bounds in bytes a value, which messages repeat.
const maxValue = 64

// set takes one variable.
func (f *SubnetFile) set(key, value string) (err error) {
	if strings.HasPrefix(key, "FLANNEL_") && len(value) > maxValue {
		return fmt.Errorf("longer than %d bytes", maxValue)
	}
	switch key {
	case "FLANNEL_NETWORK":
		f.Network, err = parsePrefix(value, true)
	case "FLANNEL_SUBNET":
		f.Subnets.V4, err = parsePrefix(value, true)
	case "FLANNEL_IPV6_NETWORK":
		f.IPv6Network, err = parsePrefix(value, false)
	case "FLANNEL_IPV6_SUBNET":
		f.Subnets.V6, err = parsePrefix(value, false)
	case "FLANNEL_MTU":
		f.MTU, err = strconv.Atoi(value)
	case "FLANNEL_IPMASQ":
		f.IPMasq, err = strconv.ParseBool(value)
	}
	return err
}

// parsePrefix returns the prefix with the host bits cleared.
func parsePrefix(s string, v4 bool) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	if p.Addr().Is4() != v4 || p.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("wrong address family")
	}
	return p.Masked(), nil
}

// check says whether the parts fit together.
func (f *SubnetFile) check() error {
	switch {
	case f.Subnets.IsZero():
		return errors.New("no subnet in it")
	case f.Subnets.V4.IsValid() && !inside(f.Subnets.V4, f.Network):
		return fmt.Errorf("subnet %s is not in network %s", f.Subnets.V4, f.Network)
	case f.Subnets.V6.IsValid() && !inside(f.Subnets.V6, f.IPv6Network):
		return fmt.Errorf("subnet %s is not in network %s", f.Subnets.V6, f.IPv6Network)
	case f.MTU < minMTU4 || f.MTU > 65535:
		return fmt.Errorf("MTU %d", f.MTU)
	}
	return nil
}

// ReadSubnetFile reads the file of a former run. What is wrong with it is
// [ErrSubnetFile]; without a file the error is [os.ErrNotExist].
func ReadSubnetFile(path string) (SubnetFile, error) {
	// O_NONBLOCK: a FIFO in its place must not stop us.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return SubnetFile{}, fmt.Errorf("read subnet file: %w", err)
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return SubnetFile{}, fmt.Errorf("read subnet file %s: %w: not a regular file", path, ErrSubnetFile)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxSubnetFile+1))
	if err != nil {
		return SubnetFile{}, fmt.Errorf("read subnet file: %w", err)
	}
	f, err := ParseSubnetFile(b)
	if err != nil {
		return SubnetFile{}, fmt.Errorf("read subnet file %s: %w", path, err)
	}
	return f, nil
}

// PreviousSubnets returns the subnets that a former run wrote, as a hint which
// to ask for again. A file that cannot be used is warned of and otherwise
// ignored: it is written anew later.
func PreviousSubnets(path string, log *slog.Logger) lease.Subnets {
	f, err := ReadSubnetFile(path)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			log.Warn("previous subnet not known", "err", err)
		}
		return lease.Subnets{}
	}
	return f.Subnets
}
