package capture

import "errors"

var (
	// ErrFormat says that the bytes are no capture file.
	ErrFormat = errors.New("not a capture file (pcap or pcapng, plain, gzip or zstd)")
	// ErrTruncated says that the file ends inside a record.
	ErrTruncated = errors.New("capture file is cut off")
	// ErrMalformed says that a block contradicts itself, so that nobody can
	// tell where the next one begins.
	ErrMalformed = errors.New("capture file is damaged")
)
