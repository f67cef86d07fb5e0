package gen

import (
	"bytes"
	"testing"
)

func TestChecksum(t *testing.T) {
	tests := []struct {
		name string
		in   []byte
		want uint16
	}{
		{"nothing", nil, 0xffff},
		{"RFC 1071 section 3", []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}, ^uint16(0xddf2)},
		{"odd length", []byte{0x12, 0x34, 0x56}, ^uint16(0x6834)},
		{"double carry", []byte{0xff, 0xff, 0xff, 0xff, 0x00, 0x01}, ^uint16(0x0001)},
	}
	for _, tt := range tests {
		if got := checksum(tt.in); got != tt.want {
			t.Errorf("%s: %#04x, want %#04x", tt.name, got, tt.want)
		}
	}
}

func TestEchoBytes(t *testing.T) {
	e := echo{echoRequest4, echoReply4, 0x0102, 0x1112131415161718}
	b := make([]byte, 18)
	b[16], b[17] = 0xaa, 0xbb
	e.put(b, 7)
	want := []byte{8, 0, 0xeb, 0x8c, 1, 2, 0, 7, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0xaa, 0xbb}
	if !bytes.Equal(b[:2], want[:2]) || !bytes.Equal(b[4:], want[4:]) {
		t.Errorf("request % x, want % x", b, want)
	}
	if checksum(b) != 0 {
		t.Errorf("the checksum %x does not make the sum zero", b[2:4])
	}
}

func TestEchoGet(t *testing.T) {
	e := echo{echoRequest6, echoReply6, 3, 4}
	reply := func(change func([]byte)) []byte {
		b := make([]byte, 16)
		e.put(b, 9)
		b[0] = echoReply6
		change(b)
		return b
	}
	tests := []struct {
		name string
		in   []byte
		ok   bool
	}{
		{"ours", reply(func([]byte) {}), true},
		{"a request", reply(func(b []byte) { b[0] = echoRequest6 }), false},
		{"another code", reply(func(b []byte) { b[1] = 1 }), false},
		{"another process", reply(func(b []byte) { b[5]++ }), false},
		{"another call", reply(func(b []byte) { b[15]++ }), false},
		{"short", reply(func([]byte) {})[:15], false},
		{"empty", nil, false},
	}
	for _, tt := range tests {
		seq, ok := e.get(tt.in)
		if ok != tt.ok || ok && seq != 9 {
			t.Errorf("%s: %d, %v", tt.name, seq, ok)
		}
	}
}

func FuzzEchoGet(f *testing.F) {
	e := echo{echoRequest4, echoReply4, 3, 4}
	b := make([]byte, 20)
	e.put(b, 1)
	f.Add(b)
	b[0] = echoReply4
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		seq, ok := e.get(b)
		if !ok {
			return
		}
		again := bytes.Clone(b)
		e.put(again, seq)
		if !bytes.Equal(again[4:], b[4:]) {
			t.Errorf("% x is no reply to % x", b, again)
		}
	})
}
