package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
)

// load reads the files into a configuration for one handshake.
func (t TLS) load() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read etcd CA: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd CA file %s holds no PEM certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load etcd client certificate %s with key %s: %w", t.CertFile, t.KeyFile, err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// rereading makes every client handshake with what the files hold at that
// moment. crypto/tls has a hook for the certificate alone; a rotated CA needs a
// new configuration, and grpc takes that only as credentials of its own.
type rereading struct {
	credentials.TransportCredentials // for Info and the rest
	files                            TLS
}

func newRereading(files TLS) rereading {
	return rereading{credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), files}
}

func (r rereading) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg, err := r.files.load()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(cfg).ClientHandshake(ctx, authority, conn)
}

func (r rereading) Clone() credentials.TransportCredentials { return newRereading(r.files) }
