package systemtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"flanx/encap/header"
	"flanx/perf/lab"
)

// udpPort is where flannel's udp backend sends from and to.
const udpPort = 8285

// udpPeer is a node that speaks flannel's udp backend in its plainest form: one
// inner packet per datagram, between a TUN device and a socket, one hop taken from
// the TTL on either way. It judges nothing.
type udpPeer struct {
	*world
	host   *lab.Host
	subnet netip.Prefix
	tun    *os.File
	socket *net.UDPConn

	mu   sync.Mutex
	to   netip.AddrPort // the only other node
	ttls map[uint8]int  // of the inner packets that came in, after our hop
}

// newUDPPeer writes the lease and starts forwarding.
func newUDPPeer(w *world, h *lab.Host, subnet netip.Prefix) *udpPeer {
	w.Helper()
	p := &udpPeer{world: w, host: h, subnet: subnet, ttls: map[uint8]int{}}
	if err := h.Do(p.open); err != nil {
		w.Fatal(err)
	}
	mtu := device(w.T, h, "eth0").MTU - 28
	ip(w.T, h,
		fmt.Sprintf("addr add %s/32 dev flannel0", p.addr()),
		fmt.Sprintf("link set flannel0 mtu %d up", mtu),
		"route add "+network+" dev flannel0",
	)
	var wg sync.WaitGroup
	wg.Go(p.outward)
	wg.Go(p.inward)
	w.Cleanup(func() {
		_, _ = p.tun.Close(), p.socket.Close()
		wg.Wait()
	})
	w.putLease(subnet, fmt.Sprintf(`{"PublicIP":"%s","PublicIPv6":null}`, h.Addr()))
	return p
}

// open makes the TUN and the socket in the calling thread's namespace.
func (p *udpPeer) open() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open TUN: %w", err)
	}
	req, err := unix.NewIfreq("flannel0")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return errors.Join(fmt.Errorf("make TUN: %w", err), unix.Close(fd))
	}
	p.tun = os.NewFile(uintptr(fd), "tun") // after TUNSETIFF, or it could not be waited for
	p.socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.host.Addr(), udpPort)))
	return err
}

func (p *udpPeer) addr() netip.Addr { return node(p.subnet) }

// meet makes everything go to that daemon.
func (p *udpPeer) meet(d *daemon) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = netip.AddrPortFrom(d.host.Addr(), udpPort)
}

func (p *udpPeer) outward() {
	buf := make([]byte, 1<<16)
	for {
		n, err := p.tun.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		to := p.to
		p.mu.Unlock()
		if to.IsValid() && header.IPVersion(buf[:n]) == 4 && header.IPv4(buf).DecrementTTL() {
			_, _ = p.socket.WriteToUDPAddrPort(buf[:n], to) // lost packets show at the far end
		}
	}
}

func (p *udpPeer) inward() {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := p.socket.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if n < header.IPv4Len || header.IPVersion(buf[:n]) != 4 || !header.IPv4(buf).DecrementTTL() {
			continue
		}
		p.mu.Lock()
		p.ttls[header.IPv4(buf).TTL()]++
		p.mu.Unlock()
		_, _ = p.tun.Write(buf[:n])
	}
}

// arrived returns how many packets came in with each TTL, and forgets them.
func (p *udpPeer) arrived() map[uint8]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	ttls := p.ttls
	p.ttls = map[uint8]int{}
	return ttls
}
