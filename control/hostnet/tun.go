package hostnet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"flanx/control/lease"
)

// TUN is how the overlay's device has to look.
type TUN struct {
	Index                int // interface index
	MTU                  MTU
	Subnets              lease.Subnets // our own
	Network, IPv6Network netip.Prefix  // the overlay's; invalid for a family that is off
}

// ConfigureTUN gives the device its MTU, for each family the address
// "<subnet .0>/32" (IPv6: /128) and a route to the whole network, and sets it
// up. The device is ours: whatever other addresses and routes of the main table
// are found on it are left over from another run and removed. What is right is
// not touched, and what replaces something comes before that goes. Repeating the
// call changes nothing; it returns what was changed, in words.
//
// A route to exactly the same network on another device is [ErrConflict]: it is
// not taken away, and nothing was changed then.
func ConfigureTUN(t TUN) (changes []string, err error) {
	link, err := netlink.LinkByIndex(t.Index)
	if err != nil {
		return nil, fmt.Errorf("configure TUN: find interface %d: %w", t.Index, err)
	}
	s := &tunSetup{TUN: t, link: link, name: link.Attrs().Name}
	if err := s.run(); err != nil {
		return s.changes, fmt.Errorf("configure TUN %s: %w", s.name, explain(err))
	}
	return s.changes, nil
}

// tunSetup is one run of ConfigureTUN.
type tunSetup struct {
	TUN
	link    netlink.Link
	name    string
	changes []string
}

func (s *tunSetup) note(format string, args ...any) {
	s.changes = append(s.changes, fmt.Sprintf(format, args...))
}

func (s *tunSetup) run() error {
	routes, err := mainRoutes()
	if err != nil {
		return err
	}
	if err := s.checkConflict(routes); err != nil {
		return err
	}
	for _, step := range []func() error{s.setMTU, s.setIPv6, s.setUp, s.setAddrs, s.setRoutes} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (s *tunSetup) setMTU() error {
	mtu := s.MTU.Link()
	if mtu == 0 || s.link.Attrs().MTU == mtu {
		return nil
	}
	if err := netlink.LinkSetMTU(s.link, mtu); err != nil {
		return fmt.Errorf("set MTU %d: %w", mtu, err)
	}
	s.note("MTU %d -> %d", s.link.Attrs().MTU, mtu)
	return nil
}

// setIPv6 makes IPv6 possible on our device where the host has it off by
// default, and keeps the kernel from giving the device a link-local address,
// whose only use would be chatter (router solicitations, MLD).
func (s *tunSetup) setIPv6() error {
	conf := filepath.Join(sysctlRoot, "net/ipv6/conf", s.name)
	_ = os.WriteFile(filepath.Join(conf, "addr_gen_mode"), []byte("1"), 0) // without, only noise
	if !s.IPv6Network.IsValid() {
		return nil
	}
	off := filepath.Join(conf, "disable_ipv6")
	if v, err := readSysctl(off); err != nil {
		return fmt.Errorf("%w: IPv6: %w: boot without ipv6.disable=1 or turn EnableIPv6 off", ErrNotSupported, err)
	} else if v == "0" {
		return nil
	}
	if err := os.WriteFile(off, []byte("0"), 0); err != nil {
		return fmt.Errorf("turn IPv6 on: %w", err)
	}
	s.note("IPv6 turned on")
	return nil
}

func (s *tunSetup) setUp() error {
	if s.link.Attrs().Flags&unix.IFF_UP != 0 {
		return nil
	}
	if err := netlink.LinkSetUp(s.link); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	s.note("set up")
	return nil
}

// wantedAddrs returns the device's addresses: the first of each subnet.
func (s *tunSetup) wantedAddrs() []netip.Prefix {
	var want []netip.Prefix
	for _, p := range []netip.Prefix{s.Subnets.V4, s.Subnets.V6} {
		if p.IsValid() {
			want = append(want, netip.PrefixFrom(p.Masked().Addr(), p.Addr().BitLen()))
		}
	}
	return want
}

// setAddrs adds before it removes: with a device's last address the kernel
// flushes its routes.
func (s *tunSetup) setAddrs() error {
	list, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(s.link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	have := make([]netip.Prefix, len(list))
	for i, a := range list {
		have[i] = prefixOf(a.IPNet, familyOf(addrOf(a.IP)))
	}
	want := s.wantedAddrs()
	for _, p := range want {
		if slices.Contains(have, p) {
			continue
		}
		// No duplicate address detection: nobody else is on the device.
		if err := netlink.AddrAdd(s.link, &netlink.Addr{IPNet: ipNet(p), Flags: nodad(p)}); err != nil {
			return fmt.Errorf("add address %s: %w", p, err)
		}
		s.note("added address %s", p)
	}
	for i, p := range have {
		if slices.Contains(want, p) {
			continue
		}
		if err := netlink.AddrDel(s.link, &list[i]); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("remove address %s: %w", p, err)
		}
		s.note("removed address %s", p)
	}
	return nil
}

func nodad(p netip.Prefix) int {
	if p.Addr().Is6() {
		return unix.IFA_F_NODAD
	}
	return 0
}

// holder says who holds a TUN device: the kernel shows its name in the fdinfo of
// each descriptor (tun_chr_show_fdinfo in drivers/net/tun.c). Every network
// namespace may have a device of that name, so a process in ours comes first.
func holder(proc, name string) string {
	const inside = "ns/net"
	here, _ := os.Readlink(filepath.Join(proc, "thread-self", inside))
	who := "another process"
	infos, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fdinfo", "*"))
	for _, path := range infos {
		info, err := os.ReadFile(path)
		if err != nil || !isTUNInfo(info, name) {
			continue // gone again, not ours to read, or another file
		}
		dir := filepath.Dir(filepath.Dir(path))
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		pid, _ := strconv.Atoi(filepath.Base(dir))
		who = fmt.Sprintf("process %d (%.16q)", pid, trimLine(comm))
		if there, err := os.Readlink(filepath.Join(dir, inside)); err == nil && there == here {
			return who
		}
	}
	return who
}
