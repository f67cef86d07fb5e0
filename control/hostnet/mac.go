package hostnet

import (
	"crypto/rand"
	"net"
)

// RandomMAC returns a random MAC for a new VTEP: locally administered, unicast
// (IEEE 802, the two low bits of the first byte).
func RandomMAC() net.HardwareAddr {
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac) // never fails (crypto/rand)
	mac[0] = mac[0]&^1 | 2
	return mac
}
