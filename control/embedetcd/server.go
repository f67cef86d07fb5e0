package embedetcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// DefaultListen is a free port on loopback.
const DefaultListen = "http://127.0.0.1:0"

// A single member has nobody to wait for, so its elections can be quick. The
// shortest lease that etcd grants follows from it: 1 s.
const (
	tick     = 10 * time.Millisecond
	election = 10 * tick
)

// Config says where to listen and where to keep data. The zero value is a
// private server on loopback.
type Config struct {
	// Listen is the client URL: http://ip:port, https:// with TLS, or unix:///path;
	// empty: DefaultListen. Port 0 takes a free one.
	Listen string
	// Dir holds the data. Empty: a temporary one that Close removes; a given one
	// is kept, and a server started on it again has the same data.
	Dir string
	TLS TLS
}

// TLS names the PEM files of an https listener. With a CAFile clients must show
// a certificate that it signed.
type TLS struct {
	CertFile, KeyFile, CAFile string
}

// Server is a running etcd. Its methods are not safe for concurrent use.
type Server struct {
	etcd *embed.Etcd
	temp []string // to remove
	url  string
}

// Start runs a server and returns when it answers, or when ctx ends.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	s := &Server{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	ec, err := s.config(cfg)
	if err != nil {
		return nil, err
	}
	if s.etcd, err = embed.StartEtcd(ec); err != nil {
		return nil, fmt.Errorf("start embedded etcd: %w", err)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		return nil, fmt.Errorf("start embedded etcd: %w", err)
	case <-ctx.Done():
		return nil, fmt.Errorf("start embedded etcd: %w", ctx.Err())
	}
	s.url = clientURL(ec.ListenClientUrls[0], s.etcd.Clients[0].Addr().String())
	return s, nil
}

// clientURL is the address that was really taken.
func clientURL(asked url.URL, addr string) string {
	if asked.Scheme == "unix" || asked.Scheme == "unixs" {
		return asked.Scheme + "://" + asked.Path
	}
	return asked.Scheme + "://" + addr
}

func (s *Server) config(cfg Config) (*embed.Config, error) {
	run, err := s.mkdirTemp()
	if err != nil {
		return nil, err
	}
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(run, "data")
	}
	client, err := url.Parse(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address of embedded etcd: %w", err)
	}
	// etcd insists on a peer listener; a socket in our directory is reached by
	// nobody else and collides with nothing.
	peer := url.URL{Scheme: "unix", Path: filepath.Join(run, "peer")}

	ec := embed.NewConfig()
	ec.Name = "embedded"
	ec.Dir = cfg.Dir
	ec.ListenPeerUrls, ec.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	ec.ListenClientUrls, ec.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	ec.InitialCluster = ec.InitialClusterFromName(ec.Name)
	ec.TickMs, ec.ElectionMs = uint(tick.Milliseconds()), uint(election.Milliseconds())
	ec.UnsafeNoFsync = true
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	if client.Scheme == "https" {
		// etcd would find a bad file only at the first handshake.
		if _, err := tls.LoadX509KeyPair(cfg.TLS.CertFile, cfg.TLS.KeyFile); err != nil {
			return nil, fmt.Errorf("load certificate of embedded etcd: %w", err)
		}
		ec.ClientTLSInfo = transport.TLSInfo{
			CertFile: cfg.TLS.CertFile, KeyFile: cfg.TLS.KeyFile,
			TrustedCAFile: cfg.TLS.CAFile, ClientCertAuth: cfg.TLS.CAFile != "",
		}
	}
	return ec, nil
}

func (s *Server) mkdirTemp() (string, error) {
	dir, err := os.MkdirTemp("", "flanx-etcd-")
	if err != nil {
		return "", fmt.Errorf("create directory for embedded etcd: %w", err)
	}
	s.temp = append(s.temp, dir)
	return dir, nil
}

// URL is the endpoint for clients.
func (s *Server) URL() string { return s.url }

// Close stops the server and removes what it made. Open watches of clients make
// it take some seconds: close the clients first.
func (s *Server) Close() error {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
	var errs []error
	for _, dir := range s.temp {
		errs = append(errs, os.RemoveAll(dir))
	}
	s.temp = nil
	return errors.Join(errs...)
}
