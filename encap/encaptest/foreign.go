package encaptest

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"flanx/encap"
)

// foreign decodes what Push makes with gopacket, which shares no code with us:
// it must find the layers, their lengths and every checksum right.
func (s Suite) foreign(t *testing.T) {
	if s.Layer == encap.Datagram {
		t.Skip("a datagram's headers are the kernel's")
	}
	a := s.node(t)
	for _, inner := range s.samples() {
		wire := a.push(inner)[0]
		outer := CheckForeign(t, wire[:s.Overhead+len(inner)])
		udp, ok := outer.TransportLayer().(*layers.UDP)
		if !ok || int(udp.Length) != len(wire)-len(outer.NetworkLayer().LayerContents())-14 {
			t.Fatalf("outer UDP is %+v in %d bytes", udp, len(wire))
		}
		src, dst := outer.NetworkLayer().NetworkFlow().Endpoints()
		if src.String() != s.Way.Local.String() || dst.String() != s.Way.Remote.String() {
			t.Errorf("outer addresses %s to %s, want %s to %s", src, dst, s.Way.Local, s.Way.Remote)
		}
		eth, _ := outer.LinkLayer().(*layers.Ethernet)
		if !bytes.Equal(eth.SrcMAC, s.Way.LocalMAC[:]) || !bytes.Equal(eth.DstMAC, s.Way.NextHopMAC[:]) {
			t.Errorf("outer Ethernet %s to %s", eth.SrcMAC, eth.DstMAC)
		}
	}
}

// CheckForeign decodes a frame with gopacket, and expects every layer that it
// finds to be sound and every checksum right.
func CheckForeign(t *testing.T, wire []byte) gopacket.Packet {
	t.Helper()
	p := gopacket.NewPacket(wire, layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatalf("gopacket: %v\n%x", e.Error(), wire)
	}
	if p.NetworkLayer() == nil || p.TransportLayer() == nil {
		t.Fatalf("gopacket finds no outer UDP\n%s", p)
	}
	checkSums(t, p)
	return p
}

// CheckSums lets gopacket verify every checksum that it finds in a frame.
func CheckSums(t *testing.T, wire []byte) {
	t.Helper()
	checkSums(t, gopacket.NewPacket(wire, layers.LayerTypeEthernet, gopacket.Default))
}

func checkSums(t *testing.T, p gopacket.Packet) {
	t.Helper()
	if err := tellNetworkLayers(p); err != nil {
		t.Fatalf("gopacket: %v", err)
	}
	err, wrong := p.VerifyChecksums()
	if err != nil {
		t.Fatalf("gopacket: %v\n%x", err, p.Data())
	}
	for _, w := range wrong {
		t.Errorf("gopacket: checksum of %s is %#x, want %#x\n%x", w.Layer.LayerType(), w.Actual, w.Correct, p.Data())
	}
}

// tellNetworkLayers gives each layer whose checksum covers a pseudo-header the
// IP layer around it.
func tellNetworkLayers(p gopacket.Packet) error {
	var around gopacket.NetworkLayer
	for _, l := range p.Layers() {
		if n, ok := l.(gopacket.NetworkLayer); ok {
			around = n
		}
		if l, ok := l.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); ok {
			if err := l.SetNetworkLayerForChecksum(around); err != nil {
				return err
			}
		}
	}
	return nil
}
