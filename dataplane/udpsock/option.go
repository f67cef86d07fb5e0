package udpsock

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ttl is the TTL or hop limit of the outer packets, whatever the machine's
// default (net.ipv4.ip_default_ttl) is.
const ttl = 64

// option is one integer socket option.
type option struct {
	name              string
	level, opt, value int
}

// setOptions sets what must be set before bind.
func setOptions(fd int, cfg Config) error {
	options := options4(cfg.DF)
	if cfg.Local.Addr().Is6() {
		options = options6(cfg.DF)
	}
	if cfg.Shared {
		options = append(options, option{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("set %s of UDP socket to %d: %w", o.name, o.value, err)
		}
	}
	if err := setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, cfg.RecvBuffer); err != nil {
		return fmt.Errorf("size receive buffer: %w", err)
	}
	if err := setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, cfg.SendBuffer); err != nil {
		return fmt.Errorf("size send buffer: %w", err)
	}
	return nil
}

// options4 are those of ip(7).
func options4(df bool) []option {
	discover := unix.IP_PMTUDISC_DONT
	if df {
		discover = unix.IP_PMTUDISC_DO
	}
	return []option{
		{"IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, ttl},
		{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, discover},
	}
}

// options6 are those of ipv6(7). IPv4 has a socket of its own.
func options6(df bool) []option {
	discover := unix.IPV6_PMTUDISC_DONT
	if df {
		discover = unix.IPV6_PMTUDISC_DO
	}
	return []option{
		{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
		{"IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ttl},
		{"IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, discover},
	}
}

// setBuffer sizes a buffer past the machine's limit where CAP_NET_ADMIN allows
// that, else up to it (socket(7)).
func setBuffer(fd, force, plain, bytes int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, bytes); err == nil {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, bytes)
}
