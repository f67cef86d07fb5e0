package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
)

// zeroCopyDevices names two devices that a cable joins and that offer
// zero-copy, such as "eth0,eth1": no namespace can be made to have them, so the
// tests of zero-copy run where somebody says that they are (a virtual machine).
const zeroCopyDevices = "FLANX_ZEROCOPY_DEVICES"

// nic is AF_XDP on one of the two devices.
type nic struct {
	name string
	addr netip.Addr
	mac  net.HardwareAddr
	*XSK
}

func openDevices(t *testing.T) [2]*nic {
	t.Helper()
	value, ok := os.LookupEnv(zeroCopyDevices)
	if !ok {
		t.Skipf("%s names no devices", zeroCopyDevices)
	}
	names := strings.Split(value, ",")
	if len(names) != 2 {
		t.Fatalf("%s=%q: want two devices", zeroCopyDevices, value)
	}
	var nics [2]*nic
	for i, name := range names {
		ifi, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		nics[i] = &nic{name: name, mac: ifi.HardwareAddr, addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})}
		g, err := Climb(XSKConfig{IfIndex: ifi.Index, IPv4: nics[i].addr, Port: xskPort, Frames: 1024}, Auto)
		if err != nil {
			t.Fatal(err)
		}
		if g.Rung != ZeroCopy {
			t.Fatalf("%s: granted %s", name, g)
		}
		t.Cleanup(func() { _ = g.XSK.Close() })
		nics[i].XSK = g.XSK
	}
	return nics
}

// TestZeroCopyDevices sends numbered packets of all lengths both ways in bursts
// of changing size, through devices that read and write our frames themselves.
func TestZeroCopyDevices(t *testing.T) {
	const total = 20_000
	nics := openDevices(t)
	a, b := nics[0], nics[1]
	a.awaitLink(t, b)
	for sent := 0; sent < total; {
		burst := min(1+sent%61, a.Ports[0].Room(), total-sent)
		if burst == 0 {
			a.flush(t)
			continue
		}
		length := 64 + sent*37%(1514-64)
		a.send(t, b, sent, burst, length)
		b.expect(t, sent, burst, length)
		b.send(t, a, sent, burst, length)
		a.expect(t, sent, burst, length)
		sent += burst
	}
	for _, n := range nics {
		p := n.Ports[0]
		for deadline := time.Now().Add(xskPatience); time.Now().Before(deadline); {
			if _, tx := p.Held(); tx == 0 {
				break
			}
			n.flush(t)
		}
		rx, tx := p.Held()
		if tx != 0 || p.Pool().Free()+rx != p.Pool().Frames() {
			t.Errorf("%s: %d free, %d receiving, %d sending of %d frames", n.name, p.Pool().Free(), rx, tx, p.Pool().Frames())
		}
		st, err := p.Statistics()
		if c := p.Counters(); err != nil || st.Dropped+st.RingFull+st.BadTX+c.BadDescs+c.BadCompletions != 0 {
			t.Errorf("%s: %+v, %+v, %v", n.name, st, *c, err)
		}
		fmt.Printf("%s: %d queues, %+v\n", n.name, len(n.Ports), *p.Counters())
	}
}

// TestZeroCopyReopen: closing and opening again without pause works on a real
// driver too.
func TestZeroCopyReopen(t *testing.T) {
	for range 5 {
		nics := openDevices(t)
		nics[0].awaitLink(t, nics[1])
		if err := errors.Join(nics[0].Close(), nics[1].Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestZeroCopySurvivesIdleness: a driver that went to sleep is woken by both
// rings.
func TestZeroCopySurvivesIdleness(t *testing.T) {
	nics := openDevices(t)
	a, b := nics[0], nics[1]
	a.awaitLink(t, b)
	for i := range 20 {
		time.Sleep(20 * time.Millisecond)
		a.send(t, b, i, 1, 100)
		b.expect(t, i, 1, 100)
	}
	// More than the fill ring, unread: what overruns it is lost, but the device
	// goes on when it is read again.
	p := a.Ports[0]
	for range 40 {
		if n := min(p.Room(), 32); n > 0 {
			a.send(t, b, 0, n, 100)
		}
		a.flush(t)
		time.Sleep(time.Millisecond)
	}
	collect(t, b.Ports[0], 1<<20, 300*time.Millisecond)
	a.send(t, b, 77, 10, 100)
	b.expect(t, 77, 10, 100)
}

// awaitLink sends until something arrives: drivers reset their link on attach.
func (n *nic) awaitLink(t *testing.T, to *nic) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		n.send(t, to, 0, 1, 100)
		if len(collect(t, to.Ports[0], 1, 50*time.Millisecond)) > 0 {
			collect(t, to.Ports[0], 1<<20, 100*time.Millisecond) // stragglers
			return
		}
	}
	t.Fatalf("nothing arrives from %s on %s", n.name, to.name)
}

func (n *nic) flush(t *testing.T) {
	t.Helper()
	if err := n.Ports[0].Flush(); err != nil {
		t.Fatal(err)
	}
}

// send sends the packets numbered from first on in one batch.
func (n *nic) send(t *testing.T, to *nic, first, count, length int) {
	t.Helper()
	p := n.Ports[0]
	b := packet.NewBatch(p.Pool(), count)
	for i := range count {
		j, _, ok := b.Extend()
		if !ok {
			t.Fatalf("%s: no frame", n.name)
		}
		b.Resize(j, length)
		stampFrame(b.Bytes(j), n, to, first+i)
	}
	if err := errors.Join(p.Send(b), p.Flush()); err != nil {
		t.Fatal(err)
	}
	for reason, dropped := range b.Drops() {
		if dropped > 0 {
			t.Fatalf("%s: dropped %d for %s", n.name, dropped, packet.Reason(reason))
		}
	}
}

// stampFrame writes headers that pass the filter, and the number everywhere else.
func stampFrame(f []byte, from, to *nic, number int) {
	clear(f)
	copy(f, to.mac)
	copy(f[6:], from.mac)
	copy(f[12:], []byte{8, 0, 0x45})
	binary.BigEndian.PutUint16(f[16:], uint16(len(f)-14))
	f[22], f[23] = 64, unix.IPPROTO_UDP
	copy(f[26:], from.addr.AsSlice())
	copy(f[30:], to.addr.AsSlice())
	binary.BigEndian.PutUint16(f[36:], xskPort)
	binary.BigEndian.PutUint16(f[38:], uint16(len(f)-34))
	for at := 42; at+4 <= len(f); at += 4 {
		binary.BigEndian.PutUint32(f[at:], uint32(number)<<12|uint32(at))
	}
}

func (n *nic) expect(t *testing.T, first, count, length int) {
	t.Helper()
	got := collect(t, n.Ports[0], count, xskPatience)
	if len(got) != count {
		st, err := n.Ports[0].Statistics()
		t.Fatalf("%s: %d packets of %d, from number %d; %+v, %v", n.name, len(got), count, first, st, err)
	}
	for i, f := range got {
		if len(f) != length {
			t.Fatalf("%s: packet %d is %d bytes, want %d", n.name, first+i, len(f), length)
		}
		for at := 42; at+4 <= len(f); at += 4 {
			if v := binary.BigEndian.Uint32(f[at:]); v != uint32(first+i)<<12|uint32(at) {
				t.Fatalf("%s: packet %d at byte %d holds %#x", n.name, first+i, at, v)
			}
		}
	}
}
