package hostnet

import (
	"net"
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// kubeProxyMark marks packets that kube-proxy masquerades itself.
const kubeProxyMark = 0x4000

// register is the one that every match uses (NFT_REG_1).
const register = 1

func forwardRules(network netip.Prefix) [][]expr.Any {
	accept := &expr.Verdict{Kind: expr.VerdictAccept}
	return [][]expr.Any{
		rule(from(network), accept),
		rule(to(network), accept),
	}
}

func masqRules(network, subnet, multicast netip.Prefix, random bool) [][]expr.Any {
	ret := &expr.Verdict{Kind: expr.VerdictReturn}
	masq := &expr.Masq{FullyRandom: random}
	return [][]expr.Any{
		rule(marked(kubeProxyMark), ret),
		rule(from(subnet), to(network), ret),
		rule(from(network), to(subnet), ret),
		rule(not(from(network)), to(subnet), ret),
		rule(from(network), not(to(multicast)), masq),
		rule(not(from(network)), to(network), masq),
	}
}

// match is a condition; its last expression is the comparison.
type match []expr.Any

// rule strings matches and a statement together.
func rule(parts ...any) []expr.Any {
	var all []expr.Any
	for _, p := range parts {
		switch p := p.(type) {
		case match:
			all = append(all, p...)
		case expr.Any:
			all = append(all, p)
		}
	}
	return all
}

// from matches the source address, to the destination (RFC 791, RFC 8200).
func from(p netip.Prefix) match {
	if p.Addr().Is4() {
		return address(p, 12)
	}
	return address(p, 8)
}

func to(p netip.Prefix) match {
	if p.Addr().Is4() {
		return address(p, 16)
	}
	return address(p, 24)
}

func address(p netip.Prefix, offset uint32) match {
	addr := p.Masked().Addr().AsSlice()
	size := uint32(len(addr))
	return match{
		&expr.Payload{
			OperationType: expr.PayloadLoad, DestRegister: register,
			Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size,
		},
		masked(size, net.CIDRMask(p.Bits(), p.Addr().BitLen())),
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: addr},
	}
}

func marked(mark uint32) match {
	bits := binaryutil.NativeEndian.PutUint32(mark)
	return match{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: register},
		masked(4, bits),
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: bits},
	}
}

func masked(size uint32, mask []byte) *expr.Bitwise {
	return &expr.Bitwise{
		SourceRegister: register, DestRegister: register, Len: size, Mask: mask, Xor: make([]byte, size),
	}
}

// not turns a match round.
func not(m match) match {
	last := *m[len(m)-1].(*expr.Cmp)
	last.Op = expr.CmpOpNeq
	return append(m[:len(m)-1:len(m)-1], &last)
}
