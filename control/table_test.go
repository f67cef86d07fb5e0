package control

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"flanx/control/lease"
)

const grace = time.Minute

// bench is a table with a clock of its own and a short way to write updates:
// "+3" is node 3's lease, "+3b" the same with another address, "-3" its end.
type bench struct {
	*testing.T
	*table
	now time.Time
	log bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, now: time.Now()}
	cfg, err := lease.ParseConfig([]byte(`{"Network":"10.5.0.0/16"}`))
	if err != nil {
		t.Fatal(err)
	}
	b.table = newTable(cfg, testLease(100).Subnets, testLease(100).Attrs.PublicIP, grace, slog.New(slog.NewTextHandler(&b.log, nil)))
	return b
}

func testLease(n byte) lease.Lease {
	return lease.Lease{
		Subnets:  lease.Subnets{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, n, 0}), 24)},
		Attrs:    lease.Attrs{PublicIP: netip.AddrFrom4([4]byte{10, 99, 0, n})},
		Revision: 1,
	}
}

func parseUpdate(t *testing.T, text string) (u lease.Update) {
	t.Helper()
	for word := range strings.FieldsSeq(text) {
		var n byte
		switch {
		case word == "all:":
			u.Snapshot = true
		case word == "lost":
			u.Lost = true
		case word[0] == '+':
			fmt.Sscanf(word[1:], "%d", &n)
			l := testLease(n)
			if strings.HasSuffix(word, "b") {
				l.Attrs.PublicIP = netip.AddrFrom4([4]byte{10, 98, 0, n})
			}
			u.Leases = append(u.Leases, l)
		case word[0] == '-':
			fmt.Sscanf(word[1:], "%d", &n)
			u.Removed = append(u.Removed, testLease(n).Subnets)
		default:
			t.Fatalf("what is %q?", word)
		}
	}
	return u
}

func formatUpdate(u lease.Update) string {
	var parts []string
	for _, l := range u.Leases {
		suffix := ""
		if l.Attrs.PublicIP.As4()[1] == 98 {
			suffix = "b"
		}
		parts = append(parts, fmt.Sprintf("+%d%s", l.Subnets.V4.Addr().As4()[2], suffix))
	}
	for _, s := range u.Removed {
		parts = append(parts, fmt.Sprintf("-%d", s.V4.Addr().As4()[2]))
	}
	slices.Sort(parts)
	if u.Snapshot {
		parts = append([]string{"all:"}, parts...)
	}
	return strings.Join(parts, " ")
}

// say hands an update in and compares what is passed on; "" is nothing.
func (b *bench) say(in, want string) {
	b.Helper()
	out, worth := b.change(parseUpdate(b.T, in), b.now)
	if got := formatUpdate(out); got != want || worth != (want != "") {
		b.Errorf("%q passed on %q (%v), want %q", in, got, worth, want)
	}
}

// later lets time pass and compares what is released.
func (b *bench) later(d time.Duration, want string) {
	b.Helper()
	b.now = b.now.Add(d)
	out, worth := b.release(b.now)
	if got := formatUpdate(out); got != want || worth != (want != "") {
		b.Errorf("after %s released %q (%v), want %q", d, got, worth, want)
	}
}

func TestTablePassesChangesOn(t *testing.T) {
	b := newBench(t)
	b.say("all: +1 +2", "all: +1 +2")
	b.say("+3", "+3")
	b.say("+3", "") // again
	b.say("+3b", "+3b")
	b.say("-2", "-2")
	b.say("-2", "") // again
	b.say("-9", "") // never known
	b.say("all: +1 +4", "all: +1 +4")
	b.say("all:", "all:")
	b.later(time.Hour, "")
}

func TestTableLeavesOurOwnOut(t *testing.T) {
	b := newBench(t)
	b.say("all: +100 +1", "all: +1")
	b.say("+100", "")
	b.say("+100b", "") // Keep's business, not the table's
	b.say("-100", "")
	if b.log.Len() != 0 {
		t.Errorf("log: %s", b.log.String())
	}
}

func TestTableHoldsDownAfterAnOutage(t *testing.T) {
	b := newBench(t)
	b.say("all: +1 +2 +3 +4", "all: +1 +2 +3 +4")
	b.say("lost", "")
	b.later(time.Hour, "")
	b.say("all: +1", "all: +1 +2 +3 +4") // the others ran out
	if len(b.held) != 3 {
		t.Errorf("%d held, want 3", len(b.held))
	}
	b.later(grace/2, "")
	b.say("+2", "")     // came back as it was
	b.say("+3b", "+3b") // came back elsewhere
	b.say("-1", "")     // ran out later in the same outage
	b.later(grace/2, "-1 -4")
	b.say("-2", "-2") // the grace is over
	b.later(time.Hour, "")
}

func TestTableHoldsThroughASecondOutage(t *testing.T) {
	b := newBench(t)
	b.say("all: +1 +2", "all: +1 +2")
	b.say("lost", "")
	b.say("all:", "all: +1 +2")
	b.say("lost", "")
	b.later(2*grace, "") // nobody could have come back
	b.say("all: +1", "all: +1 +2")
	b.later(grace, "-2")
}

func TestTableGivesAHeldRangeToANewClaim(t *testing.T) {
	b := newBench(t)
	b.say("all: +2 +4", "all: +2 +4")
	b.say("lost", "")
	b.say("all:", "all: +2 +4")
	wide := testLease(2)
	wide.Subnets.V4 = netip.MustParsePrefix("10.5.2.0/23")
	wide.Attrs.PublicIP = netip.MustParseAddr("10.99.0.50")
	out, _ := b.change(lease.Update{Leases: []lease.Lease{wide}}, b.now)
	if len(out.Leases) != 1 || len(out.Removed) != 1 || out.Removed[0] != testLease(2).Subnets {
		t.Errorf("passed on %+v", out)
	}
	wide.Subnets.V4 = netip.MustParsePrefix("10.5.4.0/23")
	out, _ = b.change(lease.Update{Snapshot: true, Leases: []lease.Lease{wide}}, b.now)
	if slices.ContainsFunc(out.Leases, func(l lease.Lease) bool { return l.Subnets == testLease(4).Subnets }) {
		t.Errorf("snapshot still has the held lease: %+v", out)
	}
}

func TestTableHoldsDownMassRemoval(t *testing.T) {
	b := newBench(t)
	b.say("all: +1 +2 +3 +4 +5", "all: +1 +2 +3 +4 +5")
	b.say("-1 -2", "-1 -2") // two nodes went
	b.say("-3 -4 -5", "")   // somebody emptied the store
	b.say("+3 +4", "")      // they made their leases again
	b.later(grace, "-5")
	b.say("all:", "all:") // two are no mass
}

func TestTableWithoutGrace(t *testing.T) {
	b := newBench(t)
	b.grace = 0
	b.say("all: +1 +2 +3", "all: +1 +2 +3")
	b.say("lost", "")
	b.say("all: +1", "all: +1")
	b.say("+2 +3", "+2 +3")
	b.say("-1 -2 -3", "-1 -2 -3")
}

func TestTableJudges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*lease.Lease)
		says   string
	}{
		{"outside", func(l *lease.Lease) { l.Subnets.V4 = netip.MustParsePrefix("10.6.0.0/24") }, "not inside"},
		{"whole network", func(l *lease.Lease) { l.Subnets.V4 = netip.MustParsePrefix("10.5.0.0/16") }, "not inside"},
		{"tunnel in itself", func(l *lease.Lease) { l.Attrs.PublicIP = netip.MustParseAddr("10.5.7.7") }, "should carry"},
		{"part of ours", func(l *lease.Lease) { l.Subnets.V4 = netip.MustParsePrefix("10.5.100.0/25") }, "our own subnets"},
		{"around ours", func(l *lease.Lease) { l.Subnets.V4 = netip.MustParsePrefix("10.5.96.0/20") }, "our own subnets"},
		{"our address", func(l *lease.Lease) { l.Attrs.PublicIP = testLease(100).Attrs.PublicIP }, "our own public address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			bad := testLease(7)
			c.change(&bad)
			for range 3 {
				if got, _ := b.change(lease.Update{Snapshot: true, Leases: []lease.Lease{bad, testLease(1)}}, b.now); formatUpdate(got) != "all: +1" {
					t.Errorf("passed on %q", formatUpdate(got))
				}
			}
			if n := strings.Count(b.log.String(), "lease ignored"); n != 1 || !strings.Contains(b.log.String(), c.says) {
				t.Errorf("%d warnings, want one that says %q: %s", n, c.says, b.log.String())
			}
			bad.Revision++
			b.change(lease.Update{Leases: []lease.Lease{bad}}, b.now)
			if n := strings.Count(b.log.String(), "lease ignored"); n != 2 {
				t.Errorf("%d warnings after a new revision, want 2", n)
			}
		})
	}
}

func TestTableDropsALeaseThatGoesBad(t *testing.T) {
	b := newBench(t)
	b.say("all: +1 +2", "all: +1 +2")
	bad := testLease(1)
	bad.Attrs.PublicIP = netip.MustParseAddr("10.5.7.7")
	out, worth := b.change(lease.Update{Leases: []lease.Lease{bad}}, b.now)
	if !worth || formatUpdate(out) != "-1" {
		t.Errorf("passed on %q", formatUpdate(out))
	}
	b.say("+1", "+1")
}

// Applied to a model, what the table passes on amounts to what the table holds.
func FuzzTable(f *testing.F) {
	f.Add([]byte("abcABC\x00\x01\x02\x80\x90"))
	f.Add([]byte{0xf0, 1, 2, 3, 0xf1, 0xf0, 0xf2, 0xf3, 4, 0x41, 0x42, 0x43})
	f.Fuzz(func(t *testing.T, script []byte) {
		b := newBench(t)
		model := map[lease.Subnets]lease.Lease{}
		apply := func(u lease.Update, worth bool) {
			if !worth {
				if len(u.Leases)+len(u.Removed) != 0 {
					t.Fatalf("worthless update %+v", u)
				}
				return
			}
			if u.Snapshot {
				clear(model)
			}
			for _, s := range u.Removed {
				if _, ok := model[s]; !ok {
					t.Fatalf("removed the unknown %s", s)
				}
				delete(model, s)
			}
			for _, l := range u.Leases {
				model[l.Subnets] = l
			}
		}
		var batch lease.Update
		for _, c := range script {
			l := testLease(c & 0x0f)
			if c&0x20 != 0 {
				l.Attrs.PublicIP = netip.AddrFrom4([4]byte{10, 98, 0, c & 0x0f})
			}
			switch {
			case c == 0xf0:
				batch.Snapshot, batch.Removed = true, nil
				apply(b.change(batch, b.now))
				batch = lease.Update{}
			case c == 0xf1:
				apply(b.change(lease.Update{Lost: true}, b.now))
			case c == 0xf2:
				b.now = b.now.Add(grace / 2)
				apply(b.release(b.now))
			case c == 0xf3:
				apply(b.change(batch, b.now))
				batch = lease.Update{}
			case c&0x40 != 0:
				batch.Removed = append(batch.Removed, l.Subnets)
			default:
				batch.Leases = append(batch.Leases, l)
			}
		}
		if len(model) != len(b.peers) {
			t.Fatalf("model has %d leases, table %d", len(model), len(b.peers))
		}
		for s, l := range b.peers {
			if got, ok := model[s]; !ok || !got.Equal(l) {
				t.Fatalf("model has %+v, table %+v", got, l)
			}
		}
		for s := range b.held {
			if _, ok := b.peers[s]; !ok {
				t.Fatalf("held %s is no peer", s)
			}
		}
	})
}
