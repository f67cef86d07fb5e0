package naive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/songgao/water"
)

// Device is the TUN device's name.
const Device = "naive0"

// Tunnel carries packets between a new TUN device and one peer.
type Tunnel struct {
	tun  *water.Interface
	conn *net.UDPConn
}

// Open makes the device, without an address, and connects to the peer.
func Open(local, peer netip.AddrPort) (*Tunnel, error) {
	tun, err := water.New(water.Config{DeviceType: water.TUN, PlatformSpecificParams: water.PlatformSpecificParams{Name: Device}})
	if err != nil {
		return nil, fmt.Errorf("open device %s: %w", Device, err)
	}
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(local), net.UDPAddrFromAddrPort(peer))
	if err != nil {
		_ = tun.Close()
		return nil, fmt.Errorf("connect %s to %s: %w", local, peer, err)
	}
	return &Tunnel{tun, conn}, nil
}

// Run carries packets until ctx ends or one side fails. The tunnel is closed then.
func (t *Tunnel) Run(ctx context.Context) error {
	ended := make(chan error, 2)
	go func() { ended <- carry(t.conn.Write, t.tun.Read) }()
	go func() { ended <- carry(t.tun.Write, t.conn.Read) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	// Closing the device does not wake a read of water's: the process ends anyway.
	return errors.Join(err, t.conn.Close(), t.tun.Close())
}

func carry(write, read func([]byte) (int, error)) error {
	buf := make([]byte, 1<<16)
	for {
		n, err := read(buf)
		if err == nil {
			_, err = write(buf[:n])
		}
		// The peer may not listen yet, and a packet may be too large: both pass.
		var sys *net.OpError
		if err != nil && !(errors.As(err, &sys) && !errors.Is(err, net.ErrClosed)) {
			return err
		}
	}
}
