package etcd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flanx/control"
	"flanx/control/controltest"
	"flanx/control/embedetcd"
	"flanx/control/etcd"
)

// authority signs certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	a := authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.pem, a.key = a.sign(template, nil)
	block, _ := pem.Decode(a.pem)
	var err error
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a authority) sign(template *x509.Certificate, parent *authority) (certPEM []byte, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer, signKey := template, key
	if parent != nil {
		signer, signKey = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, signKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// issue writes ca.pem, cert.pem and key.pem for a host into dir.
func (a authority) issue(dir string, host net.IP) (ca, cert, key string) {
	a.t.Helper()
	certPEM, k := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{host},
	}, &a)
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			a.t.Fatal(err)
		}
		return path
	}
	return write("ca.pem", a.pem), write("cert.pem", certPEM),
		write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

var loopback = net.IPv4(127, 0, 0, 1)

// secured starts an etcd that speaks TLS; with mutual it wants to see a certificate.
func secured(t *testing.T, a authority, host net.IP, mutual bool) *embedetcd.Server {
	t.Helper()
	ca, cert, key := a.issue(t.TempDir(), host)
	cfg := embedetcd.Config{Listen: "https://127.0.0.1:0", TLS: embedetcd.TLS{CertFile: cert, KeyFile: key}}
	if mutual {
		cfg.TLS.CAFile = ca
	}
	s, err := embedetcd.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t, "first"), newAuthority(t, "second")
	dir, otherDir := t.TempDir(), t.TempDir()
	ca, cert, key := a.issue(dir, loopback)
	otherCA, otherCert, otherKey := other.issue(otherDir, loopback)
	for _, c := range []struct {
		name   string
		host   net.IP
		mutual bool
		files  etcd.TLS
		says   string // part of the error; empty: it works
	}{
		{"CA alone", loopback, false, etcd.TLS{CAFile: ca}, ""},
		{"CA and certificate", loopback, true, etcd.TLS{CAFile: ca, CertFile: cert, KeyFile: key}, ""},
		{"no certificate where one is wanted", loopback, true, etcd.TLS{CAFile: ca}, "no answer"},
		{"certificate of another CA", loopback, true, etcd.TLS{CAFile: ca, CertFile: otherCert, KeyFile: otherKey}, "no answer"},
		{"server of another CA", loopback, false, etcd.TLS{CAFile: otherCA}, "unknown authority"},
		{"system CAs", loopback, false, etcd.TLS{}, "unknown authority"},
		{"server of another address", net.IPv4(192, 0, 2, 1), false, etcd.TLS{CAFile: ca}, "192.0.2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := secured(t, a, c.host, c.mutual)
			s, _ := open(t, srv.URL(), func(cfg *etcd.Config) {
				cfg.TLS = c.files
				if c.says != "" {
					cfg.RequestTimeout = 2 * time.Second // it is waited for
				}
			})
			_, err := s.Config(t.Context())
			works := errors.Is(err, control.ErrNoConfig)
			if works != (c.says == "") || !works && !errors.Is(err, control.ErrUnavailable) {
				t.Errorf("Config says %v", err)
			}
			if c.says != "" && !strings.Contains(err.Error(), c.says) {
				t.Errorf("message %q does not say %q", err, c.says)
			}
		})
	}
}

func TestRotatedFiles(t *testing.T) {
	t.Parallel()
	before, after := newAuthority(t, "before"), newAuthority(t, "after")
	dir := t.TempDir()
	ca, cert, key := before.issue(dir, loopback)
	first, second := secured(t, before, loopback, true), secured(t, after, loopback, true)
	p := controltest.NewProxy(t, first.URL())
	url := strings.Replace(p.URL(), "http://", "https://", 1)
	s, l := open(t, url, func(c *etcd.Config) {
		quick(c)
		c.TLS = etcd.TLS{CAFile: ca, CertFile: cert, KeyFile: key}
	})
	o := controltest.Observe(t, s)
	o.Sees(t)

	p.Lead(second.URL()) // everything is rotated at the server...
	p.Cut()
	p.Heal()
	o.Lost(t)
	if err := os.WriteFile(ca, []byte("half writ"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	after.issue(dir, loopback) // ...and then here, in place
	o.Sees(t)
	if n := l.count("is away"); n < 1 || n > 5 { // once per change of state, however often a slow machine makes it change
		t.Errorf("outage logged %d times:\n%s", n, l)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	srv := embedded(t)
	r := dial(t, srv.URL())
	r.put(prefix+"/config", controltest.Config)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := r.UserAdd(ctx, "root", "secret"); return err },
		func(ctx context.Context) error { _, err := r.UserGrantRole(ctx, "root", "root"); return err },
		func(ctx context.Context) error { _, err := r.UserAdd(ctx, "node", "word"); return err },
		func(ctx context.Context) error { _, err := r.RoleAdd(ctx, "flannel"); return err },
		func(ctx context.Context) error {
			_, err := r.RoleGrantPermission(ctx, "flannel", prefix+"/", clientv3.GetPrefixRangeEnd(prefix+"/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func(ctx context.Context) error { _, err := r.UserGrantRole(ctx, "node", "flannel"); return err },
		func(ctx context.Context) error { _, err := r.AuthEnable(ctx); return err },
	} {
		if err := step(r.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, user, password, prefix, says string }{
		{"right", "node", "word", "", ""},
		{"wrong password", "node", "guess", "", "authentication failed"},
		{"unknown user", "nobody", "word", "", "authentication failed"},
		{"no user", "", "", "", "user name is empty"},
		{"no permission", "node", "word", "/elsewhere", "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := open(t, srv.URL(), func(cfg *etcd.Config) {
				cfg.Username, cfg.Password, cfg.Prefix = c.user, c.password, c.prefix
			})
			_, err := s.Config(t.Context())
			switch {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && (!errors.Is(err, control.ErrUnavailable) || !strings.Contains(err.Error(), c.says)):
				t.Errorf("Config says %v, want %q", err, c.says)
			case err != nil && strings.Contains(err.Error(), "guess"):
				t.Errorf("message shows the password: %v", err)
			}
			if c.says == "" {
				keep(t, s, acquire(t, s, 1), nil)
				controltest.Observe(t, s).Sees(t, controltest.Node(1))
			}
		})
	}
}

func TestPasswordWhileUnreachable(t *testing.T) {
	t.Parallel()
	s, _ := open(t, deadURL(t), func(c *etcd.Config) { c.Username, c.Password = "node", "word" })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := s.Config(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Config says %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("Config took %s after its context had ended", took)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	url := "unix://" + filepath.Join(t.TempDir(), "etcd")
	srv, err := embedetcd.Start(t.Context(), embedetcd.Config{Listen: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	s, _ := open(t, url, nil)
	if _, err := s.Config(t.Context()); !errors.Is(err, control.ErrNoConfig) {
		t.Error(err)
	}
}
