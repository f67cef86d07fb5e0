package lease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// MaxConfig is the longest network configuration taken from a store, in bytes.
const MaxConfig = 64 << 10

// DefaultBackend is what a configuration without a Backend means, whatever the
// documentation of flannel says.
const DefaultBackend = "udp"

// NetworkConfig is the cluster's network configuration, with every default
// filled in. It is a value; Backend is not written to after parsing.
type NetworkConfig struct {
	EnableIPv4, EnableIPv6, EnableNFTables bool

	Network              netip.Prefix // IPv4, valid if EnableIPv4
	SubnetLen            int
	SubnetMin, SubnetMax netip.Addr // first and last subnet to give out, inclusive

	IPv6Network                  netip.Prefix // valid if EnableIPv6
	IPv6SubnetLen                int
	IPv6SubnetMin, IPv6SubnetMax netip.Addr

	BackendType string          // lower case; "udp" when no backend is named
	Backend     json.RawMessage // the whole backend object, for the backend to read
}

// configJSON is the configuration as written: what is left out is its zero value.
type configJSON struct {
	EnableIPv4     *bool
	EnableIPv6     bool
	EnableNFTables bool

	Network   string
	SubnetLen int
	SubnetMin string
	SubnetMax string

	IPv6Network   string `json:",omitempty"`
	IPv6SubnetLen int    `json:",omitempty"`
	IPv6SubnetMin string `json:",omitempty"`
	IPv6SubnetMax string `json:",omitempty"`

	Backend json.RawMessage `json:",omitempty"`
}

// ParseConfig reads the JSON under <prefix>/config as flanneld does, fills in the
// defaults, and checks the bounds. Field names are matched without regard to
// case; unknown ones are ignored.
func ParseConfig(value []byte) (NetworkConfig, error) {
	if len(value) > MaxConfig {
		return NetworkConfig{}, fmt.Errorf("network configuration has %d bytes, more than %d", len(value), MaxConfig)
	}
	var in configJSON
	if err := json.Unmarshal(value, &in); err != nil {
		return NetworkConfig{}, fmt.Errorf("network configuration is not valid JSON: %w", err)
	}
	c := NetworkConfig{
		EnableIPv4:     in.EnableIPv4 == nil || *in.EnableIPv4,
		EnableIPv6:     in.EnableIPv6,
		EnableNFTables: in.EnableNFTables,
	}
	if !c.EnableIPv4 && !c.EnableIPv6 {
		return NetworkConfig{}, errors.New("EnableIPv4 and EnableIPv6 are both false: enable one")
	}
	if err := c.setSubnets(in); err != nil {
		return NetworkConfig{}, err
	}
	if err := c.setBackend(in.Backend); err != nil {
		return NetworkConfig{}, err
	}
	return c, nil
}

func (c *NetworkConfig) setSubnets(in configJSON) (err error) {
	if c.EnableIPv4 {
		w := written{in.Network, in.SubnetLen, in.SubnetMin, in.SubnetMax}
		c.Network, c.SubnetLen, c.SubnetMin, c.SubnetMax, err = ipv4.resolve(w)
		if err != nil {
			return err
		}
	}
	if c.EnableIPv6 {
		w := written{in.IPv6Network, in.IPv6SubnetLen, in.IPv6SubnetMin, in.IPv6SubnetMax}
		c.IPv6Network, c.IPv6SubnetLen, c.IPv6SubnetMin, c.IPv6SubnetMax, err = ipv6.resolve(w)
	}
	return err
}

func (c *NetworkConfig) setBackend(raw json.RawMessage) error {
	c.BackendType = DefaultBackend
	if len(raw) == 0 {
		return nil
	}
	var in struct{ Type string }
	if err := json.Unmarshal(raw, &in); err != nil {
		return fmt.Errorf("field Backend is not an object with a Type: %w", err)
	}
	if in.Type == "" {
		return errors.New(`field Backend has no Type: write e.g. {"Type": "vxlan"}, or leave Backend out for udp`)
	}
	if len(in.Type) > maxBackendType {
		return fmt.Errorf("Backend.Type has %d bytes, more than %d", len(in.Type), maxBackendType)
	}
	c.BackendType = strings.ToLower(in.Type)
	c.Backend = compact(raw)
	return nil
}

// MarshalJSON writes the configuration with every default explicit, so that
// ParseConfig gives it back.
func (c NetworkConfig) MarshalJSON() ([]byte, error) {
	out := configJSON{
		EnableIPv4:     &c.EnableIPv4,
		EnableIPv6:     c.EnableIPv6,
		EnableNFTables: c.EnableNFTables,
		Backend:        c.Backend,
	}
	if c.EnableIPv4 {
		out.Network, out.SubnetLen = c.Network.String(), c.SubnetLen
		out.SubnetMin, out.SubnetMax = c.SubnetMin.String(), c.SubnetMax.String()
	}
	if c.EnableIPv6 {
		out.IPv6Network, out.IPv6SubnetLen = c.IPv6Network.String(), c.IPv6SubnetLen
		out.IPv6SubnetMin, out.IPv6SubnetMax = c.IPv6SubnetMin.String(), c.IPv6SubnetMax.String()
	}
	return json.Marshal(out)
}

// Equal compares by value.
func (c NetworkConfig) Equal(o NetworkConfig) bool {
	a, errA := c.MarshalJSON()
	b, errB := o.MarshalJSON()
	return errA == nil && errB == nil && bytes.Equal(a, b)
}
