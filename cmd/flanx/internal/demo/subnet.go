package demo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// subnet is what a daemon tells container runtimes in its subnet file.
type subnet struct {
	network netip.Prefix // of the whole overlay
	gateway netip.Prefix // the node's subnet, with the address of its gateway
	mtu     int
}

// node returns the node's own address on the overlay: the subnet's first.
func (s subnet) node() netip.Addr { return s.gateway.Masked().Addr() }

// pod returns the address that the demo gives its pod: the one after the gateway.
func (s subnet) pod() netip.Addr { return s.gateway.Addr().Next() }

// errSubnetFile is final: a daemon writes the file whole, or not at all.
var errSubnetFile = errors.New("not a flannel subnet file")

// parseSubnet reads KEY=value lines as flannel writes them. Keys that it does
// not need it passes over.
func parseSubnet(b []byte) (subnet, error) {
	var s subnet
	var errs []error
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan(); {
		key, value, _ := strings.Cut(strings.TrimSpace(sc.Text()), "=")
		var err error
		switch key {
		case "FLANNEL_NETWORK":
			s.network, err = netip.ParsePrefix(value)
		case "FLANNEL_SUBNET":
			s.gateway, err = netip.ParsePrefix(value)
		case "FLANNEL_MTU":
			s.mtu, err = strconv.Atoi(value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", errSubnetFile, key, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return subnet{}, err
	}
	if !s.network.IsValid() || !s.gateway.IsValid() || s.mtu <= 0 {
		return subnet{}, fmt.Errorf("%w: want FLANNEL_NETWORK, FLANNEL_SUBNET and FLANNEL_MTU", errSubnetFile)
	}
	return s, nil
}
