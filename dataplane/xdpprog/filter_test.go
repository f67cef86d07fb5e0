package xdpprog

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

const (
	pass     = 2 // XDP_PASS
	redirect = 4 // XDP_REDIRECT
)

// The upper bits are set where a comparison could go wrong about the sign.
var (
	ours4  = netip.MustParseAddr("203.0.113.254")
	other4 = netip.MustParseAddr("203.0.113.253")
	ours6  = netip.MustParseAddr("2001:db8:8000::fffe:1")
	other6 = netip.MustParseAddr("2001:db8:8000::fffe:2")
	ours   = Config{IPv4: ours4, IPv6: ours6, Port: 0xfff1, Queues: 4}
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("needs root, and under CI nothing is skipped")
	}
	t.Skip("needs root")
}

func load(t testing.TB, cfg Config) *Program {
	t.Helper()
	needRoot(t)
	p, err := Load(cfg)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// xskFD opens an AF_XDP socket that is bound to nothing: enough for a map slot.
func xskFD(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func run(t testing.TB, p *Program, frame []byte) uint32 {
	t.Helper()
	action, err := p.prog.Run(&ebpf.RunOptions{Data: frame})
	if err != nil {
		t.Fatal(err)
	}
	return action
}

// ipv4 is a UDP packet in an Ethernet frame.
func ipv4(dst netip.Addr, port uint16, payload int) []byte {
	f := make([]byte, lenIPv4+payload)
	binary.BigEndian.PutUint16(f[12:], etherTypeIPv4)
	f[14] = 0x45
	binary.BigEndian.PutUint16(f[16:], uint16(len(f)-14))
	f[22], f[23] = 64, protocolUDP
	copy(f[26:], []byte{10, 0, 0, 1})
	copy(f[30:], dst.AsSlice())
	binary.BigEndian.PutUint16(f[36:], port)
	return f
}

func ipv6(dst netip.Addr, port uint16, payload int) []byte {
	f := make([]byte, lenIPv6+payload)
	binary.BigEndian.PutUint16(f[12:], etherTypeIPv6)
	f[14] = 0x60
	binary.BigEndian.PutUint16(f[18:], uint16(len(f)-54))
	f[20], f[21] = protocolUDP, 64
	copy(f[38:], dst.AsSlice())
	binary.BigEndian.PutUint16(f[56:], port)
	return f
}

// set returns f with some bytes changed.
func set(f []byte, at int, b ...byte) []byte {
	f = slices.Clone(f)
	copy(f[at:], b)
	return f
}

// tagged returns f with an 802.1Q or 802.1ad tag.
func tagged(f []byte, tpid uint16) []byte {
	tag := []byte{byte(tpid >> 8), byte(tpid), 0, 5}
	return slices.Concat(f[:12], tag, f[12:])
}

// withExtension puts an 8-byte extension header of that type before UDP.
func withExtension(f []byte, kind byte) []byte {
	ext := []byte{protocolUDP, 0, 1, 4, 0, 0, 0, 0}
	return set(slices.Concat(f[:54], ext, f[54:]), 20, kind)
}

func TestFilter(t *testing.T) {
	p := load(t, ours)
	if err := p.Register(0, xskFD(t)); err != nil {
		t.Fatal(err)
	}
	v4, v6 := ipv4(ours4, ours.Port, 20), ipv6(ours6, ours.Port, 20)
	cases := map[string]struct {
		frame []byte
		want  uint32
	}{
		"IPv4":                          {v4, redirect},
		"IPv4 empty datagram":           {ipv4(ours4, ours.Port, 0), redirect},
		"IPv4 with padding":             {append(slices.Clone(v4), make([]byte, 18)...), redirect},
		"IPv4 don't fragment":           {set(v4, 20, 0x40, 0), redirect},
		"IPv4 evil bit":                 {set(v4, 20, 0x80, 0), redirect},
		"IPv4 type of service":          {set(v4, 15, 0xff), redirect},
		"IPv4 first fragment":           {set(v4, 20, 0x20, 0), pass},
		"IPv4 middle fragment":          {set(v4, 20, 0x20, 0x10), pass},
		"IPv4 last fragment":            {set(v4, 20, 0, 0x10), pass},
		"IPv4 last fragment far":        {set(v4, 20, 0x1f, 0xff), pass},
		"IPv4 smallest offset":          {set(v4, 20, 0, 1), pass},
		"IPv4 options":                  {set(v4, 14, 0x46), pass},
		"IPv4 header too short":         {set(v4, 14, 0x44), pass},
		"IPv4 with version 6":           {set(v4, 14, 0x65), pass},
		"IPv4 TCP":                      {set(v4, 23, 6), pass},
		"IPv4 ICMP":                     {set(v4, 23, 1), pass},
		"IPv4 UDP-Lite":                 {set(v4, 23, 136), pass},
		"IPv4 other address":            {ipv4(other4, ours.Port, 20), pass},
		"IPv4 other port":               {ipv4(ours4, ours.Port-1, 20), pass},
		"IPv4 port in wrong byte order": {ipv4(ours4, ours.Port<<8|ours.Port>>8, 20), pass},
		"IPv4 our port as source":       {set(ipv4(ours4, 53, 20), 34, 0xff, 0xf1), pass},
		"IPv4 broadcast":                {ipv4(netip.MustParseAddr("255.255.255.255"), ours.Port, 20), pass},
		"IPv6":                          {v6, redirect},
		"IPv6 empty datagram":           {ipv6(ours6, ours.Port, 0), redirect},
		"IPv6 traffic class":            {set(v6, 14, 0x6f, 0xff, 0xff, 0xff), redirect},
		"IPv6 with version 4":           {set(v6, 14, 0x45), pass},
		"IPv6 TCP":                      {set(v6, 20, 6), pass},
		"IPv6 other port":               {ipv6(ours6, ours.Port+1, 20), pass},
		"IPv6 other address":            {ipv6(other6, ours.Port, 20), pass},
		"IPv6 hop-by-hop":               {withExtension(v6, 0), pass},
		"IPv6 routing":                  {withExtension(v6, 43), pass},
		"IPv6 fragment":                 {withExtension(v6, 44), pass},
		"IPv6 destination options":      {withExtension(v6, 60), pass},
		"IPv6 no next header":           {set(v6, 20, 59), pass},
		"802.1Q IPv4":                   {tagged(v4, 0x8100), pass},
		"802.1ad IPv4":                  {tagged(v4, 0x88a8), pass},
		"802.1Q IPv6":                   {tagged(v6, 0x8100), pass},
		"ARP":                           {set(v4, 12, 8, 6), pass},
		"EtherType in wrong order":      {set(v4, 12, 0, 8), pass},
		"802.3 length":                  {set(v4, 12, 0, 46), pass},
		"MPLS":                          {set(v4, 12, 0x88, 0x47), pass},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := run(t, p, c.frame); got != c.want {
				t.Errorf("action %d, want %d", got, c.want)
			}
		})
	}
}

// TestFilterAddressBytes: each byte of an address and of the port counts.
func TestFilterAddressBytes(t *testing.T) {
	p := load(t, ours)
	if err := p.Register(0, xskFD(t)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		frame  []byte
		at, to int
	}{
		{ipv4(ours4, ours.Port, 20), 30, 34},
		{ipv4(ours4, ours.Port, 20), 36, 38},
		{ipv6(ours6, ours.Port, 20), 38, 54},
		{ipv6(ours6, ours.Port, 20), 56, 58},
	} {
		for at := c.at; at < c.to; at++ {
			for bit := range 8 {
				if got := run(t, p, set(c.frame, at, c.frame[at]^1<<bit)); got != pass {
					t.Errorf("byte %d bit %d flipped: action %d, want pass", at, bit, got)
				}
			}
		}
	}
}

// TestFilterShortFrames cuts our packets at every length. The kernel runs a
// program on nothing shorter than an Ethernet header.
func TestFilterShortFrames(t *testing.T) {
	p := load(t, ours)
	if err := p.Register(0, xskFD(t)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		frame []byte
		whole int
	}{
		"IPv4": {ipv4(ours4, ours.Port, 10), lenIPv4},
		"IPv6": {ipv6(ours6, ours.Port, 10), lenIPv6},
	} {
		for n := 14; n <= len(c.frame); n++ {
			want := uint32(pass)
			if n >= c.whole {
				want = redirect
			}
			if got := run(t, p, c.frame[:n]); got != want {
				t.Errorf("%s of %d bytes: action %d, want %d", name, n, got, want)
			}
		}
	}
}

func TestFilterMaxFrame(t *testing.T) {
	for _, longest := range []int{lenIPv4, 1514, 1792, 3840, 3500} {
		cfg := ours
		cfg.MaxFrame = longest
		p := load(t, cfg)
		if err := p.Register(0, xskFD(t)); err != nil {
			t.Fatal(err)
		}
		for n, want := range map[int]uint32{longest: redirect, longest + 1: pass} {
			if n < lenIPv4 || n > 3500 { // what BPF_PROG_TEST_RUN fits into a page
				continue
			}
			if got := run(t, p, ipv4(ours4, ours.Port, n-lenIPv4)); got != want {
				t.Errorf("%d bytes where %d are allowed: action %d, want %d", n, longest, got, want)
			}
		}
	}
}

func TestFilterOneFamily(t *testing.T) {
	v4, v6 := ipv4(ours4, ours.Port, 8), ipv6(ours6, ours.Port, 8)
	for name, c := range map[string]struct {
		cfg    Config
		v4, v6 uint32
	}{
		"IPv4 only": {Config{IPv4: ours4, Port: ours.Port}, redirect, pass},
		"IPv6 only": {Config{IPv6: ours6, Port: ours.Port}, pass, redirect},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, c.cfg)
			if err := p.Register(0, xskFD(t)); err != nil {
				t.Fatal(err)
			}
			if got4, got6 := run(t, p, v4), run(t, p, v6); got4 != c.v4 || got6 != c.v6 {
				t.Errorf("actions %d for IPv4 and %d for IPv6, want %d and %d", got4, got6, c.v4, c.v6)
			}
		})
	}
}

// TestEmptySlotPasses: a queue without a socket loses nothing.
func TestEmptySlotPasses(t *testing.T) {
	p := load(t, ours)
	frame := ipv4(ours4, ours.Port, 8)
	expect := func(when string, want uint32) {
		t.Helper()
		if got := run(t, p, frame); got != want {
			t.Errorf("%s: action %d, want %d", when, got, want)
		}
	}
	expect("never registered", pass)
	fd := xskFD(t)
	if err := p.Register(0, fd); err != nil {
		t.Fatal(err)
	}
	expect("registered", redirect)
	if err := errors.Join(p.Unregister(0), p.Unregister(0)); err != nil {
		t.Fatal(err)
	}
	expect("unregistered", pass)
	if err := p.Register(3, fd); err != nil {
		t.Fatal(err)
	}
	expect("registered for another queue", pass)
	closing, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Register(0, closing), unix.Close(closing)); err != nil {
		t.Fatal(err)
	}
	expect("after the socket was closed", pass)
}

func TestRegisterRefuses(t *testing.T) {
	p := load(t, ours)
	if err := p.Register(ours.Queues, xskFD(t)); err == nil {
		t.Error("a queue beyond the map was registered")
	}
	pipe := [2]int{}
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	if err := p.Register(0, pipe[0]); err == nil {
		t.Error("a pipe was registered as a socket")
	}
}

func TestLoadRefuses(t *testing.T) {
	mapped := netip.AddrFrom16(ours4.As16())
	for name, cfg := range map[string]Config{
		"no address":       {Port: 8472},
		"no port":          {IPv4: ours4},
		"IPv6 as IPv4":     {IPv4: ours6, Port: 8472},
		"IPv4 as IPv6":     {IPv6: ours4, Port: 8472},
		"IPv4-mapped":      {IPv6: mapped, Port: 8472},
		"negative length":  {IPv4: ours4, Port: 8472, MaxFrame: -1},
		"excessive length": {IPv4: ours4, Port: 8472, MaxFrame: 0xffff},
		"negative queues":  {IPv4: ours4, Port: 8472, Queues: -1},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := Load(cfg); !errors.Is(err, ErrConfig) {
				t.Errorf("Load = %v, %v; want ErrConfig", p, err)
			}
		})
	}
}

// FuzzFilter compares the program with the rule written down once more, in Go.
func FuzzFilter(f *testing.F) {
	needRoot(f)
	p, err := Load(ours)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { p.Close() })
	if err := p.Register(0, xskFD(f)); err != nil {
		f.Fatal(err)
	}
	f.Add(ipv4(ours4, ours.Port, 3))
	f.Add(ipv6(ours6, ours.Port, 3))
	f.Add(tagged(ipv4(ours4, ours.Port, 3), 0x8100))
	f.Add(withExtension(ipv6(ours6, ours.Port, 3), 44))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < 14 || len(frame) > 3000 {
			return
		}
		if got, want := run(t, p, frame), verdict(frame); got != want {
			t.Errorf("action %d, want %d: % x", got, want, frame)
		}
	})
}

func verdict(f []byte) uint32 {
	be16 := func(at int) uint16 { return binary.BigEndian.Uint16(f[at:]) }
	switch {
	case len(f) >= lenIPv4 && be16(12) == etherTypeIPv4 && f[14] == 0x45 && be16(20)&0x3fff == 0 &&
		f[23] == protocolUDP && netip.AddrFrom4([4]byte(f[30:34])) == ours4 && be16(36) == ours.Port:
		return redirect
	case len(f) >= lenIPv6 && be16(12) == etherTypeIPv6 && f[14]>>4 == 6 && f[20] == protocolUDP &&
		netip.AddrFrom16([16]byte(f[38:54])) == ours6 && be16(56) == ours.Port:
		return redirect
	}
	return pass
}

func BenchmarkFilter(b *testing.B) {
	p := load(b, ours)
	if err := p.Register(0, xskFD(b)); err != nil {
		b.Fatal(err)
	}
	for name, frame := range map[string][]byte{
		"ours IPv4": ipv4(ours4, ours.Port, 1400),
		"ours IPv6": ipv6(ours6, ours.Port, 1400),
		"TCP":       set(ipv4(ours4, ours.Port, 1400), 23, 6),
	} {
		b.Run(name, func(b *testing.B) {
			const repeat = 100_000
			for b.Loop() {
				if _, err := p.prog.Run(&ebpf.RunOptions{Data: frame, Repeat: repeat}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/repeat, "ns/packet")
		})
	}
}
