package change

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"flanx/encap/header"
)

// Expr is a parsed filter.
type Expr struct {
	root node
	seen view // of the packet in hand: kept here, for the nodes take its address
}

// Match says whether a packet passes. A nil ip stands for a frame that holds no
// IP packet: only expressions that ask for nothing of IP are true of it.
func (e *Expr) Match(ip []byte) bool {
	var ok bool
	e.seen, ok = parse(ip)
	return e.root.match(&e.seen, ok)
}

// Not returns the opposite filter.
func (e *Expr) Not() *Expr { return &Expr{root: not{e.root}} }

// And returns the filter that passes what all pass. Nil ones pass everything; of
// none at all it returns nil.
func And(all ...*Expr) *Expr {
	var joined *Expr
	for _, e := range all {
		switch {
		case e == nil:
		case joined == nil:
			joined = e
		default:
			joined = &Expr{root: both{joined.root, e.root}}
		}
	}
	return joined
}

// node is a part of an expression. ok says whether there is an IP packet.
type node interface{ match(v *view, ok bool) bool }

type (
	not    struct{ a node }
	both   struct{ a, b node }
	either struct{ a, b node }
	// simple is one question.
	simple struct {
		ask      func(s *simple, v *view) bool
		src, dst bool
		net      netip.Prefix
		lo, hi   uint16
		protocol uint8
	}
)

func (n not) match(v *view, ok bool) bool    { return !n.a.match(v, ok) }
func (n both) match(v *view, ok bool) bool   { return n.a.match(v, ok) && n.b.match(v, ok) }
func (n either) match(v *view, ok bool) bool { return n.a.match(v, ok) || n.b.match(v, ok) }
func (s *simple) match(v *view, ok bool) bool {
	return ok && s.ask(s, v)
}

func askVersion(s *simple, v *view) bool  { return v.v6 == (s.protocol == 6) }
func askProtocol(s *simple, v *view) bool { return v.protocol == s.protocol }
func askLonger(s *simple, v *view) bool   { return len(v.ip) >= int(s.lo) }
func askShorter(s *simple, v *view) bool  { return len(v.ip) <= int(s.lo) }

func askNet(s *simple, v *view) bool {
	return s.src && s.inNet(v, v.srcAt) || s.dst && s.inNet(v, v.dstAt)
}

func (s *simple) inNet(v *view, at int) bool {
	a, _ := netip.AddrFromSlice(v.ip[at : at+v.addrLen])
	return s.net.Contains(a)
}

func askPort(s *simple, v *view) bool {
	return v.hasPorts() && (s.src && s.inRange(v.ip[v.l4:]) || s.dst && s.inRange(v.ip[v.l4+2:]))
}

func (s *simple) inRange(b []byte) bool {
	p := binary.BigEndian.Uint16(b)
	return p >= s.lo && p <= s.hi
}

// Parse reads an expression of: ip, ip6, tcp, udp, icmp, icmp6, sctp, proto N;
// [src|dst] host ADDRESS, net PREFIX, port N, portrange N-M; greater N, less N
// (bytes of IP packet); and, or, not and parentheses. A protocol before host, net
// or port is joined by and, as in "udp port 53"; "and" binds closer than "or".
func Parse(s string) (*Expr, error) {
	spaced := strings.NewReplacer("(", " ( ", ")", " ) ", "!", " not ", "&&", " and ", "||", " or ").Replace(s)
	p := &parser{words: strings.Fields(spaced)}
	if len(p.words) > maxWords {
		return nil, fmt.Errorf("%w: a filter of more than %d words", ErrRule, maxWords)
	}
	root, err := p.or()
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("nothing fits %q", p.words[0])
	}
	if err != nil {
		return nil, fmt.Errorf("%w: filter %q: %w", ErrRule, s, err)
	}
	return &Expr{root: root}, nil
}

// maxWords bounds how deep an expression can nest.
const maxWords = 1000

type parser struct{ words []string }

func (p *parser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *parser) take() string {
	w := p.peek()
	p.words = p.words[min(1, len(p.words)):]
	return w
}

func (p *parser) or() (node, error) {
	a, err := p.and()
	for err == nil && p.peek() == "or" {
		p.take()
		var b node
		b, err = p.and()
		a = either{a, b}
	}
	return a, err
}

func (p *parser) and() (node, error) {
	a, err := p.unary()
	for err == nil && p.peek() == "and" {
		p.take()
		var b node
		b, err = p.unary()
		a = both{a, b}
	}
	return a, err
}

func (p *parser) unary() (node, error) {
	switch w := p.take(); w {
	case "":
		return nil, fmt.Errorf("something is missing at the end")
	case "not":
		a, err := p.unary()
		return not{a}, err
	case "(":
		a, err := p.or()
		if err == nil && p.take() != ")" {
			err = fmt.Errorf("a parenthesis is not closed")
		}
		return a, err
	default:
		return p.primitive(w)
	}
}

var protocols = map[string]simple{
	"ip":    {ask: askVersion, protocol: 4},
	"ip6":   {ask: askVersion, protocol: 6},
	"tcp":   {ask: askProtocol, protocol: header.ProtocolTCP},
	"udp":   {ask: askProtocol, protocol: header.ProtocolUDP},
	"icmp":  {ask: askProtocol, protocol: header.ProtocolICMP},
	"icmp6": {ask: askProtocol, protocol: header.ProtocolICMPv6},
	"sctp":  {ask: askProtocol, protocol: header.ProtocolSCTP},
}

var qualified = []string{"src", "dst", "host", "net", "port", "portrange"}

// primitive reads one question that begins with w.
func (p *parser) primitive(w string) (node, error) {
	if s, ok := protocols[w]; ok {
		if !slices.Contains(qualified, p.peek()) {
			return &s, nil
		}
		b, err := p.primitive(p.take())
		return both{&s, b}, err
	}
	s := &simple{src: true, dst: true}
	if w == "src" || w == "dst" {
		s.src, s.dst = w == "src", w == "dst"
		if w = p.take(); !slices.Contains(qualified[2:], w) {
			p.words = append([]string{w}, p.words...)
			w = "host"
		}
	}
	value := p.take()
	switch w {
	case "host", "net":
		return s, s.setNet(value)
	case "port", "portrange":
		return s, s.setPorts(value)
	case "proto", "greater", "less":
		return s, s.setNumber(w, value)
	}
	return nil, fmt.Errorf("%q is not known here", w)
}

func (s *simple) setNet(value string) (err error) {
	s.ask = askNet
	if s.net, err = parsePrefix(value); err != nil {
		return fmt.Errorf("%q is no address or network", value)
	}
	return nil
}

func (s *simple) setPorts(value string) error {
	s.ask = askPort
	from, to, isRange := strings.Cut(value, "-")
	if !isRange {
		to = from
	}
	lo, err1 := strconv.ParseUint(from, 10, 16)
	hi, err2 := strconv.ParseUint(to, 10, 16)
	if err1 != nil || err2 != nil || lo > hi {
		return fmt.Errorf("%q is no port or range", value)
	}
	s.lo, s.hi = uint16(lo), uint16(hi)
	return nil
}

func (s *simple) setNumber(word, value string) error {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil || word == "proto" && n > 255 {
		return fmt.Errorf("%q is no number for %s", value, word)
	}
	s.lo, s.protocol = uint16(n), uint8(n)
	switch word {
	case "proto":
		s.ask = askProtocol
	case "greater":
		s.ask = askLonger
	default:
		s.ask = askShorter
	}
	return nil
}
