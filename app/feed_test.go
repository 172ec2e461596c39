package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/gate/xdpgate"
	"weir/internal/clock"
	"weir/policy"
	"weir/store"
	"weir/throttle/ban"
)

// smallKernel is a kernel's list with little room, so that it can be full. It does as gate/xdpgate does; the real one
// is fed by the tests of cmd/weir.
type smallKernel struct {
	mu      sync.Mutex
	room    int
	entries map[netip.Prefix]xdpgate.Entry
	broken  error
}

func (k *smallKernel) Ban(p netip.Prefix, until time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	old, known := k.entries[p]
	switch {
	case k.broken != nil:
		return k.broken
	case !known && len(k.entries) >= k.room:
		return xdpgate.ErrListFull
	case known && (old.Until.IsZero() || earlier(until, old.Until)):
		return nil
	}
	k.entries[p] = xdpgate.Entry{Prefix: p, Until: until}
	return nil
}

func (k *smallKernel) Unban(p netip.Prefix) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.entries[p].Static {
		return xdpgate.ErrStatic
	}
	delete(k.entries, p)
	return nil
}

func (k *smallKernel) Bans() (all []xdpgate.Entry, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.entries {
		all = append(all, e)
	}
	return all, k.broken
}

func (k *smallKernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for p, e := range k.entries {
		text := p.String()
		if !e.Until.IsZero() {
			text += "+" + e.Until.Sub(noon).Truncate(time.Second).String()
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// A trough is a list, a kernel with little room, and what feeds it.
type trough struct {
	t      *testing.T
	list   *ban.List
	kernel *smallKernel
	clock  *clock.Fake
	log    logbook
	feed   *feed
}

func newTrough(t *testing.T, room, most int, rules kernelRules, inside ...xdpgate.Entry) *trough {
	t.Helper()
	list, err := ban.New(ban.Options{Max: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	r := &trough{t: t, list: list, kernel: &smallKernel{room: room, entries: map[netip.Prefix]xdpgate.Entry{}},
		clock: clock.NewFake(noon)}
	for _, e := range inside {
		r.kernel.entries[e.Prefix] = e
	}
	a := &App{clock: r.clock, opts: Options{Clock: r.clock, Log: slog.New(slog.NewTextHandler(&r.log, nil))},
		bans: &bans{list, policy.NewLink("bans", list, policy.Closed)}}
	r.feed = a.newFeed(r.kernel, "eth0", rules)
	r.feed.most = most
	return r
}

// begin starts to feed.
func (r *trough) begin() {
	r.feed.begin()
	r.t.Cleanup(r.feed.stop)
}

func (r *trough) add(who string, lasts time.Duration, operator bool) {
	r.t.Helper()
	b := store.Ban{BanKey: key(r.t, who), Operator: operator}
	if lasts != 0 {
		b.Until = r.clock.Now().Add(lasts)
	}
	if err := r.list.Add(b, r.clock.Now()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *trough) remove(who string) {
	r.t.Helper()
	if err := r.list.Remove(key(r.t, who), r.clock.Now()); err != nil {
		r.t.Fatal(err)
	}
}

func key(t *testing.T, who string) store.BanKey {
	t.Helper()
	k, err := store.ParseBanKey(who)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (r *trough) wants(when, want string) {
	r.t.Helper()
	r.feed.flush(r.t.Context())
	if got := r.kernel.String(); got != want {
		r.t.Errorf("%s: %s, want %s", when, got, want)
	}
}

func TestFeed(t *testing.T) {
	t.Parallel()
	net := netip.MustParsePrefix
	hour := noon.Add(time.Hour)
	r := newTrough(t, 100, 100, kernelRules{},
		xdpgate.Entry{Prefix: net("10.1.0.0/16"), Static: true},
		// of an earlier weir; nobody bans it now
		xdpgate.Entry{Prefix: net("10.2.0.0/16")},
		// the same, as far as clocks go
		xdpgate.Entry{Prefix: net("10.3.0.0/16"), Until: hour.Add(300 * time.Millisecond)},
		xdpgate.Entry{Prefix: net("10.4.0.0/16")},                                     // it was for good
		xdpgate.Entry{Prefix: net("10.5.0.0/16"), Until: hour.Add(-30 * time.Minute)}) // it was shorter
	r.add("10.3.0.0/16", time.Hour, true)
	r.add("10.4.0.0/16", time.Hour, true)
	r.add("10.5.0.0/16", time.Hour, true)
	r.add("10.6.0.0/16", 0, true)
	r.add("client:a", 0, true)
	r.begin()
	r.wants("at first", "10.1.0.0/16 10.3.0.0/16+1h0m0s 10.4.0.0/16+1h0m0s 10.5.0.0/16+1h0m0s 10.6.0.0/16")
	r.add("2001:db8::/32", 0, true)
	r.add("10.6.0.0/16", time.Minute, true) // an earlier end
	r.add("10.5.0.0/16", 2*time.Hour, true) // a later one
	r.add("10.4.0.0/16", 0, true)
	r.remove("10.3.0.0/16")
	r.add("10.1.0.0/16", time.Minute, true) // the configuration bans it, too
	r.wants("changed", "10.1.0.0/16 10.4.0.0/16 10.5.0.0/16+2h0m0s 10.6.0.0/16+1m0s 2001:db8::/32")
	r.remove("10.1.0.0/16")
	r.clock.Advance(time.Minute)
	r.list.Advance(r.clock.Now())
	r.wants("a minute later", "10.1.0.0/16 10.4.0.0/16 10.5.0.0/16+2h0m0s 2001:db8::/32")
	if r.feed.left() != 0 || r.log.count("\n") != 0 {
		t.Errorf("%d left out: %s", r.feed.left(), &r.log.text)
	}
}

// TestFeedHasNoRoom: what does not fit is counted and said once, and comes in when there is room; operators' bans go
// first.
func TestFeedHasNoRoom(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"all are remembered": 100, "few are remembered": 2} {
		t.Run(name, func(t *testing.T) {
			r := newTrough(t, 5, most, kernelRules{})
			for i := range 10 {
				r.add(fmt.Sprintf("10.%d.0.0/16", i), time.Hour, false)
			}
			for i := range 4 {
				r.add(fmt.Sprintf("10.%d.0.0/16", 100+i), time.Hour, true)
			}
			r.begin()
			r.feed.flush(t.Context())
			if got := r.kernel.String(); strings.Count(got, "10.10") != 4 || len(strings.Fields(got)) != 5 {
				t.Errorf("in the kernel: %s", got)
			}
			if left := r.feed.left(); left != min(9, most) {
				t.Errorf("%d left out", left)
			}
			for i := range 3 {
				r.add(fmt.Sprintf("10.%d.0.0/16", 200+i), time.Hour, false)
				r.feed.flush(t.Context())
			}
			if n := r.log.count("not all banned clients"); n != 1 {
				t.Errorf("%d lines: %s", n, &r.log.text)
			}
			for i := range 10 { // who is not in the kernel may be among them
				r.remove(fmt.Sprintf("10.%d.0.0/16", i))
				r.feed.flush(t.Context())
			}
			r.remove("10.100.0.0/16")
			r.remove("10.101.0.0/16")
			r.wants("with room for all",
				"10.102.0.0/16+1h0m0s 10.103.0.0/16+1h0m0s 10.200.0.0/16+1h0m0s 10.201.0.0/16+1h0m0s "+
					"10.202.0.0/16+1h0m0s")
			if left := r.feed.left(); left != 0 {
				t.Errorf("%d left out", left)
			}
			r.add("10.203.0.0/16", time.Hour, false)
			r.feed.flush(t.Context())
			if n := r.log.count("not all banned clients"); n != 2 {
				t.Errorf("full again: %d lines: %s", n, &r.log.text)
			}
		})
	}
}

// TestFeedOfMany: more changes at once than are looked at one by one.
func TestFeedOfMany(t *testing.T) {
	t.Parallel()
	r := newTrough(t, 10_000, 10, kernelRules{})
	r.begin()
	for i := range 1000 {
		r.add(fmt.Sprintf("10.%d.%d.0/24", i/250, i%250), time.Hour, false)
	}
	for i := range 990 {
		r.remove(fmt.Sprintf("10.%d.%d.0/24", i/250, i%250))
	}
	r.feed.flush(t.Context())
	if got := strings.Fields(r.kernel.String()); len(got) != 10 {
		t.Errorf("in the kernel: %v", got)
	}
}

// TestFeedSparesSome: who must not be dropped is not, even as a part of a wider network.
func TestFeedSparesSome(t *testing.T) {
	t.Parallel()
	nets := func(all ...string) (n []netip.Prefix) {
		for _, text := range all {
			n = append(n, netip.MustParsePrefix(text))
		}
		return n
	}
	rules := kernelRules{exempt: newNetworks(nets("10.1.7.0/24", "10.1.0.0/16", "2001:db8:1::/48")),
		proxies: newNetworks(nets("::ffff:10.2.0.1/128", "10.9.0.0/16"))}
	r := newTrough(t, 100, 100, rules)
	r.begin()
	for i, operator := range []bool{false, true} {
		for _, who := range []string{"10.1.%d.0/24", "10.2.%d.0/24", "10.3.%d.0/24", "10.9.%d.1", "2001:db8:%d::/48"} {
			r.add(fmt.Sprintf(who, i), 0, operator)
		}
	}
	r.add("10.0.0.0/8", 0, true)
	r.wants("by the rules",
		"10.1.1.0/24 10.2.1.0/24 10.3.0.0/24+1h0m0s 10.3.1.0/24 2001:db8:1::/48 2001:db8::/48+1h0m0s")
	rules.proxies = nil
	r.feed.configure(rules)
	r.wants("without proxies",
		"10.0.0.0/8 10.1.1.0/24 10.2.0.0/24+1h0m0s 10.2.1.0/24 10.3.0.0/24+1h0m0s 10.3.1.0/24 10.9.0.1/32+1h0m0s "+
			"10.9.1.1/32 2001:db8:1::/48 2001:db8::/48+1h0m0s")
	rules.shadow = true
	r.feed.configure(rules)
	r.wants("in shadow", "")
}

// TestFeedOfABrokenKernel: it is said now and then, and made good with the next change.
func TestFeedOfABrokenKernel(t *testing.T) {
	t.Parallel()
	r := newTrough(t, 100, 100, kernelRules{})
	r.kernel.broken = errors.New("out of memory")
	r.add("10.1.0.0/16", 0, true)
	r.begin()
	for i := range 5 {
		r.add(fmt.Sprintf("10.2.%d.0/24", i), 0, true)
		r.feed.flush(t.Context())
	}
	if n := r.log.count("out of memory"); n != 1 {
		t.Errorf("%d lines: %s", n, &r.log.text)
	}
	r.kernel.mu.Lock()
	r.kernel.broken = nil
	r.kernel.mu.Unlock()
	r.add("10.3.0.0/16", 0, true)
	r.wants("mended", "10.1.0.0/16 10.2.0.0/24 10.2.1.0/24 10.2.2.0/24 10.2.3.0/24 10.2.4.0/24 10.3.0.0/16")
	r.feed.stop()
	r.feed.stop()
	r.feed.flush(t.Context())
	var none *feed
	none.stop()
	none.flush(t.Context())
	none.configure(kernelRules{})
}
