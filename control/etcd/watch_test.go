package etcd

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"flanx/control"
	"flanx/control/lease"
)

// fakeWatch is a watch without etcd; what it tells is written to said.
func fakeWatch(said *[]string) *watch {
	s := &Store{cfg: Config{Prefix: DefaultPrefix, Log: slog.New(slog.DiscardHandler)}}
	return &watch{
		store: s, told: map[string]told{},
		outage: control.Outage{Log: s.cfg.Log}, warn: control.Warnings{Log: s.cfg.Log},
		apply: func(u lease.Update) error {
			var parts []string
			for _, l := range u.Leases {
				parts = append(parts, fmt.Sprintf("+%s@%s", l.Subnets, l.Attrs.PublicIP))
			}
			for _, r := range u.Removed {
				parts = append(parts, "-"+r.String())
			}
			slices.Sort(parts)
			if u.Snapshot {
				parts = append([]string{"all:"}, parts...)
			}
			if u.Lost {
				parts = append(parts, "lost")
			}
			*said = append(*said, strings.Join(parts, " "))
			return nil
		},
	}
}

func kv(name, ip string, rev int64) *mvccpb.KeyValue {
	value := fmt.Sprintf(`{"PublicIP":%q}`, ip)
	return &mvccpb.KeyValue{Key: []byte(DefaultPrefix + "/subnets/" + name), Value: []byte(value), Lease: 1, ModRevision: rev}
}

func (w *watch) listing(revision int64, cluster uint64, kvs ...*mvccpb.KeyValue) listing {
	l := listing{revision: revision, cluster: cluster}
	for _, kv := range kvs {
		l.entries = append(l.entries, w.store.parse(kv))
	}
	return l
}

// The watch told everything, or dropped, repeated and swapped some: a list brings
// the caller to what is true, by the smallest change while continuity holds.
func TestListCorrectsTheWatch(t *testing.T) {
	var said []string
	w := fakeWatch(&said)
	step := func(want string, l listing) {
		t.Helper()
		said = nil
		if err := w.take(l); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(said, "; "); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	a, b := kv("10.5.1.0-24", "10.99.0.1", 5), kv("10.5.2.0-24", "10.99.0.2", 6)
	step("all: +10.5.1.0/24@10.99.0.1 +10.5.2.0/24@10.99.0.2", w.listing(10, 1, a, b))
	step("", w.listing(10, 1, a, b))
	step("", w.listing(12, 1, kv("10.5.1.0-24", "10.99.0.1", 11), b)) // written again, same value
	step("+10.5.1.0/24@10.99.0.9", w.listing(14, 1, kv("10.5.1.0-24", "10.99.0.9", 13), b))
	step("-10.5.1.0/24", w.listing(16, 1, b))
	step("-10.5.2.0/24", w.listing(18, 1, kv("10.5.2.0-24", "0.0.0.0", 17)))
	step("+10.5.2.0/24@10.99.0.2", w.listing(20, 1, kv("10.5.2.0-24", "10.99.0.2", 19)))
	step("lost; all: +10.5.1.0/24@10.99.0.1", w.listing(7, 1, a))  // revision went back
	step("lost; all: +10.5.2.0/24@10.99.0.2", w.listing(90, 2, b)) // another cluster
	w.began = false                                                // the watch broke
	step("all: +10.5.2.0/24@10.99.0.2", w.listing(91, 2, b))
}

func TestRefusalEndsWatch(t *testing.T) {
	var said []string
	w := fakeWatch(&said)
	refusal := errors.New("full")
	w.apply = func(lease.Update) error { return refusal }
	err := w.take(w.listing(1, 1))
	var refused applyError
	if !errors.As(err, &refused) || !errors.Is(err, refusal) {
		t.Errorf("take returned %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("10.5.1.0-24", `{"PublicIP":"10.99.0.1"}`)
	f.Add("garbage", "garbage")
	s := &Store{cfg: Config{Prefix: DefaultPrefix}}
	f.Fuzz(func(t *testing.T, name, value string) {
		e := s.parse(&mvccpb.KeyValue{Key: []byte(DefaultPrefix + "/subnets/" + name), Value: []byte(value), ModRevision: 3})
		if e.err == nil && (e.claim != e.lease.Subnets || !e.lease.Reserved || e.lease.Revision != 3) {
			t.Errorf("parsed to %+v", e)
		}
	})
}
