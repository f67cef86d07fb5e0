package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// packed appends numbers in a byte order.
func packed(order binary.AppendByteOrder, parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch v := p.(type) {
		case int:
			b = order.AppendUint32(b, uint32(v))
		case uint32:
			b = order.AppendUint32(b, v)
		case uint16:
			b = order.AppendUint16(b, v)
		case uint64:
			b = order.AppendUint64(b, v)
		case string:
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

// classic builds the header of a pcap file.
func classic(order binary.AppendByteOrder, magic, network int) []byte {
	return packed(order, magic, uint16(2), uint16(4), 0, 0, 65535, network)
}

// block builds a pcapng block around a body, padded.
func block(order binary.AppendByteOrder, kind int, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	total := len(body) + 12
	return packed(order, kind, total, body, total)
}

func section(order binary.AppendByteOrder) []byte {
	return block(order, ngSectionHeader, packed(order, ngByteOrderMagic, uint16(1), uint16(0), ^uint64(0)))
}

func iface(order binary.AppendByteOrder, link int, options ...any) []byte {
	return block(order, ngInterface, append(packed(order, uint16(link), uint16(0), 0), packed(order, options...)...))
}

func enhanced(order binary.AppendByteOrder, index int, stamp uint64, captured, length int, data string) []byte {
	return block(order, ngEnhancedPacket, packed(order, index, uint32(stamp>>32), uint32(stamp), captured, length, data))
}

// seen is a record that outlives the buffer.
type seen struct {
	Record
	data string
}

// all reads a file to its end.
func all(t testing.TB, file []byte) ([]seen, *Reader, error) {
	t.Helper()
	r, err := New(bytes.NewReader(file))
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	var found []seen
	for {
		var rec Record
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			return found, r, nil
		}
		if err != nil {
			return found, r, err
		}
		s := seen{rec, string(rec.Data)}
		s.Data = nil
		found = append(found, s)
	}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
