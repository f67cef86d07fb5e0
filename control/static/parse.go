package static

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"flanx/control/lease"
)

// MaxFile is the longest file taken, in bytes; 65536 nodes need about 8 MiB.
const MaxFile = 32 << 20

// content is a file that could be read, with the nodes that could not set apart.
type content struct {
	network lease.NetworkConfig
	leases  []lease.Lease
	bad     []error // one per node that is left out
}

// document is the file as written.
type document struct {
	Network json.RawMessage   `json:"network"`
	Nodes   []json.RawMessage `json:"nodes"`
}

type node struct {
	Subnet      netip.Prefix    `json:"subnet"`
	IPv6Subnet  netip.Prefix    `json:"ipv6Subnet"`
	PublicIP    netip.Addr      `json:"publicIP"`
	PublicIPv6  netip.Addr      `json:"publicIPv6"`
	VtepMAC     *lease.MAC      `json:"vtepMAC"`
	VtepMACv6   *lease.MAC      `json:"vtepMACv6"`
	BackendType *string         `json:"backendType"`
	BackendData json.RawMessage `json:"backendData"`
}

// errNoNetwork says that the file has no network configuration.
var errNoNetwork = errors.New(`field "network" is missing: write flannel's network configuration there`)

// parse reads a whole file.
func parse(data []byte) (content, error) {
	if len(data) > MaxFile {
		return content{}, fmt.Errorf("file is larger than %d bytes", MaxFile)
	}
	var doc document
	if err := strict(data, &doc); err != nil {
		return content{}, err
	}
	if len(doc.Network) == 0 {
		return content{}, errNoNetwork
	}
	var c content
	var err error
	if c.network, err = lease.ParseConfig(doc.Network); err != nil {
		return content{}, fmt.Errorf(`field "network": %w`, err)
	}
	seen := map[lease.Subnets]int{}
	for i, raw := range doc.Nodes {
		l, err := parseNode(raw, c.network)
		if first, twice := seen[l.Subnets]; err == nil && twice {
			err = fmt.Errorf("subnet %s is node %d's already", l.Subnets, first)
		}
		if err != nil {
			c.bad = append(c.bad, fmt.Errorf("node %d: %w", i+1, err))
			continue
		}
		seen[l.Subnets] = i + 1
		c.leases = append(c.leases, l)
	}
	return c, nil
}

// strict decodes one value and refuses fields that it does not know: in a file
// that people write they are slips of the pen.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the end of the JSON value")
	}
	return nil
}

func parseNode(raw json.RawMessage, network lease.NetworkConfig) (lease.Lease, error) {
	if len(raw) > lease.MaxValue {
		return lease.Lease{}, fmt.Errorf("it has %d bytes, more than %d", len(raw), lease.MaxValue)
	}
	var n node
	if err := strict(raw, &n); err != nil {
		return lease.Lease{}, err
	}
	l := lease.Lease{
		Subnets: lease.Subnets{V4: n.Subnet, V6: n.IPv6Subnet},
		Attrs:   lease.Attrs{PublicIP: n.PublicIP, PublicIPv6: n.PublicIPv6},
	}
	if n.Subnet != n.Subnet.Masked() || n.IPv6Subnet != n.IPv6Subnet.Masked() {
		return l, fmt.Errorf("subnets %s have host bits set", l.Subnets)
	}
	if err := network.Fits(l.Subnets); err != nil {
		return l, err
	}
	if err := n.backend(&l.Attrs, network); err != nil {
		return l, err
	}
	// What flannel would not take is not taken here either.
	value, err := json.Marshal(l.Attrs)
	if err != nil {
		return l, err
	}
	l.Attrs, err = lease.ParseAttrs(value)
	return l, err
}

// backend fills in what the node's backend needs to know.
func (n node) backend(a *lease.Attrs, network lease.NetworkConfig) error {
	kind := network.BackendType
	if n.BackendType != nil {
		kind = *n.BackendType
	}
	if kind != lease.DefaultBackend { // flannel's udp leases do not say so
		a.BackendType = kind
	}
	if n.VtepMAC != nil && n.BackendData != nil {
		return errors.New("it has both vtepMAC and backendData: give one")
	}
	a.BackendData = n.BackendData
	if n.VtepMAC == nil && n.VtepMACv6 == nil {
		return nil
	}
	vxlan, err := network.VXLAN()
	if err != nil || kind != network.BackendType {
		return errors.New("it has vtepMAC, which is for vxlan alone")
	}
	for _, v := range []struct {
		mac  *lease.MAC
		data *json.RawMessage
	}{{n.VtepMAC, &a.BackendData}, {n.VtepMACv6, &a.BackendV6Data}} {
		if v.mac == nil {
			continue
		}
		if !v.mac.IsUnicast() {
			return fmt.Errorf("vtepMAC %s is not the address of one device", v.mac)
		}
		*v.data = lease.VXLANData{VNI: vxlan.VNI, VtepMAC: *v.mac}.Encode()
	}
	return nil
}
