// Package naive is the tunnel that a Go program gets without effort:
// songgao/water for the TUN device, net.UDPConn for the network, one packet per
// system call, one goroutine per direction, the packet itself as payload
// (flannel's udp form). It is what the benchmark compares with. It checks no
// sender and must run in a lab only.
package naive
