package lease

import (
	"encoding/json"
	"fmt"
)

// Ports of the backends when the configuration names none.
const (
	DefaultUDPPort   = 8285
	DefaultVXLANPort = 8472 // the Linux kernel's, not IANA's 4789
)

// minUnderlayMTU leaves a minimal IPv4 packet (68, RFC 791) after 50 bytes of VXLAN.
const minUnderlayMTU = 118

// UDPBackend is the backend object of type udp.
type UDPBackend struct {
	Port uint16 // of every node, source and destination
}

// VXLANBackend is the backend object of type vxlan.
type VXLANBackend struct {
	VNI           uint32
	Port          uint16
	MTU           int // of the underlay; 0: the interface's
	GBP           bool
	Learning      bool
	DirectRouting bool
}

// UDP reads the backend object as type udp's.
func (c NetworkConfig) UDP() (UDPBackend, error) {
	in := struct{ Port int }{Port: DefaultUDPPort}
	if err := c.backend("udp", &in); err != nil {
		return UDPBackend{}, err
	}
	if in.Port < 1 || in.Port > 65535 {
		return UDPBackend{}, fmt.Errorf("Backend.Port %d is not between 1 and 65535: leave it out for %d", in.Port, DefaultUDPPort)
	}
	return UDPBackend{Port: uint16(in.Port)}, nil
}

// VXLAN reads the backend object as type vxlan's.
func (c NetworkConfig) VXLAN() (VXLANBackend, error) {
	in := struct {
		VNI, Port, MTU               int
		GBP, Learning, DirectRouting bool
	}{VNI: 1}
	if err := c.backend("vxlan", &in); err != nil {
		return VXLANBackend{}, err
	}
	switch {
	case in.VNI < 0 || in.VNI > MaxVNI:
		return VXLANBackend{}, fmt.Errorf("Backend.VNI %d is not between 0 and %d", in.VNI, MaxVNI)
	case in.Port < 0 || in.Port > 65535:
		return VXLANBackend{}, fmt.Errorf("Backend.Port %d is not between 0 and 65535: 0 means %d", in.Port, DefaultVXLANPort)
	case in.MTU != 0 && (in.MTU < minUnderlayMTU || in.MTU > 65535):
		return VXLANBackend{}, fmt.Errorf("Backend.MTU %d is not between %d and 65535: it is the underlay's, leave it out for the interface's", in.MTU, minUnderlayMTU)
	case in.Port == 0:
		in.Port = DefaultVXLANPort
	}
	return VXLANBackend{
		VNI: uint32(in.VNI), Port: uint16(in.Port), MTU: in.MTU,
		GBP: in.GBP, Learning: in.Learning, DirectRouting: in.DirectRouting,
	}, nil
}

func (c NetworkConfig) backend(kind string, into any) error {
	if c.BackendType != kind {
		return fmt.Errorf("Backend.Type is %q, not %q", c.BackendType, kind)
	}
	if len(c.Backend) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.Backend, into); err != nil {
		return fmt.Errorf("read Backend of type %s: %w", kind, err)
	}
	return nil
}
