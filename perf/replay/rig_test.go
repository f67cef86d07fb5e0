package replay

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"testing"

	"flanx/dataplane/memport"
	"flanx/dataplane/packet"
	"flanx/dataplane/pcapport"
	"flanx/encap"
	"flanx/encap/header"
	"flanx/encap/udp"
	"flanx/encap/vxlan"
	"flanx/perf/replay/capture"
	"flanx/perf/replay/pace"
)

func newPool(t testing.TB) *packet.Pool {
	t.Helper()
	p, err := packet.NewPool(128, packet.FrameSize64K)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// opener reads a file from memory, as often as asked.
func opener(file []byte) func() (*capture.Reader, func(), error) {
	return func() (*capture.Reader, func(), error) {
		r, err := capture.New(bytes.NewReader(file))
		return r, func() {}, err
	}
}

// record is one packet of a file to be made.
type record struct {
	at     int64 // nanoseconds
	data   []byte
	length int // on the wire; 0: len(data)
}

// pcapOf makes a nanosecond pcap.
func pcapOf(link int, records ...record) []byte {
	o := binary.LittleEndian
	b := o.AppendUint32(nil, 0xa1b23c4d)
	for _, v := range []uint32{4<<16 | 2, 0, 0, 1 << 18, uint32(link)} {
		b = o.AppendUint32(b, v)
	}
	for _, r := range records {
		for _, v := range []uint32{uint32(r.at / 1e9), uint32(r.at % 1e9), uint32(len(r.data)), uint32(max(r.length, len(r.data)))} {
			b = o.AppendUint32(b, v)
		}
		b = append(b, r.data...)
	}
	return b
}

// ipv4 makes a UDP packet to 10.1.0.1 with a payload.
func ipv4(payload string) []byte {
	b := make([]byte, header.IPv4Len+header.UDPLen+len(payload))
	header.IPv4(b).Encode(header.IPv4Fields{
		TotalLength: uint16(len(b)), TTL: 64, Protocol: header.ProtocolUDP,
		Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 1, 0, 1},
	})
	binary.BigEndian.PutUint16(b[20:], 1000)
	binary.BigEndian.PutUint16(b[22:], 2000)
	binary.BigEndian.PutUint16(b[24:], uint16(header.UDPLen+len(payload)))
	copy(b[28:], payload)
	return b
}

// framed puts an Ethernet header before a packet.
func framed(kind uint16, payload []byte) []byte {
	b := make([]byte, header.EthernetLen, header.EthernetLen+len(payload))
	header.Ethernet(b).Encode(header.EthernetFields{Dst: [6]byte{2, 9}, Src: [6]byte{2, 8}, EtherType: kind})
	return append(b, payload...)
}

var (
	everything4 = netip.MustParsePrefix("0.0.0.0/0")
	everything6 = netip.MustParsePrefix("::/0")
)

func codec(t testing.TB, name string) encap.Codec {
	t.Helper()
	var c encap.Codec
	var err error
	if name == "udp" {
		c, err = udp.New(udp.Config{})
	} else {
		c, err = vxlan.New(vxlan.Config{VNI: 1, VTEP4: encap.MAC{2, 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wrapping(name string) Wrapping {
	if name == "udp" {
		return Wrapping{Port: udp.DefaultPort}
	}
	return Wrapping{VXLAN: true, Port: vxlan.DefaultPort, VNI: 1}
}

// wrapped is an Output that encapsulates everything for one peer.
func wrapped(t testing.TB, name string, port *pcapport.Port, pool *packet.Pool) Output {
	t.Helper()
	c := codec(t, name)
	peer := encap.Peer{
		Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2"),
		LocalMAC: encap.MAC{2, 2}, NextHopMAC: encap.MAC{2, 3}, VTEP: encap.MAC{2, 4},
	}
	peers, err := NewPeers(c, []Peer{{everything4, peer}, {everything6, peer}})
	if err != nil {
		t.Fatal(err)
	}
	return Output{Port: port, Pool: pool, Shape: Wrapped, Codec: c, Peers: peers, Stamp: port.Stamp}
}

// toFile replays into a file in memory.
func toFile(t testing.TB, cfg Config, link uint16, wrap string) ([]byte, *Summary, error) {
	t.Helper()
	var out bytes.Buffer
	port, err := pcapport.New(pcapport.Config{To: &out, LinkType: link})
	if err != nil {
		t.Fatal(err)
	}
	pool := newPool(t)
	shape := cfg.Output.Shape
	cfg.Output = Output{Port: port, Pool: pool, Shape: shape, Stamp: port.Stamp}
	if wrap != "" {
		cfg.Output = wrapped(t, wrap, port, pool)
	}
	cfg.Pace = pace.Config{Top: true}
	sum, err := Run(t.Context(), cfg)
	if pool.Free() != 128 {
		t.Errorf("%d of 128 frames free at the end", pool.Free())
	}
	return out.Bytes(), sum, err
}

// unwrapFile takes a file out of its encapsulation.
func unwrapFile(t testing.TB, file []byte, wrap string) ([]byte, *Summary, error) {
	t.Helper()
	var out bytes.Buffer
	w := wrapping(wrap)
	port, err := pcapport.New(pcapport.Config{To: &out, LinkType: w.LinkType(), Format: pcapport.PCAPNG})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Decapsulate(context.Background(), DecapConfig{Open: opener(file), To: port, Pool: newPool(t), Wrapping: w})
	return out.Bytes(), sum, err
}

// contents lists the records of a file.
func contents(t testing.TB, file []byte) (data [][]byte, times []int64) {
	t.Helper()
	r, err := capture.New(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var rec capture.Record
	for r.Next(&rec) == nil {
		data = append(data, bytes.Clone(rec.Data))
		times = append(times, rec.Time)
	}
	return data, times
}

// toMemory is an Output into memory whose other end is returned.
func toMemory(t testing.TB, depth int) (Output, *memport.Port) {
	t.Helper()
	a, b, err := memport.Pair(memport.Config{Depth: depth})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return Output{Port: a, Pool: newPool(t), Shape: Packets}, b
}
