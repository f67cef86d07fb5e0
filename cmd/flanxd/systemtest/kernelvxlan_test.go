package systemtest

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"flanx/perf/gen"
	"flanx/perf/lab"
)

// What a kernel VXLAN node and ours send each other must arrive, whichever way
// ours is on the wire, and whatever the veth's ends leave to each other to do:
// with offloads on, packets of 64 KiB and unfinished checksums come across.
func TestKernelVXLAN(t *testing.T) {
	for _, offloads := range []bool{false, true} {
		name := "offloads off"
		if offloads {
			name = "offloads on"
		}
		t.Run(name, func(t *testing.T) {
			parallel(t)
			w := newWorld(t, lab.Wire{Offloads: offloads}, vxlan, "ours", "kernel")
			e := &exchange{
				world: w, peer: newKernelPeer(w, w.hosts[1], netip.MustParsePrefix("10.244.9.0/24"), "5a:00:00:00:00:09"),
			}
			for _, io := range []string{"native", "generic", "udp", "auto"} {
				if io == "generic" && offloads { // would lose packets there
					e.refused(e.hosts[0], exitPrivilege, []string{"super-packets", "ethtool -K eth0"}, "-io", io)
					continue
				}
				e.run(io)
			}
		})
	}
}

// exchange is one daemon and one kernel peer, with a pod behind each.
type exchange struct {
	*world
	peer     *kernelPeer
	pod, far *lab.Pod
	daemon   *daemon
}

func (e *exchange) run(io string) {
	began := time.Now()
	d := e.start(e.hosts[0], "-io", io)
	defer d.stop()
	e.daemon = d
	way, why := d.granted()
	if io != "auto" && !strings.HasPrefix(strings.ToLower(way), io) || way == "" {
		e.Errorf("-io %s: granted %q (%s)", io, way, why)
	}
	e.peer.meet(d)
	e.pods()
	before := checksumErrors(e.T, e.peer.host) + checksumErrors(e.T, d.host)
	reach(e.T, d.host, d.addr(), e.peer.addr())
	e.pings()
	e.streams()
	e.datagrams()
	if after := checksumErrors(e.T, e.peer.host) + checksumErrors(e.T, d.host); after != before {
		e.Errorf("-io %s: %d packets with wrong checksums arrived", io, after-before)
	}
	e.Logf("-io %s: granted %s (%s), all in %s", io, way, why, time.Since(began).Round(time.Millisecond))
}

// pods are made once, when our subnet is known: it stays the same.
func (e *exchange) pods() {
	if e.pod == nil {
		e.pod = newPod(e.T, e.daemon.host, e.daemon.subnet, e.daemon.mtu)
		e.far = newPod(e.T, e.peer.host, e.peer.subnet, e.daemon.mtu)
	}
}

// pings go both ways, small and as large as the overlay's MTU lets pass with DF
// set, which the kernel sets on all that fits.
func (e *exchange) pings() {
	whole := e.daemon.mtu - 20 - 8
	for _, size := range []int{8, 56, whole} {
		ping(e.T, e.daemon.host, e.daemon.addr(), e.peer.addr(), size)
		ping(e.T, e.peer.host, e.peer.addr(), e.daemon.addr(), size)
	}
	ping(e.T, e.pod.Host, e.pod.Addr(), e.far.Addr(), whole)
}

// streams are TCP between the pods and between the nodes themselves.
func (e *exchange) streams() {
	const bytes = 4 << 20
	transfer(e.T, e.pod.Host, e.far.Host, e.pod.Addr(), e.far.Addr(), bytes)
	transfer(e.T, e.far.Host, e.pod.Host, e.far.Addr(), e.pod.Addr(), bytes)
	transfer(e.T, e.peer.host, e.daemon.host, e.peer.addr(), e.daemon.addr(), bytes)
	transfer(e.T, e.daemon.host, e.peer.host, e.daemon.addr(), e.peer.addr(), bytes)
}

// datagrams leave the sender in bursts of eight, which a stack with offloads
// sends as one packet to be cut later. The rate is far from any limit, so none may
// be lost.
func (e *exchange) datagrams() {
	for _, way := range [][2]*lab.Pod{{e.pod, e.far}, {e.far, e.pod}} {
		from, to := way[0], way[1]
		res, err := gen.Flood(within(e.T), from.Do, to.Do, gen.FloodConfig{
			From: netip.AddrPortFrom(from.Addr(), 0), To: netip.AddrPortFrom(to.Addr(), 0),
			Size: 1000, Burst: 8, Rate: 800, Duration: 300 * time.Millisecond, Settle: time.Second,
		})
		if err != nil || res.Lost != 0 || res.Foreign != 0 || res.Received == 0 {
			e.Errorf("datagrams from %s to %s: %+v, %v", from.Addr(), to.Addr(), res, err)
		}
	}
}
