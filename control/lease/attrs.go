package lease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
)

// MaxValue is the longest lease value taken from a store, in bytes. A real one
// is below 300.
const MaxValue = 16 << 10

// maxBackendType bounds a backend's name, which ends up in messages.
const maxBackendType = 32

// Attrs is what a node tells about itself: the JSON value of a lease.
type Attrs struct {
	PublicIP      netip.Addr      // the node's IPv4 address on the underlay
	PublicIPv6    netip.Addr      // zero when unused
	BackendType   string          // empty for alloc and udp
	BackendData   json.RawMessage // for vxlan: VXLANData
	BackendV6Data json.RawMessage
}

// attrsJSON gives the order and the omissions of flannel's lease value.
type attrsJSON struct {
	PublicIP      string
	PublicIPv6    *string
	BackendType   string          `json:",omitempty"`
	BackendData   json.RawMessage `json:",omitempty"`
	BackendV6Data json.RawMessage `json:",omitempty"`
}

// noPublicIP stands in the mandatory PublicIP of a node that has only IPv6.
const noPublicIP = "0.0.0.0"

// Equal compares by value.
func (a Attrs) Equal(b Attrs) bool {
	return a.PublicIP == b.PublicIP && a.PublicIPv6 == b.PublicIPv6 &&
		a.BackendType == b.BackendType &&
		bytes.Equal(a.BackendData, b.BackendData) &&
		bytes.Equal(a.BackendV6Data, b.BackendV6Data)
}

// MarshalJSON writes the lease value as flanneld does: PublicIP first, PublicIPv6
// null when unused, empty backend fields left out.
func (a Attrs) MarshalJSON() ([]byte, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	out := attrsJSON{
		PublicIP:      noPublicIP,
		BackendType:   a.BackendType,
		BackendData:   a.BackendData,
		BackendV6Data: a.BackendV6Data,
	}
	if a.PublicIP.IsValid() {
		out.PublicIP = a.PublicIP.String()
	}
	if a.PublicIPv6.IsValid() {
		v6 := a.PublicIPv6.String()
		out.PublicIPv6 = &v6
	}
	return json.Marshal(out)
}

// ParseAttrs reads a lease value. It refuses what no node could mean: values
// over MaxValue, and addresses that are not one host's.
func ParseAttrs(value []byte) (Attrs, error) {
	if len(value) > MaxValue {
		return Attrs{}, fmt.Errorf("lease value has %d bytes, more than %d", len(value), MaxValue)
	}
	var in attrsJSON
	if err := json.Unmarshal(value, &in); err != nil {
		return Attrs{}, fmt.Errorf("lease value is not flannel's JSON: %w", err)
	}
	a := Attrs{
		BackendType:   in.BackendType,
		BackendData:   compact(in.BackendData),
		BackendV6Data: compact(in.BackendV6Data),
	}
	var err error
	if in.PublicIP != noPublicIP && in.PublicIP != "" {
		if a.PublicIP, err = netip.ParseAddr(in.PublicIP); err != nil {
			return Attrs{}, fmt.Errorf("PublicIP: %w", err)
		}
	}
	if in.PublicIPv6 != nil {
		if a.PublicIPv6, err = netip.ParseAddr(*in.PublicIPv6); err != nil {
			return Attrs{}, fmt.Errorf("PublicIPv6: %w", err)
		}
	}
	return a, a.check()
}

// UnmarshalJSON is ParseAttrs.
func (a *Attrs) UnmarshalJSON(value []byte) (err error) {
	*a, err = ParseAttrs(value)
	return err
}

// check is what both directions demand.
func (a Attrs) check() error {
	switch {
	case !a.PublicIP.IsValid() && !a.PublicIPv6.IsValid():
		return fmt.Errorf("PublicIP is missing: a lease needs its node's underlay address")
	case a.PublicIP.IsValid() && (!a.PublicIP.Is4() || !oneHost(a.PublicIP)):
		return fmt.Errorf("PublicIP %s is not an IPv4 address of one host", a.PublicIP)
	case a.PublicIPv6.IsValid() && (!a.PublicIPv6.Is6() || a.PublicIPv6.Is4In6() ||
		a.PublicIPv6.Zone() != "" || !oneHost(a.PublicIPv6)):
		return fmt.Errorf("PublicIPv6 %s is not an IPv6 address of one host", a.PublicIPv6)
	case len(a.BackendType) > maxBackendType:
		return fmt.Errorf("BackendType has %d bytes, more than %d", len(a.BackendType), maxBackendType)
	}
	return nil
}

// oneHost says whether packets for the address can leave to one other machine.
func oneHost(a netip.Addr) bool {
	if a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
		return false
	}
	if a.Is4() {
		b := a.As4()
		return b[0] != 0 && b[0] < 240 // RFC 1122 3.2.1.3 "this network", RFC 1112 class E
	}
	return true
}

// compact brings raw JSON to the form that comparing by bytes needs. It has been
// parsed before, so it is valid; null means absent.
func compact(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}
