package lease

import (
	"encoding/json"
	"fmt"
	"net"
)

// MaxVNI is the largest VXLAN network identifier: 24 bits (RFC 7348, section 5).
const MaxVNI = 1<<24 - 1

// MAC is an Ethernet address, in JSON as lower-case hex with colons.
type MAC [6]byte

func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MarshalText writes the form with colons.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText takes any six-byte form of net.ParseMAC.
func (m *MAC) UnmarshalText(text []byte) error {
	hw, err := net.ParseMAC(string(text))
	if err != nil {
		return err
	}
	if len(hw) != len(m) {
		return fmt.Errorf("address %s is not 6 bytes long", hw)
	}
	copy(m[:], hw)
	return nil
}

// IsUnicast says whether the address can be one device's: not zero and without
// the group bit.
func (m MAC) IsUnicast() bool { return m != MAC{} && m[0]&1 == 0 }

// VXLANData is the BackendData of a vxlan lease.
type VXLANData struct {
	VNI     uint32 // 0 in leases of old flannels, which did not say
	VtepMAC MAC    // the inner Ethernet address of the node's tunnel end
}

// Encode is the form for BackendData.
func (d VXLANData) Encode() json.RawMessage {
	return fmt.Appendf(nil, `{"VNI":%d,"VtepMAC":%q}`, d.VNI, d.VtepMAC.String())
}

// ParseVXLANData reads the BackendData or BackendV6Data of a vxlan lease.
func ParseVXLANData(raw json.RawMessage) (VXLANData, error) {
	if len(raw) == 0 {
		return VXLANData{}, fmt.Errorf("BackendData is missing: a vxlan lease needs VtepMAC")
	}
	var d VXLANData
	if err := json.Unmarshal(raw, &d); err != nil {
		return VXLANData{}, fmt.Errorf("BackendData is not {VNI, VtepMAC}: %w", err)
	}
	if d.VNI > MaxVNI {
		return VXLANData{}, fmt.Errorf("BackendData.VNI %d is over %d", d.VNI, MaxVNI)
	}
	if !d.VtepMAC.IsUnicast() {
		return VXLANData{}, fmt.Errorf("BackendData.VtepMAC %s is not the address of one device", d.VtepMAC)
	}
	return d, nil
}
