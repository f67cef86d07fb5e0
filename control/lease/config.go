package lease

import (
	"encoding/json"
	"net/netip"
)

// NetworkConfig is the cluster's network configuration, with every default
// filled in.
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
