package xsk

import "fmt"

// Statistics are the kernel's counters of one socket, since it was opened
// (struct xdp_statistics in linux/if_xdp.h). Each lost packet is in Dropped or
// in RingFull, not in both.
type Statistics struct {
	Dropped   uint64 // received, and lost: too long for a frame, or no frame was there
	RingFull  uint64 // received, and lost: the RX ring was full
	FillEmpty uint64 // times that the kernel wanted a frame and the fill ring was empty
	BadRX     uint64 // descriptors for receiving that the kernel refused; 6.18 never counts one
	BadTX     uint64 // descriptors in the TX ring that the kernel refused
	TXEmpty   uint64 // times that the kernel looked for work in an empty TX ring
}

// Statistics reads the kernel's counters: one system call. It may be called
// from another goroutine, but not at the same time as Close.
func (p *Port) Statistics() (Statistics, error) {
	st, err := statistics(p.fd)
	if err != nil {
		return Statistics{}, fmt.Errorf("read statistics of queue %d of interface %d: %w", p.cfg.Queue, p.cfg.IfIndex, err)
	}
	return Statistics{
		Dropped:   st.Rx_dropped,
		RingFull:  st.Rx_ring_full,
		FillEmpty: st.Rx_fill_ring_empty_descs,
		BadRX:     st.Rx_invalid_descs,
		BadTX:     st.Tx_invalid_descs,
		TXEmpty:   st.Tx_ring_empty_descs,
	}, nil
}
