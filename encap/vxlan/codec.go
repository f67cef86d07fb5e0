package vxlan

import (
	"encoding/binary"
	"errors"
	"fmt"

	"flanx/encap"
	"flanx/encap/header"
)

// Defaults of flannel and of the kernel.
const (
	DefaultVNI  = 1
	DefaultPort = 8472 // the kernel's, from before IANA assigned 4789

	// The kernel's ip_local_port_range, both ends included.
	DefaultSrcPortMin = 32768
	DefaultSrcPortMax = 60999
)

// How many bytes the backend adds to an inner packet as the underlay's MTU
// counts them: IP, UDP 8, VXLAN 8, inner Ethernet 14.
const (
	IPOverhead4 = header.IPv4Len + header.UDPLen + shim
	IPOverhead6 = header.IPv6Len + header.UDPLen + shim
)

const (
	shim           = header.VXLANLen + header.EthernetLen // between UDP and the inner packet
	frameOverhead4 = header.EthernetLen + IPOverhead4
	frameOverhead6 = header.EthernetLen + IPOverhead6

	outerTTL = 64 // the kernel's default
	maxIPv4  = 1<<16 - 1
	maxIPv6  = header.IPv6Len + 1<<16 - 1
)

// ErrConfig says that a Config contradicts itself.
var ErrConfig = errors.New("invalid vxlan backend configuration")

// Config says how a Codec works. All but VNI and at least one VTEP may be left
// zero.
type Config struct {
	Layer encap.Layer
	// VNI is the network's identifier, 0 to header.MaxVNI. Zero is an
	// identifier, not a default: flannel's is DefaultVNI.
	VNI uint32
	// Port is our UDP port, and the peers' unless they say otherwise; 0 means
	// DefaultPort.
	Port uint16
	// VTEP4 and VTEP6 are the inner Ethernet addresses of our tunnel endpoints
	// over IPv4 and over IPv6. A family whose address is zero is not spoken.
	VTEP4, VTEP6 encap.MAC
	// GBP accepts packets with a group policy, as sent by nodes whose network
	// has it configured.
	GBP bool
	// SrcPortMin and SrcPortMax bound the outer source port, both included;
	// both 0 means the kernel's default range.
	SrcPortMin, SrcPortMax uint16
	// NoChecksum sends UDP checksum zero over IPv4. Over IPv6 there always is
	// one. It means nothing in the Datagram layer, where the socket decides.
	NoChecksum bool
	// NoVerify accepts received frames without verifying the outer UDP
	// checksum. In the Datagram layer the kernel has done it.
	NoVerify bool
	// MTU bounds the outer IP packet in bytes: Push drops what would be longer
	// as TooBig. 0 leaves only IP's own limit.
	MTU int
}

// Codec is the vxlan backend's encap.Codec.
type Codec struct {
	layer      encap.Layer
	vni        uint32
	port       uint16
	vtep4      encap.MAC
	vtep6      encap.MAC
	noChecksum bool

	srcPortMin  uint32
	srcPortSpan uint64 // how many source ports there are

	maxInner4 int // bytes of inner packet that fit, by outer family
	maxInner6 int

	tunnel   header.Tunnel
	expected uint64 // the VXLAN header that we accept,
	ignored  uint64 // but for these bits
}

var _ encap.Codec = (*Codec)(nil)

// New returns a codec. The error wraps ErrConfig.
func New(cfg Config) (*Codec, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &Codec{
		layer:       cfg.Layer,
		vni:         cfg.VNI,
		port:        cfg.Port,
		vtep4:       cfg.VTEP4,
		vtep6:       cfg.VTEP6,
		noChecksum:  cfg.NoChecksum,
		srcPortMin:  uint32(cfg.SrcPortMin),
		srcPortSpan: uint64(cfg.SrcPortMax) - uint64(cfg.SrcPortMin) + 1,
		maxInner4:   min(cfg.MTU, maxIPv4) - IPOverhead4,
		maxInner6:   min(cfg.MTU, maxIPv6) - IPOverhead6,
		tunnel:      header.Tunnel{Port: cfg.Port, Shim: shim, Verify: !cfg.NoVerify},
		expected:    header.VXLANFlagVNI<<32 | uint64(cfg.VNI)<<8,
	}
	if cfg.GBP {
		c.ignored = (header.VXLANFlagGBP | header.VXLANPolicyGBP) << 32
	}
	return c, nil
}

func (cfg Config) withDefaults() Config {
	if cfg.Port == 0 {
		cfg.Port = DefaultPort
	}
	if cfg.SrcPortMin == 0 && cfg.SrcPortMax == 0 {
		cfg.SrcPortMin, cfg.SrcPortMax = DefaultSrcPortMin, DefaultSrcPortMax
	}
	if cfg.MTU == 0 {
		cfg.MTU = maxIPv6
	}
	return cfg
}

func (cfg Config) check() error {
	least := IPOverhead4 + header.IPv4Len
	if !cfg.VTEP6.IsZero() {
		least = IPOverhead6 + header.IPv6Len
	}
	switch {
	case cfg.Layer > encap.Datagram:
		return fmt.Errorf("%w: unknown layer %d", ErrConfig, cfg.Layer)
	case cfg.VNI > header.MaxVNI:
		return fmt.Errorf("%w: VNI %d; the largest is %d", ErrConfig, cfg.VNI, header.MaxVNI)
	case cfg.VTEP4.IsZero() && cfg.VTEP6.IsZero():
		return fmt.Errorf("%w: no VTEP address; set one for IPv4 or IPv6", ErrConfig)
	case header.IsMulticast(cfg.VTEP4) || header.IsMulticast(cfg.VTEP6):
		return fmt.Errorf("%w: VTEP addresses %x and %x; a group's address cannot be ours", ErrConfig, cfg.VTEP4, cfg.VTEP6)
	case cfg.SrcPortMin == 0 || cfg.SrcPortMin > cfg.SrcPortMax:
		return fmt.Errorf("%w: source ports %d to %d", ErrConfig, cfg.SrcPortMin, cfg.SrcPortMax)
	case cfg.MTU < least:
		return fmt.Errorf("%w: MTU %d leaves no room for an inner packet; set at least %d", ErrConfig, cfg.MTU, least)
	}
	return nil
}

// Overhead returns how many bytes Push writes at most before an inner packet:
// in the Ethernet layer 84 when we speak IPv6, else 64; in the Datagram layer
// 22.
func (c *Codec) Overhead() int {
	switch {
	case c.layer == encap.Datagram:
		return shim
	case c.vtep6.IsZero():
		return frameOverhead4
	default:
		return frameOverhead6
	}
}

// IPOverhead returns how much smaller the inner MTU must be than the underlay's,
// whatever the layer, for packets to fit in every family that we speak: 50, or
// 70 with IPv6. Per family see IPOverhead4 and IPOverhead6.
func (c *Codec) IPOverhead() int {
	if c.vtep6.IsZero() {
		return IPOverhead4
	}
	return IPOverhead6
}

// vtep returns our inner Ethernet address for an outer family. It is zero when
// we do not speak the family.
func (c *Codec) vtep(ipv6 bool) encap.MAC {
	if ipv6 {
		return c.vtep6
	}
	return c.vtep4
}

// mapped says whether an address in its 16-byte form is IPv4.
func mapped(a *[16]byte) bool {
	return binary.BigEndian.Uint64(a[0:8]) == 0 && binary.BigEndian.Uint32(a[8:12]) == 0xffff
}
