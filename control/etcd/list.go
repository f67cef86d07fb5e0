package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"flanx/control/lease"
)

// How many keys one request asks for. Whoever can write leases can make them big,
// so a page starts small and grows as long as the answers are short; a page that
// was too large, or not to be had in time, is halved, also for the next list.
const (
	firstPage   = 64
	maxPage     = 1024
	shortAnswer = 1 << 20 // bytes of values
)

// listing is every key under <prefix>/subnets/ at one revision.
type listing struct {
	entries  []entry
	revision int64
	cluster  uint64
}

// entry is one key, good or not.
type entry struct {
	key   string
	claim lease.Subnets // the range the key stands on, zero if it has none
	lease lease.Lease   // if err is nil
	err   error         // why nobody can use it
	etcd  int64         // the etcd lease it hangs on, 0 for a reservation
	rev   int64         // of the last change
}

// parse never fails: what cannot be read is kept with its error.
func (s *Store) parse(kv *mvccpb.KeyValue) entry {
	name := strings.TrimPrefix(string(kv.Key), s.cfg.subnetsPrefix())
	e := entry{key: string(kv.Key), claim: lease.Claim(name), etcd: kv.Lease, rev: kv.ModRevision}
	e.lease = lease.Lease{Reserved: kv.Lease == 0, Revision: kv.ModRevision}
	if e.lease.Subnets, e.err = lease.ParseKey(name); e.err != nil {
		return e
	}
	if e.lease.Attrs, e.err = lease.ParseAttrs(kv.Value); e.err != nil {
		e.err = fmt.Errorf("value of %.*q: %w", maxShown, e.key, e.err)
	}
	return e
}

// maxShown bounds foreign text in messages, in characters.
const maxShown = 100

// list reads all pages at the revision of the first.
func (s *Store) list(ctx context.Context) (listing, error) {
	from := s.cfg.subnetsPrefix()
	end := clientv3.GetPrefixRangeEnd(from)
	var l listing
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(s.page.Load())}
		if l.revision != 0 {
			opts = append(opts, clientv3.WithRev(l.revision))
		}
		resp, err := s.get(ctx, from, opts...)
		if err != nil {
			smaller := s.page.Load() / 2
			s.page.Store(max(smaller, 1))
			if tooLarge(err) && smaller > 0 {
				continue
			}
			return l, fmt.Errorf("list leases: %w", err)
		}
		if l.revision == 0 {
			l.revision, l.cluster = resp.Header.Revision, resp.Header.ClusterId
		}
		size := 0
		for _, kv := range resp.Kvs {
			l.entries = append(l.entries, s.parse(kv))
			size += len(kv.Value)
		}
		if page := s.page.Load(); size < shortAnswer && page < maxPage {
			s.page.Store(2 * page)
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return l, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// tooLarge says whether an answer was over maxResponse.
func tooLarge(err error) bool {
	var st interface{ GRPCStatus() *status.Status }
	if errors.As(err, &st) {
		return st.GRPCStatus().Code() == codes.ResourceExhausted
	}
	var code interface{ Code() codes.Code } // etcd's own error type
	return errors.As(err, &code) && code.Code() == codes.ResourceExhausted
}
