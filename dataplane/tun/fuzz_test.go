package tun

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"flanx/dataplane/packet"
	"flanx/encap/header"
)

// FuzzSplit takes any virtio-net header before any packet, with any room in the
// batch: no panic, no lost frame, and either one drop or sound pieces that
// carry the whole payload.
func FuzzSplit(f *testing.F) {
	tcp4 := append([]byte{0x45, 0, 0x0b, 0xe0, 0, 9, 0x40, 0, 64, 6, 0, 0}, make([]byte, 3028)...)
	tcp4[32], tcp4[33] = 0x50, header.TCPAck
	f.Add([]byte{1, 1, 40, 0, 0xe8, 3, 20, 0, 16, 0}, tcp4, uint8(3))
	udp6 := append([]byte{0x60, 0, 0, 0, 0x0b, 0xc0, 17, 64}, make([]byte, 3000+40-8+8)...)
	f.Add([]byte{1, 5, 48, 0, 100, 0, 40, 0, 6, 0}, udp6, uint8(64))
	f.Add(make([]byte, vnetLen), []byte("whole"), uint8(1))
	pool, err := packet.NewPool(128, packet.FrameSize2K)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = pool.Close() })
	in := newSplitter()
	f.Fuzz(func(t *testing.T, h, pkt []byte, room uint8) {
		if len(h) != vnetLen || len(pkt) > spillLen {
			return
		}
		in.super = super{}
		pieces, drops := split(t, &in, packet.NewBatch(pool, max(1, int(room))), h, pkt)
		if pool.Free() != pool.Frames() {
			t.Fatalf("%d of %d frames are free", pool.Free(), pool.Frames())
		}
		if drops > 1 || (drops == 1) != (len(pieces) == 0) {
			t.Fatalf("one packet of %d bytes gave %d packets and %d drops", len(pkt), len(pieces), drops)
		}
		if len(pieces) > 1 {
			checkPieces(t, pieces, h, pkt)
		}
	})
}

// split does what Recv does once the kernel has filled frame and spill buffer.
func split(t *testing.T, in *splitter, b *packet.Batch, h, pkt []byte) (pieces [][]byte, drops uint64) {
	t.Helper()
	i, space, ok := b.Extend()
	if !ok {
		t.Fatal("no frame")
	}
	copy(in.over(), pkt[copy(space, pkt):])
	in.accept(b, i, vnet(bytes.Clone(h)), space, len(pkt))
	for done := false; !done; {
		done = in.drain(b)
		b.Compact()
		for i := range b.Len() {
			pieces = append(pieces, bytes.Clone(b.Bytes(i)))
		}
		b.Clear()
	}
	for _, n := range b.Drops() {
		drops += n
	}
	return pieces, drops
}

// checkPieces wants sound pieces that carry the payload of the whole.
func checkPieces(t *testing.T, pieces [][]byte, h, pkt []byte) {
	t.Helper()
	l4 := int(binary.NativeEndian.Uint16(h[6:]))
	head := l4 + header.UDPLen
	if h[1]&^unix.VIRTIO_NET_HDR_GSO_ECN != unix.VIRTIO_NET_HDR_GSO_UDP_L4 {
		head = l4 + header.TCP(pkt[l4:]).HeaderLen()
	}
	var payload []byte
	for i, piece := range pieces {
		if len(piece) <= head {
			t.Fatalf("piece %d of %d bytes carries nothing", i, len(piece))
		}
		if n, reason, ok := header.CheckInner(piece); !ok || n != len(piece) {
			t.Fatalf("piece %d is unsound: %v", i, reason)
		}
		payload = append(payload, piece[head:]...)
	}
	if !bytes.Equal(payload, pkt[head:]) {
		t.Fatalf("%d bytes of payload became %d", len(pkt)-head, len(payload))
	}
}
