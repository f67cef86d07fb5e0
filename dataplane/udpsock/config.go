package udpsock

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// ErrConfig says that a socket was asked for that cannot be made.
var ErrConfig = errors.New("invalid UDP port")

// perCall is how many messages one system call carries at most.
const perCall = 64

// Defaults of a Config that leaves these zero.
const (
	DefaultBatch      = 64
	DefaultRecvBuffer = 4 << 20 // bytes: some 10 ms of small packets at full speed
	DefaultSendBuffer = 1 << 20 // bytes: beyond it the TUN's queue is the better place to wait
)

// maxBatch bounds the frames that a port may hold.
const maxBatch = 4096

// Config describes a socket.
type Config struct {
	// Local is the underlay address and the tunnel port to bind to. A
	// link-local IPv6 address needs its zone. Port 0 takes any.
	Local netip.AddrPort
	// DF forbids to fragment the outer packet, as flannel's udp backend does:
	// one that exceeds the MTU of the path is dropped as TooBig. Without it the
	// kernel fragments, as its VXLAN device does by default.
	DF bool
	// Batch is what Room answers when nothing is held; 0 means DefaultBatch,
	// the most is 4,096.
	Batch int
	// RecvBuffer and SendBuffer are the socket's buffers in bytes; 0 means the
	// defaults. The kernel gives less where it must (net.core.rmem_max and
	// wmem_max bind those without CAP_NET_ADMIN).
	RecvBuffer, SendBuffer int
	// Shared lets other sockets that say so too bind the same port
	// (SO_REUSEPORT): one for each worker.
	Shared bool
	// TunnelHeader is how many bytes of a datagram come before the inner IP
	// packet, and MaxInner how long an inner packet may be, in bytes. With them, a
	// datagram that holds a longer TCP segment is cut into such; without them it
	// is dropped, as everything that is longer than its frame.
	TunnelHeader, MaxInner int
}

func (c Config) withDefaults() (Config, error) {
	c.Batch = orDefault(c.Batch, DefaultBatch)
	c.RecvBuffer = orDefault(c.RecvBuffer, DefaultRecvBuffer)
	c.SendBuffer = orDefault(c.SendBuffer, DefaultSendBuffer)
	addr := c.Local.Addr()
	switch {
	case !addr.IsValid() || addr.Is4In6() || addr.IsMulticast():
		return c, fmt.Errorf("%w: cannot bind to %v", ErrConfig, c.Local)
	case c.Batch < 1 || c.Batch > maxBatch:
		return c, fmt.Errorf("%w: batch %d, want 1 to %d", ErrConfig, c.Batch, maxBatch)
	case c.RecvBuffer < 0 || c.SendBuffer < 0:
		return c, fmt.Errorf("%w: buffers of %d and %d bytes", ErrConfig, c.RecvBuffer, c.SendBuffer)
	case c.TunnelHeader < 0 || c.MaxInner < 0:
		return c, fmt.Errorf("%w: %d bytes of tunnel header, inner packets of %d", ErrConfig, c.TunnelHeader, c.MaxInner)
	}
	return c, nil
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}

// scope returns the interface index that belongs to a zone; 0 for none.
func scope(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if index, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(index), nil
	}
	link, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("find zone %s: %w", zone, err)
	}
	return uint32(link.Index), nil
}
