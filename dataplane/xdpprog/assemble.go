package xdpprog

import (
	"encoding/binary"
	"net/netip"

	"github.com/cilium/ebpf/asm"
)

// Offsets in bytes: of struct xdp_md (linux/bpf.h), and of the fields that the
// filter reads, from the start of an untagged Ethernet frame (RFC 791, 8200, 768).
const (
	mdData    = 0
	mdDataEnd = 4
	mdRxQueue = 16

	offEtherType = 12
	offIP        = 14

	offIPv4Fragment = offIP + 6
	offIPv4Protocol = offIP + 9
	offIPv4Dst      = offIP + 16
	offIPv4DstPort  = offIP + 20 + 2
	lenIPv4         = offIP + 20 + 8 // Ethernet, IPv4 and UDP headers

	offIPv6Next    = offIP + 6
	offIPv6Dst     = offIP + 24
	offIPv6DstPort = offIP + 40 + 2
	lenIPv6        = offIP + 40 + 8
)

const (
	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86dd
	protocolUDP   = 17
	ipv4NoOptions = 0x45   // version 4, five words of header
	ipv4Fragment  = 0x3fff // more fragments, or an offset

	xdpPass = 2 // enum xdp_action
)

const (
	labelPass     = "pass"
	labelRedirect = "redirect"
	labelIPv4     = "ipv4"
	labelIPv6     = "ipv6"
)

// The registers: R6 to R9 survive helper calls (Documentation/bpf).
const (
	regCtx  = asm.R6
	regData = asm.R7
	regEnd  = asm.R8
	regTemp = asm.R2
)

// assemble writes the filter. Comparisons are made in network byte order, on
// constants that are swapped here and not on every packet.
func assemble(cfg Config, xskMap int) asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(regCtx, asm.R1),
		asm.LoadMem(regData, regCtx, mdData, asm.Word),
		asm.LoadMem(regEnd, regCtx, mdDataEnd, asm.Word),
	}
	if cfg.MaxFrame > 0 {
		ins = append(ins, passIfLonger(cfg.MaxFrame)...)
	}
	ins = append(ins, passIfShorter(lenIPv4)...) // the shortest that is ours; the verifier then allows reads up to it
	ins = append(ins, asm.LoadMem(regTemp, regData, offEtherType, asm.Half))
	if cfg.IPv4.IsValid() {
		ins = append(ins, asm.JEq.Imm(regTemp, beImm16(etherTypeIPv4), labelIPv4))
	}
	if cfg.IPv6.IsValid() {
		ins = append(ins, asm.JEq.Imm(regTemp, beImm16(etherTypeIPv6), labelIPv6))
	}
	ins = append(ins, asm.Ja.Label(labelPass))
	if cfg.IPv4.IsValid() {
		ins = append(ins, matchIPv4(cfg.IPv4, cfg.Port)...)
	}
	if cfg.IPv6.IsValid() {
		ins = append(ins, matchIPv6(cfg.IPv6, cfg.Port)...)
	}
	return append(ins, verdicts(xskMap)...)
}

func matchIPv4(addr netip.Addr, port uint16) asm.Instructions {
	ins := asm.Instructions{
		asm.LoadMem(regTemp, regData, offIP, asm.Byte).WithSymbol(labelIPv4),
		asm.JNE.Imm(regTemp, ipv4NoOptions, labelPass),
		asm.LoadMem(regTemp, regData, offIPv4Protocol, asm.Byte),
		asm.JNE.Imm(regTemp, protocolUDP, labelPass),
		asm.LoadMem(regTemp, regData, offIPv4Fragment, asm.Half),
		asm.And.Imm(regTemp, beImm16(ipv4Fragment)),
		asm.JNE.Imm(regTemp, 0, labelPass),
	}
	ins = append(ins, passUnlessBytes(offIPv4Dst, addr.AsSlice())...)
	return append(ins, passUnlessPort(offIPv4DstPort, port)...)
}

func matchIPv6(addr netip.Addr, port uint16) asm.Instructions {
	ins := passIfShorter(lenIPv6)
	ins[0] = ins[0].WithSymbol(labelIPv6)
	ins = append(ins,
		asm.LoadMem(regTemp, regData, offIP, asm.Byte),
		asm.And.Imm(regTemp, 0xf0), // the rest is traffic class
		asm.JNE.Imm(regTemp, 0x60, labelPass),
		asm.LoadMem(regTemp, regData, offIPv6Next, asm.Byte),
		asm.JNE.Imm(regTemp, protocolUDP, labelPass),
	)
	ins = append(ins, passUnlessBytes(offIPv6Dst, addr.AsSlice())...)
	return append(ins, passUnlessPort(offIPv6DstPort, port)...)
}

// verdicts ends the program. bpf_redirect_map returns the action in its flags
// when the map has no socket for the queue.
func verdicts(xskMap int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, xskMap).WithSymbol(labelRedirect),
		asm.LoadMem(asm.R2, regCtx, mdRxQueue, asm.Word),
		asm.Mov.Imm(asm.R3, xdpPass),
		asm.FnRedirectMap.Call(),
		asm.Return(),

		asm.Mov.Imm(asm.R0, xdpPass).WithSymbol(labelPass),
		asm.Return(),
	}
}

// passIfShorter passes a frame of less than n bytes.
func passIfShorter(n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(regTemp, regData),
		asm.Add.Imm(regTemp, n),
		asm.JGT.Reg(regTemp, regEnd, labelPass),
	}
}

// passIfLonger passes a frame of more than n bytes. (The length itself would be
// a difference of pointers, which takes CAP_PERFMON to compute.)
func passIfLonger(n int) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(regTemp, regData),
		asm.Add.Imm(regTemp, int32(n)+1),
		asm.JLE.Reg(regTemp, regEnd, labelPass),
	}
}

// passUnlessBytes passes a frame that differs from want, a number of words. The
// comparison is of 32 bits: a 64-bit one would extend the constant's sign.
func passUnlessBytes(offset int16, want []byte) asm.Instructions {
	var ins asm.Instructions
	for ; len(want) >= 4; offset, want = offset+4, want[4:] {
		ins = append(ins,
			asm.LoadMem(regTemp, regData, offset, asm.Word),
			asm.JNE.Imm32(regTemp, int32(binary.NativeEndian.Uint32(want)), labelPass),
		)
	}
	return ins
}

// passUnlessPort ends a match: the frame is ours if the port is.
func passUnlessPort(offset int16, port uint16) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(regTemp, regData, offset, asm.Half),
		asm.JNE.Imm(regTemp, beImm16(port), labelPass),
		asm.Ja.Label(labelRedirect),
	}
}

// beImm16 is what a 16-bit load of v in network byte order gives here.
func beImm16(v uint16) int32 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return int32(binary.NativeEndian.Uint16(b[:]))
}
