// Package capture reads capture files as a stream: pcap in all its forms and
// pcapng, plain or compressed with gzip or zstd. The form is told by content,
// never by name.
//
//	bytes ─▶ gzip or zstd? ─▶ pcap or pcapng ─▶ Record, Record, … io.EOF
//
// # Hostile files
//
// A file is input from outside. No length field becomes an allocation: memory
// is one buffer of fixed size, what a record claims is checked against
// [MaxRecord] and against the block that holds it, and a compressed file may
// not ask for a window of more than [MaxWindow]. A record that cannot be used is
// passed over and counted; where the next record begins is unknown only when
// a block contradicts itself ([ErrMalformed]) or the file ends inside one
// ([ErrTruncated]). All records before that have been delivered.
//
// # Ownership and concurrency
//
// A [Record]'s Data is a window on the reader's buffer and valid until the next
// call. A Reader belongs to one goroutine; it does not close what it reads from.
//
// It is written here, beside a library that reads captures too, because a file
// may change byte order between sections, a damaged record should cost only
// itself, and no copy is made. The tests hold it against that library.
package capture
