package pcapport

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"

	"flanx/dataplane"
	"flanx/dataplane/packet"
)

var _ dataplane.Port = (*Port)(nil)

func newBatch(t *testing.T) *packet.Batch {
	t.Helper()
	pool, err := packet.NewPool(8, packet.FrameSize2K)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return packet.NewBatch(pool, 8)
}

func fill(t *testing.T, b *packet.Batch, data string) (frame uint32) {
	t.Helper()
	i, space, ok := b.Extend()
	if !ok {
		t.Fatal("no room")
	}
	b.Resize(i, copy(space, data))
	return b.At(i).Frame
}

// What is sent can be read by others, in order, with the times stamped.
func TestWritten(t *testing.T) {
	tests := []struct {
		name   string
		format Format
		open   func(io.Reader) (gopacket.PacketDataSource, error)
	}{
		{"pcap", PCAP, func(r io.Reader) (gopacket.PacketDataSource, error) { return pcapgo.NewReader(r) }},
		{"pcapng", PCAPNG, func(r io.Reader) (gopacket.PacketDataSource, error) {
			return pcapgo.NewNgReader(r, pcapgo.DefaultNgReaderOptions)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var file bytes.Buffer
			p, err := New(Config{To: &file, Format: tt.format, LinkType: 1, Program: "test"})
			if err != nil {
				t.Fatal(err)
			}
			b := newBatch(t)
			p.Stamp(fill(t, b, "first packet"), 1_000_000_007)
			p.Stamp(fill(t, b, "second"), 2_000_000_000)
			if err := errors.Join(p.Send(b), p.Close()); err != nil {
				t.Fatal(err)
			}
			if b.Len() != 0 || b.Pool().Free() != 8 {
				t.Errorf("%d packets, %d frames free after Send", b.Len(), b.Pool().Free())
			}
			r, err := tt.open(&file)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []struct {
				data string
				at   int64
			}{{"first packet", 1_000_000_007}, {"second", 2_000_000_000}} {
				data, ci, err := r.ReadPacketData()
				if err != nil || string(data) != want.data || ci.Timestamp.UnixNano() != want.at {
					t.Errorf("%q at %s, %v; want %+v", data, ci.Timestamp.Format(time.RFC3339Nano), err, want)
				}
			}
		})
	}
}

type list []string

func (l *list) Next(space []byte) (int, error) {
	if len(*l) == 0 {
		return 0, io.EOF
	}
	s := (*l)[0]
	*l = (*l)[1:]
	copy(space, s)
	return len(s), nil
}

func TestRecv(t *testing.T) {
	p, err := New(Config{From: &list{"one", strings.Repeat("x", 5000), "two"}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(t)
	if err := p.Recv(b); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want io.EOF", err)
	}
	b.Compact()
	if b.Len() != 2 || string(b.Bytes(0)) != "one" || string(b.Bytes(1)) != "two" || b.Drops()[packet.Truncated] != 1 {
		t.Errorf("%d packets, drops %v", b.Len(), b.Drops())
	}
	if err := p.Recv(b); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	b.Clear()
}

type full struct{}

var errFull = errors.New("disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }

// A file that cannot be written to loses packets with a word, and no frames.
func TestDiskFull(t *testing.T) {
	p, err := New(Config{To: full{}, LinkType: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(t)
	for range 2000 {
		fill(t, b, strings.Repeat("x", 1000))
		if err = p.Send(b); err != nil {
			break
		}
	}
	if !errors.Is(err, errFull) || b.Drops()[packet.SendFailed] != 1 || b.Pool().Free() != 8 {
		t.Errorf("%v, drops %v, %d frames free", err, b.Drops()[packet.SendFailed], b.Pool().Free())
	}
}

func TestRefused(t *testing.T) {
	if _, err := New(Config{To: io.Discard, Format: 9}); !errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
	p, _ := New(Config{})
	b := newBatch(t)
	fill(t, b, "x")
	if err := p.Send(b); !errors.Is(err, errors.ErrUnsupported) || b.Pool().Free() != 8 {
		t.Errorf("%v", err)
	}
	if p.FD() != -1 || p.Room() < 1 {
		t.Error("a file waits for nothing")
	}
}
