package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"flanx/control"
	"flanx/control/lease"
)

// maxResponse bounds one answer of etcd in bytes; listing asks for smaller pages
// when one does not fit.
const maxResponse = 16 << 20

// diagnoseTime is how long to ask for the reason of a timeout.
const diagnoseTime = 300 * time.Millisecond

// ErrClosed is the answer of a Store after Close.
var ErrClosed = errors.New("etcd store is closed")

// Store is a cluster in etcd.
type Store struct {
	cfg  Config
	page atomic.Int64 // how many keys the next listing asks for at once

	mu     sync.Mutex
	client *clientv3.Client // nil until first use
	closed bool
}

// New checks the configuration and the TLS files. It does not connect.
func New(cfg Config) (*Store, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if _, err := cfg.TLS.load(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	s.page.Store(firstPage)
	return s, nil
}

// Close ends the connections. Calls that are under way fail.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.client == nil {
		return nil
	}
	err := s.client.Close()
	s.client = nil
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// dial returns the client, made at first use. With a password etcd's client
// blocks until it has a token, so ctx must be able to end that.
func (s *Store) dial(ctx context.Context) (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.client != nil {
		return s.client, nil
	}
	life, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	client, err := clientv3.New(s.clientConfig(life))
	if err == nil && !stop() {
		client.Close()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s.client = client
	return client, nil
}

func (s *Store) clientConfig(life context.Context) clientv3.Config {
	c := clientv3.Config{
		Context:              life,
		Endpoints:            s.cfg.Endpoints,
		DialTimeout:          s.cfg.RequestTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		MaxCallRecvMsgSize:   maxResponse,
		Username:             s.cfg.Username,
		Password:             s.cfg.Password,
		Logger:               zap.NewNop(), // what matters comes back as errors
	}
	// grpc would let two minutes pass between tries after a long outage.
	retry := backoff.Config{BaseDelay: firstBackoff, Multiplier: 2, Jitter: 0.2, MaxDelay: longestBackoff}
	c.DialOptions = append(c.DialOptions, grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: retry, MinConnectTimeout: s.cfg.RequestTimeout,
	}))
	if s.cfg.secure() {
		c.DialOptions = append(c.DialOptions, grpc.WithTransportCredentials(newRereading(s.cfg.TLS)))
	}
	return c
}

// do runs one request under its timeout. Its errors are ErrUnavailable, with
// etcd's own inside and the endpoints named, or ctx's.
func (s *Store) do(ctx context.Context, request func(context.Context, *clientv3.Client) error) error {
	client, err := s.dial(ctx)
	if err == nil {
		short, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
		defer cancel()
		err = request(short, client)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if client != nil && errors.Is(err, context.DeadlineExceeded) {
		err = whyLate(ctx, client, s.cfg.RequestTimeout)
	}
	return fmt.Errorf("%w: etcd at %s: %w", control.ErrUnavailable, strings.Join(s.cfg.Endpoints, ", "), err)
}

// whyLate finds out what kept a request waiting. etcd's client waits for a
// connection and then forgets why there was none, a refused certificate for
// example; a request that does not wait is told.
func whyLate(ctx context.Context, c *clientv3.Client, after time.Duration) error {
	short, cancel := context.WithTimeout(ctx, diagnoseTime)
	defer cancel()
	kv := etcdserverpb.NewKVClient(c.ActiveConnection())
	_, err := kv.Range(short, &etcdserverpb.RangeRequest{Key: []byte{0}}, grpc.WaitForReady(false))
	if status.Code(err) == codes.Unavailable {
		return fmt.Errorf("no answer in %s: %s", after, status.Convert(err).Message())
	}
	return fmt.Errorf("no answer in %s: %w", after, context.DeadlineExceeded)
}

// get reads one key, or by opts a range.
func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (resp *clientv3.GetResponse, err error) {
	err = s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		resp, err = c.Get(ctx, key, opts...)
		return err
	})
	return resp, err
}

// Config reads the network configuration.
func (s *Store) Config(ctx context.Context) (lease.NetworkConfig, error) {
	key := s.cfg.configKey()
	resp, err := s.get(ctx, key)
	if err != nil {
		return lease.NetworkConfig{}, fmt.Errorf("read network configuration: %w", err)
	}
	if len(resp.Kvs) == 0 {
		return lease.NetworkConfig{}, fmt.Errorf(
			"%w: etcd at %s has no key %s; write it with the v3 API (data of the v2 API is not seen): "+
				`ETCDCTL_API=3 etcdctl put %s '{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan"}}'`,
			control.ErrNoConfig, strings.Join(s.cfg.Endpoints, ", "), key, key)
	}
	cfg, err := lease.ParseConfig(resp.Kvs[0].Value)
	if err != nil {
		return cfg, fmt.Errorf("%w: key %s: %w", control.ErrBadConfig, key, err)
	}
	return cfg, nil
}
