package header

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEthernet(t *testing.T) {
	h := make(Ethernet, EthernetLen)
	f := EthernetFields{Dst: [6]byte{1, 2, 3, 4, 5, 6}, Src: [6]byte{7, 8, 9, 10, 11, 12}, EtherType: EtherTypeIPv6}
	h.Encode(f)
	if want := unhex(t, "0102030405060708090a0b0c86dd"); !bytes.Equal(h, want) {
		t.Fatalf("got %x, want %x", []byte(h), want)
	}
	if h.Dst() != f.Dst || h.Src() != f.Src || h.EtherType() != f.EtherType {
		t.Errorf("%x %x %x", h.Dst(), h.Src(), h.EtherType())
	}
	if !IsMulticast(h.Dst()) || !IsMulticast(Broadcast) || IsMulticast([6]byte{2}) {
		t.Error("IsMulticast looks at the wrong bit")
	}
}

func TestIPv4Fields(t *testing.T) {
	h := make(IPv4, IPv4Len)
	f := IPv4Fields{
		TOS: 0xb9, TotalLength: 0x0102, ID: 0x0304, Fragment: IPv4DontFragment, TTL: 63,
		Protocol: ProtocolUDP, Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 0, 0, 2},
	}
	h.Encode(f)
	got := IPv4Fields{
		TOS: h.TOS(), TotalLength: uint16(h.TotalLength()), ID: h.ID(), Fragment: h.Fragment(), TTL: h.TTL(),
		Protocol: h.Protocol(), Src: h.Src(), Dst: h.Dst(),
	}
	if got != f || h.Version() != 4 || h.HeaderLen() != IPv4Len {
		t.Errorf("got %+v, version %d, %d bytes", got, h.Version(), h.HeaderLen())
	}
	if !h.ValidChecksum(IPv4Len) {
		t.Error("Encode wrote a wrong checksum")
	}
	h.SetTotalLength(0x1111)
	h.SetID(0x2222)
	h.SetChecksum(0x3333)
	if h.TotalLength() != 0x1111 || h.ID() != 0x2222 || h.Checksum() != 0x3333 {
		t.Errorf("setters: %x %x %x", h.TotalLength(), h.ID(), h.Checksum())
	}
}

func TestIPv4IsFragment(t *testing.T) {
	for word, want := range map[uint16]bool{0: false, IPv4DontFragment: false, 0x8000: false, IPv4MoreFragments: true, 1: true, 0x1fff: true} {
		h := make(IPv4, IPv4Len)
		h.Encode(IPv4Fields{Fragment: word})
		if h.IsFragment() != want {
			t.Errorf("%#x: %v, want %v", word, h.IsFragment(), want)
		}
	}
}

// TestIPv4ValidChecksum compares with the slow sum, with options and without.
func TestIPv4ValidChecksum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{20, 24, 60} {
		for range 2000 {
			h := IPv4(randomBytes(rng, n))
			if rng.IntN(2) == 0 {
				h.SetChecksum(0)
				h.SetChecksum(^slowSum(h, 0))
			}
			if got, want := h.ValidChecksum(n), slowSum(h, 0) == 0xffff; got != want {
				t.Fatalf("%x: %v, want %v", []byte(h), got, want)
			}
		}
	}
	if ones := IPv4(bytes.Repeat([]byte{0xff}, 20)); !ones.ValidChecksum(20) {
		t.Error("a header of ones sums to all ones")
	}
	if zeros := make(IPv4, 20); zeros.ValidChecksum(20) {
		t.Error("a header of zeros does not")
	}
}

func TestDecrementTTL(t *testing.T) {
	for ttl := range 256 {
		for _, tail := range []uint8{0, 1, 6, 255} {
			h := make(IPv4, IPv4Len)
			h.Encode(IPv4Fields{TTL: uint8(ttl), Protocol: tail, ID: 0xffff})
			before := bytes.Clone(h)
			ok := h.DecrementTTL()
			switch {
			case ok != (ttl > 1):
				t.Fatalf("TTL %d: %v", ttl, ok)
			case !ok && !bytes.Equal(before, h):
				t.Fatalf("TTL %d: a refused change changed the header", ttl)
			case ok && (h.TTL() != uint8(ttl-1) || !h.ValidChecksum(IPv4Len)):
				t.Fatalf("TTL %d: now %d, checksum valid %v", ttl, h.TTL(), h.ValidChecksum(IPv4Len))
			}
		}
	}
}

func TestDecrementHopLimit(t *testing.T) {
	for limit, want := range map[uint8]uint8{0: 0, 1: 1, 2: 1, 64: 63, 255: 254} {
		h := make(IPv6, IPv6Len)
		h.Encode(IPv6Fields{HopLimit: limit})
		if ok := h.DecrementHopLimit(); ok != (limit > 1) || h.HopLimit() != want {
			t.Errorf("%d: %v, now %d", limit, ok, h.HopLimit())
		}
	}
}

func TestIPv6Fields(t *testing.T) {
	h := make(IPv6, IPv6Len)
	f := IPv6Fields{
		TrafficClass: 0xb9, FlowLabel: 0x12345, PayloadLength: 0x0102, NextHeader: ProtocolTCP, HopLimit: 63,
		Src: [16]byte{0xfd, 15: 1}, Dst: [16]byte{0xfd, 15: 2},
	}
	h.Encode(f)
	got := IPv6Fields{
		TrafficClass: h.TrafficClass(), FlowLabel: h.FlowLabel(), PayloadLength: uint16(h.PayloadLength()),
		NextHeader: h.NextHeader(), HopLimit: h.HopLimit(), Src: h.Src(), Dst: h.Dst(),
	}
	if got != f || h.Version() != 6 {
		t.Errorf("got %+v, version %d", got, h.Version())
	}
	h.setTrafficClass(0x4e)
	if h.TrafficClass() != 0x4e || h.Version() != 6 || h.FlowLabel() != f.FlowLabel {
		t.Errorf("after setTrafficClass: class %x, version %d, label %x", h.TrafficClass(), h.Version(), h.FlowLabel())
	}
}

func TestSetTOS(t *testing.T) {
	for tos := range 256 {
		h := make(IPv4, IPv4Len)
		h.Encode(IPv4Fields{TOS: 0x12, TTL: 9})
		h.setTOS(uint8(tos))
		if h.TOS() != uint8(tos) || h.Version() != 4 || !h.ValidChecksum(IPv4Len) {
			t.Fatalf("TOS %#x: now %#x, checksum valid %v", tos, h.TOS(), h.ValidChecksum(IPv4Len))
		}
	}
}

func TestUDPFields(t *testing.T) {
	h := make(UDP, UDPLen)
	h.Encode(UDPFields{SrcPort: 0x0102, DstPort: 0x0304, Length: 0x0506, Checksum: 0x0708})
	if want := unhex(t, "0102030405060708"); !bytes.Equal(h, want) {
		t.Fatalf("got %x", []byte(h))
	}
	if h.SrcPort() != 0x0102 || h.DstPort() != 0x0304 || h.Length() != 0x0506 || h.Checksum() != 0x0708 {
		t.Errorf("%x %x %x %x", h.SrcPort(), h.DstPort(), h.Length(), h.Checksum())
	}
}

func TestTCPFields(t *testing.T) {
	h := make(TCP, TCPLen)
	h.Encode(TCPFields{SrcPort: 1, DstPort: 2, Seq: 3, Ack: 4, Flags: TCPSyn | TCPAck, Window: 5, Checksum: 6})
	if want := unhex(t, "00010002000000030000000450120005"+"00060000"); !bytes.Equal(h, want) {
		t.Fatalf("got %x", []byte(h))
	}
	h.SetSeq(7)
	h.SetFlags(TCPFin)
	h.SetChecksum(8)
	if h.SrcPort() != 1 || h.DstPort() != 2 || h.Seq() != 7 || h.Ack() != 4 || h.HeaderLen() != 20 ||
		h.Flags() != TCPFin || h.Window() != 5 || h.Checksum() != 8 || h.Urgent() != 0 {
		t.Errorf("%x", []byte(h))
	}
}

func TestVXLANFields(t *testing.T) {
	h := make(VXLAN, VXLANLen)
	h.Encode(VXLANFields{Flags: VXLANFlagVNI, VNI: 0x123456})
	if want := unhex(t, "0800000012345600"); !bytes.Equal(h, want) {
		t.Fatalf("got %x", []byte(h))
	}
	if h.Flags() != VXLANFlagVNI || h.VNI() != 0x123456 || h.Word() != 0x0800000012345600 {
		t.Errorf("%x %x %x", h.Flags(), h.VNI(), h.Word())
	}
}

// TestEncodersAgreeWithGopacket builds the same packet twice.
func TestEncodersAgreeWithGopacket(t *testing.T) {
	payload := []byte("payload of odd length")
	cases := map[string][]gopacket.SerializableLayer{
		"UDP over IPv4": {
			&layers.IPv4{Version: 4, IHL: 5, TOS: 1, Id: 2, TTL: 3, Protocol: layers.IPProtocolUDP, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, 2}},
			&layers.UDP{SrcPort: 7, DstPort: 8},
		},
		"TCP over IPv6": {
			&layers.IPv6{Version: 6, TrafficClass: 1, FlowLabel: 2, HopLimit: 3, NextHeader: layers.IPProtocolTCP, SrcIP: append([]byte{0xfd}, make([]byte, 15)...), DstIP: append([]byte{0xfe}, make([]byte, 15)...)},
			&layers.TCP{SrcPort: 7, DstPort: 8, Seq: 9, Ack: 10, SYN: true, Window: 11},
		},
	}
	for name, ls := range cases {
		t.Run(name, func(t *testing.T) {
			l4 := ls[1].(interface {
				SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
			})
			if err := l4.SetNetworkLayerForChecksum(ls[0].(gopacket.NetworkLayer)); err != nil {
				t.Fatal(err)
			}
			buf := gopacket.NewSerializeBuffer()
			opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
			if err := gopacket.SerializeLayers(buf, opts, append(ls, gopacket.Payload(payload))...); err != nil {
				t.Fatal(err)
			}
			want := buf.Bytes()
			got := make([]byte, len(want))
			if want[0]>>4 == 4 {
				IPv4(got).Encode(IPv4Fields{TOS: 1, TotalLength: uint16(len(got)), ID: 2, TTL: 3, Protocol: ProtocolUDP, Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 0, 0, 2}})
				u := UDP(got[IPv4Len:])
				u.Encode(UDPFields{SrcPort: 7, DstPort: 8, Length: uint16(len(u))})
				copy(u[UDPLen:], payload)
				u.SetChecksum(UDPChecksum(Sum(u, IPv4(got).PseudoSum(ProtocolUDP, len(u)))))
			} else {
				IPv6(got).Encode(IPv6Fields{TrafficClass: 1, FlowLabel: 2, PayloadLength: uint16(len(got) - IPv6Len), NextHeader: ProtocolTCP, HopLimit: 3, Src: [16]byte{0xfd}, Dst: [16]byte{0xfe}})
				h := TCP(got[IPv6Len:])
				h.Encode(TCPFields{SrcPort: 7, DstPort: 8, Seq: 9, Ack: 10, Flags: TCPSyn, Window: 11})
				copy(h[TCPLen:], payload)
				h.SetChecksum(^Sum(h, IPv6(got).PseudoSum(ProtocolTCP, len(h))))
			}
			if !bytes.Equal(got, want) {
				t.Errorf("\n got %x\nwant %x", got, want)
			}
		})
	}
}

func TestIPVersion(t *testing.T) {
	for in, want := range map[string]uint8{"": 0, "45": 4, "60": 6, "ff": 15, "00": 0} {
		if got := IPVersion(unhex(t, in)); got != want {
			t.Errorf("IPVersion(%s) = %d, want %d", in, got, want)
		}
	}
}
