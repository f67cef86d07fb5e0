package replay

import (
	"flanx/encap/header"
	"flanx/perf/replay/capture"
	"flanx/perf/replay/linktype"
)

// plan is what will be sent of a record.
type plan struct {
	data   []byte // what is copied, from the capture
	pad    int    // zeros behind it
	prefix bool   // an Ethernet header goes in front
}

func (p *plan) length() int {
	n := len(p.data) + p.pad
	if p.prefix {
		n += header.EthernetLen
	}
	return n
}

// plan decides about a record without touching it.
func (p *player) plan(rec *capture.Record, pl *plan) (Reason, bool) {
	switch {
	case len(rec.Data) == 0:
		return Empty, false
	case rec.Cut() && p.cfg.Cut == CutSkip:
		return CutRecord, false
	case !linktype.Known(rec.LinkType):
		p.sum.countLink(rec.LinkType)
		return UnknownLink, false
	}
	whole := p.cfg.Output.Shape == Frames && rec.LinkType == linktype.Ethernet
	if whole && p.cfg.Filter == nil {
		return p.wholeFrame(rec, pl) // nobody asks what is in it
	}
	ip, isIP := linktype.FindIP(rec.LinkType, rec.Data)
	if !isIP {
		ip = nil
	}
	if f := p.cfg.Filter; f != nil && !f.Match(ip) {
		return FilteredOut, false
	}
	if whole {
		return p.wholeFrame(rec, pl)
	}
	if !isIP {
		return NotIP, false
	}
	return p.bareIP(rec, ip, pl)
}

// wholeFrame sends a frame as it was captured.
func (p *player) wholeFrame(rec *capture.Record, pl *plan) (Reason, bool) {
	pl.data = rec.Data
	if rec.Cut() && p.cfg.Cut == CutPad {
		pl.pad = rec.Length - len(rec.Data)
	}
	link := header.EthernetLen
	if len(rec.Data) >= link && header.Ethernet(rec.Data).EtherType() == header.EtherTypeVLAN {
		link += 4 // as the kernel's packet sockets allow
	}
	return p.fits(pl, pl.length()-link)
}

// bareIP sends the IP packet alone, without what Ethernet padded it with.
func (p *player) bareIP(rec *capture.Record, ip []byte, pl *plan) (Reason, bool) {
	n, ok := ipLength(ip)
	if ok && n == 0 && p.cfg.RepairLengths {
		n = len(ip)
	}
	pl.prefix = p.cfg.Output.Shape == Frames
	switch {
	case !ok || n == 0:
		return BadLength, false
	case n <= len(ip):
	case !rec.Cut():
		return BadLength, false
	case p.cfg.Cut == CutPad:
		pl.pad = n - len(ip)
		n = len(ip)
	default:
		n = len(ip)
	}
	pl.data = ip[:n]
	return p.fits(pl, n+pl.pad)
}

// fits refuses what the frames of the pool or the way cannot take.
func (p *player) fits(pl *plan, packet int) (Reason, bool) {
	if mtu := p.cfg.Output.MTU; mtu > 0 && packet > mtu || pl.length() > p.space {
		return TooLong, false
	}
	return 0, true
}

// ipLength returns the length that an IP header claims. It says no when the
// header is cut off or shorter than itself. 0 is what a kernel leaves in the
// IPv4 header of a packet that hardware is to segment, and in an IPv6 jumbogram.
func ipLength(ip []byte) (int, bool) {
	if header.IPVersion(ip) == 4 {
		if len(ip) < header.IPv4Len {
			return 0, false
		}
		h := header.IPv4(ip)
		n := h.TotalLength()
		return n, n == 0 || n >= h.HeaderLen() && h.HeaderLen() >= header.IPv4Len
	}
	if len(ip) < header.IPv6Len {
		return 0, false
	}
	h := header.IPv6(ip)
	if n := h.PayloadLength(); n > 0 || h.NextHeader() != header.NextHopByHop {
		return n + header.IPv6Len, true
	}
	return 0, true
}
