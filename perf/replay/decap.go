package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"flanx/dataplane/packet"
	"flanx/dataplane/pcapport"
	"flanx/encap/header"
	"flanx/perf/replay/capture"
	"flanx/perf/replay/linktype"
)

// Wrapping is how the packets of a capture are encapsulated.
type Wrapping struct {
	VXLAN bool   // else flannel's udp: the bare IP packet
	Port  uint16 // UDP destination port
	VNI   int    // of VXLAN; below zero takes any
}

// LinkType returns that of what is inside: whole frames in VXLAN, else bare IP.
func (w Wrapping) LinkType() uint16 {
	if w.VXLAN {
		return linktype.Ethernet
	}
	return linktype.Raw
}

// Unwrap returns what is inside a frame: of VXLAN the inner frame, else the IP
// packet. Like a mirror's receiver, and unlike a tunnel's end, it takes inner
// frames of every address and protocol. Any bytes are safe.
func (w Wrapping) Unwrap(frame []byte) (inner []byte, reason packet.Reason, ok bool) {
	shim := 0
	if w.VXLAN {
		shim = header.VXLANLen + header.EthernetLen
	}
	var outer header.Outer
	if reason, ok := outer.Parse(frame, &header.Tunnel{Port: w.Port, Shim: shim}); !ok {
		return nil, reason, false
	}
	inner = frame[outer.Payload:outer.End]
	if !w.VXLAN {
		return inner, packet.BadEtherType, len(inner) > 0 && (inner[0]>>4 == 4 || inner[0]>>4 == 6)
	}
	if len(inner) < shim {
		return nil, packet.Short, false
	}
	vx := header.VXLAN(inner)
	switch {
	case vx.Flags()&header.VXLANFlagVNI == 0:
		return nil, packet.Reserved, false
	case w.VNI >= 0 && vx.VNI() != uint32(w.VNI):
		return nil, packet.WrongVNI, false
	}
	return inner[header.VXLANLen:], 0, true
}

// DecapConfig says what to unwrap, and where to.
type DecapConfig struct {
	Open     func() (*capture.Reader, func(), error)
	To       *pcapport.Port // of the Wrapping's LinkType
	Pool     *packet.Pool
	Wrapping Wrapping
	Cut      Cut // pad has the meaning of skip: what is missing cannot be inside
	Filter   Filter
	Limit    uint64
}

// Decapsulate writes what is inside the tunnel's packets of a capture, and counts
// the rest by reason. Errors are those of Run.
func Decapsulate(ctx context.Context, cfg DecapConfig) (*Summary, error) {
	r, done, err := cfg.Open()
	if err != nil {
		return nil, err
	}
	defer done()
	defer r.Close()
	d := &unwrapper{cfg: cfg, batch: packet.NewBatch(cfg.Pool, 1), frame: make([]byte, 0, capture.MaxRecord+header.EthernetLen)}
	d.sum.Format = r.Format()
	err = d.all(ctx, r)
	err = errors.Join(err, cfg.To.Flush())
	d.add(r.Counts())
	if d.sum.Sent == 0 && err == nil {
		err = d.sum.nothing()
	}
	return &d.sum, err
}

// unwrapper is a decapsulation at work.
type unwrapper struct {
	cfg     DecapConfig
	batch   *packet.Batch
	frame   []byte
	sum     Summary
	reasons [numReasons]uint64
	drops   [packet.NumReasons]uint64
}

func (d *unwrapper) all(ctx context.Context, r *capture.Reader) error {
	var rec capture.Record
	for n := 0; ; n++ {
		if n%glance == 0 && ctx.Err() != nil {
			d.sum.Interrupted = true
			return nil
		}
		if d.cfg.Limit > 0 && d.sum.Sent >= d.cfg.Limit {
			return nil
		}
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			d.sum.Loops = 1
			return nil
		}
		if err == nil {
			err = d.one(&rec)
		}
		if err != nil {
			return err
		}
	}
}

func (d *unwrapper) one(rec *capture.Record) error {
	frame, reason, ok := d.outer(rec)
	if !ok {
		d.reasons[reason]++
		return nil
	}
	inner, why, ok := d.cfg.Wrapping.Unwrap(frame)
	if !ok {
		d.drops[why]++
		return nil
	}
	i, space, ok := d.batch.Extend()
	if !ok || len(inner) > len(space) {
		d.batch.Clear()
		d.reasons[TooLong]++
		return nil
	}
	d.batch.Resize(i, copy(space, inner))
	d.cfg.To.Stamp(d.batch.At(i).Frame, rec.Time)
	d.sum.Sent++
	d.sum.Bytes += uint64(len(inner))
	if err := d.cfg.To.Send(d.batch); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// outer makes an Ethernet frame of a record: what was captured on another kind of
// link, or has tags, gets a plain header.
func (d *unwrapper) outer(rec *capture.Record) ([]byte, Reason, bool) {
	switch {
	case len(rec.Data) == 0:
		return nil, Empty, false
	case rec.Cut() && d.cfg.Cut != CutSend:
		return nil, CutRecord, false
	case !linktype.Known(rec.LinkType):
		d.sum.countLink(rec.LinkType)
		return nil, UnknownLink, false
	}
	ip, ok := linktype.FindIP(rec.LinkType, rec.Data)
	if !ok {
		return nil, NotIP, false
	}
	if f := d.cfg.Filter; f != nil && !f.Match(ip) {
		return nil, FilteredOut, false
	}
	kind := uint16(header.EtherTypeIPv4)
	if header.IPVersion(ip) == 6 {
		kind = header.EtherTypeIPv6
	}
	d.frame = d.frame[:header.EthernetLen]
	header.Ethernet(d.frame).Encode(header.EthernetFields{EtherType: kind})
	d.frame = append(d.frame, ip...)
	return d.frame, 0, true
}

func (d *unwrapper) add(c capture.Counts) {
	d.sum.Read = c.Records
	d.reasons[Oversized] += c.Oversized
	d.reasons[Malformed] += c.Malformed
	d.sum.Skipped = skipped(&d.reasons, &d.drops)
	d.sum.Asked = Rate{Kind: "top"}
}

// String names the wrapping as messages do.
func (w Wrapping) String() string {
	if w.VXLAN {
		return "vxlan on port " + strconv.Itoa(int(w.Port))
	}
	return "udp on port " + strconv.Itoa(int(w.Port))
}
