package vxlan

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"flanx/dataplane/packet"
	"flanx/encap"
	"flanx/encap/encaptest"
	"flanx/encap/header"
)

// kernelCapture holds what a kernel's VXLAN devices, set up as flannel does,
// put on a veth: over IPv4 and over IPv6 each a ping, a UDP datagram and a TCP
// SYN. TestKernelEmits took it.
const kernelCapture = "../../testdata/encap/kernel_vxlan.pcap"

// hosts are the inner destinations of the capture.
var hosts = []string{"10.5.2.5", "fd05:0:0:2::5"}

// TestKernelEmits takes the capture anew and judges that, so the file cannot
// grow stale unseen. With -update it becomes the file.
func TestKernelEmits(t *testing.T) {
	l := newKernelLab(t)
	var frames [][]byte
	for _, host := range hosts {
		l.emit(host)
		for range 3 {
			f := l.receive(5 * time.Second)
			if f == nil {
				t.Fatalf("the kernel sent %d frames in all, the next to %s is missing", len(frames), host)
			}
			frames = append(frames, f)
		}
	}
	if *update {
		writeCapture(t, frames)
	}
	checkCapture(t, frames)
}

// TestKernelCapture judges the file, without privilege.
func TestKernelCapture(t *testing.T) { checkCapture(t, readCapture(t)) }

func writeCapture(t *testing.T, frames [][]byte) {
	t.Helper()
	f, err := os.Create(kernelCapture)
	must(t, err)
	w := pcapgo.NewWriter(f)
	must(t, w.WriteFileHeader(65535, layers.LinkTypeEthernet))
	for i, p := range frames {
		ci := gopacket.CaptureInfo{Timestamp: time.UnixMilli(int64(i)), CaptureLength: len(p), Length: len(p)}
		must(t, w.WritePacket(ci, p))
	}
	must(t, f.Close())
}

func readCapture(tb testing.TB) (frames [][]byte) {
	tb.Helper()
	f, err := os.Open(kernelCapture)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	for {
		p, _, err := r.ReadPacketData()
		if err != nil {
			break // the end; how many there are is checked
		}
		frames = append(frames, p)
	}
	return frames
}

// checkCapture holds that B's codec unwraps each frame to the packet that
// gopacket finds inside it, that the checksums the kernel left open are filled
// in, and that A's codec, in the kernel's place, would have sent the same.
func checkCapture(t *testing.T, frames [][]byte) {
	t.Helper()
	if len(frames) != 6 {
		t.Fatalf("%d frames, want 6", len(frames))
	}
	a, b := nodes(t, Config{})
	for i, f := range frames {
		way := []encap.Peer{way4, way6}[i/3]
		inside := innerOf(t, f)
		open := isOpen(inside)
		if wantOpen := i%3 != 0; open != wantOpen {
			t.Errorf("frame %d: inner checksum left open: %v, want %v", i, open, wantOpen)
		}
		batch := batch(t, f)
		b.Pop(batch)
		if !batch.Live(0) {
			t.Errorf("frame %d was dropped: %v\n%x", i, *batch.Drops(), f)
			continue
		}
		got := batch.Bytes(0)
		header.RepairInnerChecksum(got)
		if n, reason, ok := header.CheckInner(got); !ok || n != len(got) {
			t.Errorf("frame %d: inner packet refused: %s", i, reason)
		}
		if !equalBut(got, inside, checksumField(inside)) || open == bytes.Equal(got, inside) {
			t.Errorf("frame %d\n got %x\nwant %x", i, got, inside)
		}
		checkInnerSums(t, got)
		if batch.At(0).Peer != way.Local.As16() {
			t.Errorf("frame %d: peer %x", i, batch.At(0).Peer)
		}
		checkSameHeaders(t, f, push(t, a, way, got))
	}
}

// innerOf returns the inner IP packet as gopacket finds it.
func innerOf(t *testing.T, frame []byte) []byte {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	for i, l := range p.Layers() {
		if l.LayerType() == layers.LayerTypeVXLAN && i+1 < len(p.Layers()) {
			return bytes.Clone(p.Layers()[i+1].LayerPayload())
		}
	}
	t.Fatalf("gopacket finds no VXLAN\n%s", p)
	return nil
}

// checksumField returns where an inner TCP or UDP packet has its checksum, or 0.
func checksumField(p []byte) int {
	at, protocol := header.IPv4Len, p[9]
	if p[0]>>4 == 6 {
		at, protocol = header.IPv6Len, p[6]
	}
	switch protocol {
	case header.ProtocolTCP:
		return at + 16
	case header.ProtocolUDP:
		return at + 6
	default:
		return 0
	}
}

// isOpen says whether the inner checksum is only the pseudo-header's sum.
func isOpen(p []byte) bool { return header.RepairInnerChecksum(bytes.Clone(p)) }

// equalBut compares without the two bytes at a field, if there is one.
func equalBut(a, b []byte, field int) bool {
	a, b = bytes.Clone(a), bytes.Clone(b)
	if field != 0 && len(a) == len(b) {
		copy(a[field:field+2], b[field:field+2])
	}
	return bytes.Equal(a, b)
}

// checkInnerSums lets gopacket verify the inner checksums.
func checkInnerSums(t *testing.T, inner []byte) {
	t.Helper()
	etherType := uint16(header.EtherTypeIPv4)
	if inner[0]>>4 == 6 {
		etherType = header.EtherTypeIPv6
	}
	f := make([]byte, header.EthernetLen, header.EthernetLen+len(inner))
	header.Ethernet(f).SetEtherType(etherType)
	encaptest.CheckSums(t, append(f, inner...))
}

// checkSameHeaders compares the kernel's outer headers with ours, without what
// each chooses freely: ID and source port, and the checksums over them.
func checkSameHeaders(t *testing.T, kernel, ours []byte) {
	t.Helper()
	mask := func(f []byte) []byte {
		n, udp := frameOverhead4, 34
		if f[12] == 0x86 {
			n, udp = frameOverhead6, 54
		} else {
			copy(f[18:20], "id")
			copy(f[24:26], "cs")
		}
		f = bytes.Clone(f[:n])
		copy(f[udp:udp+2], "sp")
		copy(f[udp+6:udp+8], "cs")
		return f
	}
	if k, o := mask(kernel), mask(ours); !bytes.Equal(k, o) {
		t.Errorf("headers differ\nkernel %x\n  ours %x", k, o)
	}
	at := 34
	if kernel[12] == 0x86 {
		at = 54
	}
	if port := header.UDP(kernel[at:]).SrcPort(); port < DefaultSrcPortMin || port > DefaultSrcPortMax {
		t.Errorf("the kernel's source port is %d", port)
	}
}

// TestKernelAnswersUs pings the kernel through our codec: what we push it
// takes, and what it answers we pop.
func TestKernelAnswersUs(t *testing.T) {
	l := newKernelLab(t)
	for name, cfg := range map[string]Config{"with checksum": {}, "without": {NoChecksum: true}} {
		t.Run(name, func(t *testing.T) {
			for _, way := range []encap.Peer{way4, way6} {
				for _, size := range []int{100, 101, 1400} {
					pingKernel(t, l, cfg, way, size)
				}
			}
		})
	}
}

// back turns a way round: from B to A.
func back(way encap.Peer, vtep encap.MAC) encap.Peer {
	way.Local, way.Remote = way.Remote, way.Local
	way.LocalMAC, way.NextHopMAC = way.NextHopMAC, way.LocalMAC
	way.VTEP = vtep
	return way
}

func pingKernel(t *testing.T, l *kernelLab, cfg Config, way encap.Peer, size int) {
	t.Helper()
	_, b := nodes(t, cfg)
	request := echo(way, uint16(size), size)
	vtep := vtepA4
	if way.Remote.Is6() {
		vtep = vtepA6
	}
	l.send(push(t, b, back(way, vtep), request))
	frame := l.receive(5 * time.Second)
	if frame == nil {
		t.Fatalf("no answer to %d bytes over %s", size, way.Remote)
	}
	answer := batch(t, frame)
	b.Pop(answer)
	if !answer.Live(0) {
		t.Fatalf("the answer was dropped: %v", *answer.Drops())
	}
	got := answer.Bytes(0)
	at := header.IPv4Len
	if way.Remote.Is6() {
		at = header.IPv6Len
	}
	if len(got) != len(request) || !bytes.Equal(got[at+4:], request[at+4:]) || got[at] == request[at] {
		t.Errorf("answer %x\nto %x", got, request)
	}
}

// echo returns an ICMP echo request from a host in B's subnet to A's own
// overlay address.
func echo(way encap.Peer, sequence uint16, size int) []byte {
	in := encaptest.Inner{
		Version: 4, Protocol: header.ProtocolICMP, Len: size,
		Src: [16]byte{12: 10, 5, 2, 7}, Dst: [16]byte{12: 10, 5, 1, 0},
	}
	at := header.IPv4Len
	if way.Remote.Is6() {
		in.Version, in.Protocol = 6, header.ProtocolICMPv6
		in.Src, in.Dst = [16]byte{0xfd, 5, 7: 2, 15: 7}, [16]byte{0xfd, 5, 7: 1}
		at = header.IPv6Len
	}
	p := in.Build()
	old := binary.BigEndian.Uint16(p[at+6:])
	binary.BigEndian.PutUint16(p[at+6:], sequence)
	sum := binary.BigEndian.Uint16(p[at+2:])
	binary.BigEndian.PutUint16(p[at+2:], header.Update(sum, old, sequence))
	return p
}

// TestSameVerdictAsKernel sends variations to the kernel and to our codec in
// its place, and compares who takes what.
func TestSameVerdictAsKernel(t *testing.T) {
	l := newKernelLab(t)
	a, _ := nodes(t, Config{})
	variations := kernelVariations()
	kernel := make([]bool, len(variations))
	for i, v := range variations {
		l.send(v.frame(uint16(i)))
	}
	for {
		f := l.receive(500 * time.Millisecond)
		if f == nil {
			break
		}
		inner := innerOf(t, f)
		at := header.IPv4Len
		if inner[0]>>4 == 6 {
			at = header.IPv6Len
		}
		kernel[binary.BigEndian.Uint16(inner[at+6:])] = true
	}
	for i, v := range variations {
		b := batch(t, v.frame(uint16(i)))
		a.Pop(b)
		ours := b.Live(0)
		if ours {
			_, _, ours = header.CheckInner(b.Bytes(0)) // as the worker does
		}
		if ours != kernel[i] && !v.stricter || v.stricter && (ours || !kernel[i]) {
			t.Errorf("%s: the kernel takes it: %v, we: %v %v", v.name, kernel[i], ours, drops(b))
		}
	}
}

func drops(b *packet.Batch) (out []string) {
	for r, n := range b.Drops() {
		if n > 0 {
			out = append(out, packet.Reason(r).String())
		}
	}
	return out
}
