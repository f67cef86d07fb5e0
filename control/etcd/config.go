package etcd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// Defaults; the first two are flannel's.
const (
	DefaultPrefix = "/coreos.com/network"
	DefaultTTL    = 24 * time.Hour
	DefaultMargin = time.Hour

	DefaultRequestTimeout = 5 * time.Second
	DefaultHeartbeat      = 5 * time.Second
	DefaultResync         = time.Minute
	DefaultVerify         = 10 * time.Second
)

// Connections to a member that vanished are noticed after their sum. The first
// may not be below 5 s: etcd closes connections that ping more often.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// Waits between tries after a failure.
const (
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 5 * time.Second
)

// Config says which etcd to use and how. A zero field means its default.
type Config struct {
	Endpoints []string // http://, https://, unix://, or host:port without TLS unless TLS is set
	Prefix    string   // of all keys
	TLS       TLS
	Username  string
	Password  string
	Log       *slog.Logger

	TTL    time.Duration // of our lease, in whole seconds
	Margin time.Duration // before expiry, when our lease is renewed

	RequestTimeout time.Duration // of one request, connecting included
	Heartbeat      time.Duration // between questions whether etcd is still there and the same
	Resync         time.Duration // between full lists that correct what the watch missed; ± a quarter
	Verify         time.Duration // between looks at our own key, beside its watch; ± a quarter
}

// TLS names PEM files. They are read at every new connection, so a rotated file
// needs no restart. A CA alone is enough for https.
type TLS struct {
	CAFile            string // empty: the system's
	CertFile, KeyFile string // both or none
}

// IsZero says whether no file is named.
func (t TLS) IsZero() bool { return t == TLS{} }

// check fills in the defaults and refuses what cannot work.
func (c Config) check() (Config, error) {
	setDefault(&c.Prefix, DefaultPrefix)
	setDefault(&c.TTL, DefaultTTL)
	setDefault(&c.RequestTimeout, DefaultRequestTimeout)
	setDefault(&c.Heartbeat, DefaultHeartbeat)
	setDefault(&c.Resync, DefaultResync)
	setDefault(&c.Verify, DefaultVerify)
	if c.Margin == 0 {
		c.Margin = min(DefaultMargin, c.TTL/3)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Endpoints = slices.Clone(c.Endpoints)
	switch {
	case c.TTL < time.Second:
		return c, fmt.Errorf("lease TTL %s is below 1s", c.TTL)
	case c.Margin < 0 || c.Margin >= c.TTL:
		return c, fmt.Errorf("renew margin %s is not between 0 and the lease TTL %s", c.Margin, c.TTL)
	case (c.TLS.CertFile == "") != (c.TLS.KeyFile == ""):
		return c, errors.New("etcd certificate and key file belong together: give both or none")
	case (c.Username == "") != (c.Password == ""):
		return c, errors.New("etcd username and password belong together: give both or none")
	}
	return c, c.checkEndpoints()
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// checkEndpoints refuses a mix of protected and plain endpoints: one connection
// pool serves them all, and what was meant to be protected must not go out plain.
func (c Config) checkEndpoints() error {
	if len(c.Endpoints) == 0 {
		return errors.New("no etcd endpoint: give at least one, e.g. http://127.0.0.1:2379")
	}
	plain, secure := "", ""
	for _, e := range c.Endpoints {
		switch scheme, err := endpointScheme(e); {
		case err != nil:
			return err
		case scheme == "https" || scheme == "unixs" || scheme == "" && !c.TLS.IsZero():
			secure = e
		case scheme == "unix": // a local socket: neither
		default:
			plain = e
		}
	}
	switch {
	case plain != "" && !c.TLS.IsZero():
		return fmt.Errorf("etcd endpoint %s is not protected, but TLS files are given: write https://, or drop the files", plain)
	case plain != "" && secure != "":
		return fmt.Errorf("etcd endpoints %s and %s differ in protection: use https:// for all or for none", plain, secure)
	}
	return nil
}

func endpointScheme(endpoint string) (string, error) {
	scheme, rest, found := strings.Cut(endpoint, "://")
	if !found {
		scheme, rest = "", endpoint
	}
	switch scheme {
	case "unix", "unixs":
		if rest == "" {
			return "", fmt.Errorf("etcd endpoint %q has no path", endpoint)
		}
		return scheme, nil
	case "", "http", "https":
	default:
		return "", fmt.Errorf("etcd endpoint %q: scheme %q is not one of http, https, unix", endpoint, scheme)
	}
	u, err := url.Parse("//" + rest)
	if err != nil || u.Host == "" || u.User != nil {
		return "", fmt.Errorf("etcd endpoint %q is not scheme://host:port", endpoint)
	}
	return scheme, nil
}

// secure says whether connections use TLS; checkEndpoints made it one answer.
func (c Config) secure() bool {
	return !c.TLS.IsZero() || slices.ContainsFunc(c.Endpoints, func(e string) bool {
		return strings.HasPrefix(e, "https://") || strings.HasPrefix(e, "unixs://")
	})
}

func (c Config) configKey() string { return path.Join(c.Prefix, "config") }

// subnetsPrefix ends in a slash: <prefix>/subnets-old is none of ours.
func (c Config) subnetsPrefix() string { return path.Join(c.Prefix, "subnets") + "/" }
