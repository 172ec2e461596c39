package quota

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/identify"
	"weir/store"
)

// keyed is one limit of requests per minute, for each combination of parts.
func keyed(limit int64, parts ...string) Options {
	return Options{Key: parts, Policies: []Policy{{Name: "limit", Limit: Count(limit),
		Period: weir.Period{Length: time.Minute}}}}
}

// asked is an event of a tenant.
func asked(account, method, path, tenant string) weir.Event {
	ev := weir.Event{Account: account, Source: netip.MustParseAddr("192.0.2.1"),
		Route: identify.Route(method, "shop.example", path, nil)}
	if tenant != "" {
		ev.Parts = []weir.Part{{Name: "header:X-Tenant", Value: tenant}}
	}
	return ev
}

func TestKeyOfSeveralParts(t *testing.T) {
	r := newRig(t, keyed(2, "account", "method", "path:1", "header:X-Tenant"))
	for _, ev := range []weir.Event{
		asked("acme", "GET", "/orders/1", "t1"), asked("acme", "POST", "/orders/1", "t1"),
		asked("acme", "GET", "/bills", "t1"), asked("acme", "GET", "/orders", "t2"), asked("acme", "GET", "/orders", ""),
		asked("globex", "GET", "/orders", "t1"), asked("", "GET", "/orders", "t1"),
		// clients choose some of these, and must not meet others by that
		asked("acme,GET", "GET", "/orders", "t1"), asked(`acme\`, "GET", "/orders", "t1"), asked("-", "GET", "/orders", "t1"),
	} {
		for i, want := range []weir.Verdict{weir.Admit, weir.Admit, weir.Refuse} {
			if got := r.judge(ev).answer; got.Verdict != want {
				t.Errorf("%s, event %d: %s", r.q.KeyOf(&ev), i, got.Explain())
			}
		}
	}
	if s, known := r.q.Account("acme,GET,orders,t1", r.now); !known || s.Rules[0].Remaining != 0 {
		t.Errorf("known %v, %+v", known, s)
	}
	want := []string{"acme,GET,bills,t1", "acme,GET,orders,-", "acme,GET,orders,t1", "acme,GET,orders,t2",
		"acme,POST,orders,t1"}
	if keys, more := r.q.Keys("acme", 10); !slices.Equal(keys, want) || more {
		t.Errorf("the keys of acme are %q, more %v", keys, more)
	}
	if keys, more := r.q.Keys("acme", 4); len(keys) != 4 || !more {
		t.Errorf("%d keys, more %v", len(keys), more)
	}
	if !r.q.Reset("acme,GET,orders,t1", r.now) {
		t.Error("the key is not known")
	}
	if got := r.judge(asked("acme", "GET", "/orders/1", "t1")).answer; got.Verdict != weir.Admit {
		t.Errorf("after a reset: %s", got.Explain())
	}
	if got := r.judge(asked("acme", "POST", "/orders/1", "t1")).answer; got.Verdict != weir.Refuse {
		t.Errorf("another key was reset, too: %s", got.Explain())
	}
}

// A request whose key is not clear is refused, and told so.
func TestBadKeys(t *testing.T) {
	r := newRig(t, keyed(2, "account", "path:1"))
	for name, c := range map[string]struct {
		ev   weir.Event
		want weir.Reason
	}{
		"two paths":            {asked("acme", "GET", "/a;b/c", ""), weir.BadKey},
		"the longest":          {asked(strings.Repeat("x", identify.MaxKey-2), "GET", "/a", ""), weir.NoReason},
		"one byte too long":    {asked(strings.Repeat("x", identify.MaxKey-1), "GET", "/a", ""), weir.BadKey},
		"a long segment":       {asked("", "GET", "/"+strings.Repeat("x", identify.MaxKey+1), ""), weir.BadKey},
		"no account or source": {weir.Event{Route: weir.Route{Path: "/a"}}, weir.NoAccount},
	} {
		got := r.judge(c.ev).answer
		if got.Reason != c.want || (got.Verdict == weir.Admit) != (c.want == weir.NoReason) {
			t.Errorf("%s: %s", name, got.Explain())
		}
		var peeked weir.Answer
		c.ev.Time = r.now
		if r.q.Peek(&c.ev, &peeked); peeked.Reason != c.want {
			t.Errorf("%s, peek: %s", name, peeked.Explain())
		}
	}
	o := keyed(2, "account", "path:1")
	o.OnMissing = MissingRefuse
	r = newRig(t, o)
	if got := r.judge(asked("", "GET", "/a", "")).answer; got.Reason != weir.NoAccount {
		t.Errorf("on_missing: refuse: %s", got.Explain())
	}
}

func TestKeyWithACountry(t *testing.T) {
	r := newRig(t, keyed(1, "country", "network:24/64"))
	r.q.Locate(func(a netip.Addr) string {
		return map[string]string{"192.0.2.1": "DE", "192.0.2.2": "FR"}[a.String()]
	})
	for addr, want := range map[string]string{"192.0.2.1": "DE,192.0.2.0/24", "192.0.2.2": "FR,192.0.2.0/24",
		"192.0.2.3": "-,192.0.2.0/24"} {
		ev := weir.Event{Source: netip.MustParseAddr(addr)}
		if got := r.q.KeyOf(&ev); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
		if first, second := r.judge(ev).answer, r.judge(ev).answer; first.Verdict != weir.Admit ||
			second.Verdict != weir.Refuse {
			t.Errorf("%s: %s, %s", addr, first.Explain(), second.Explain())
		}
	}
	if err := r.q.Configure(keyed(2, "country", "network:24/64"), r.now); err != nil { // it stays over a reload
		t.Fatal(err)
	}
	if got := r.q.KeyOf(&weir.Event{Source: netip.MustParseAddr("192.0.2.1")}); got != "DE,192.0.2.0/24" {
		t.Errorf("after a reload: %s", got)
	}
}

// Plans and figures of an account are those of each of its keys; figures of one key go first.
func TestFiguresOfKeys(t *testing.T) {
	o := keyed(1, "account", "method")
	o.Plans = map[string]map[string]Override{"gold": {"limit": {Limit: Count(3)}}}
	o.Members = map[string]string{"acme": "gold", `a\,b`: "gold"}
	o.Overrides = map[string]map[string]Override{"globex": {"limit": {Limit: Count(2)}},
		"acme,POST": {"limit": {Limit: Count(4)}}}
	r := newRig(t, o)
	if err := r.q.Impose(map[string]map[string]Override{"globex,PUT": {"limit": {Limit: Count(5)}}}, r.now); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		account, method string
		want            int
	}{
		{"nobody", "GET", 1}, {"acme", "GET", 3}, {"acme", "POST", 4}, {"globex", "GET", 2}, {"globex", "PUT", 5},
		{"a,b", "GET", 3},
		{"acme,POST", "GET", 1}, // not the key that has a figure of its own
	} {
		n := 0
		for r.judge(asked(c.account, c.method, "/", "")).answer.Verdict == weir.Admit {
			n++
		}
		if n != c.want {
			t.Errorf("%s %s: %d, want %d", c.account, c.method, n, c.want)
		}
	}
}

// An account that the options name may have any number of keys: they must not fill the table.
func TestKeysOfKnownAccountsAreBounded(t *testing.T) {
	o := keyed(1, "account", "header:X-Tenant")
	o.MaxAccounts = 100
	o.Members = map[string]string{"acme": "gold"}
	o.Plans = map[string]map[string]Override{"gold": {"limit": {Limit: Count(2)}}}
	r := newRig(t, o)
	for i := range 10_000 {
		e := r.judge(asked("acme", "GET", "/", fmt.Sprint("t", i)))
		if e.answer.Verdict == weir.Admit {
			r.q.Settle(e.answer.Hold, weir.Outcome{Time: r.now, Done: true, Status: 200})
		}
	}
	if s := r.q.Stats(); s.Accounts > 100 || s.Strangers == 0 {
		t.Errorf("%+v", s)
	}
}

// Keys that name nobody stay on probation, as sources do.
func TestAnonymousKeysEarnNothing(t *testing.T) {
	r := newRig(t, keyed(5, "account", "method"))
	for _, account := range []string{"", "acme"} {
		e := r.judge(asked(account, "GET", "/", ""))
		r.q.Settle(e.answer.Hold, weir.Outcome{Time: r.now, Done: true, Status: 200})
	}
	if s := r.q.Stats(); s.Accounts != 2 || s.Probation != 1 {
		t.Errorf("%+v", s)
	}
}

// An exemption of an address holds only where it is known to be the client's.
func TestKeysOfDoubtfulSources(t *testing.T) {
	o := keyed(1, "account", "method")
	o.Overrides = map[string]map[string]Override{"source:192.0.2.1": {"limit": {Exempt: true}}}
	r := newRig(t, o)
	ev := asked("source:192.0.2.1", "GET", "/", "")
	for range 3 {
		if got := r.judge(ev).answer; got.Verdict != weir.Admit {
			t.Error(got.Explain())
		}
	}
	ev.SourceUnknown = true
	if first, second := r.judge(ev).answer, r.judge(ev).answer; first.Verdict != weir.Admit ||
		second.Verdict != weir.Refuse {
		t.Errorf("in doubt: %s, %s", first.Explain(), second.Explain())
	}
}

// Another key counts another thing: nobody is charged by a key of the old list, nor by a counter of it that was saved.
func TestAnotherKeyStartsAnew(t *testing.T) {
	o := keyed(1, "account", "method")
	o.Policies[0].Period = weir.Period{Calendar: weir.Month}
	r := newRig(t, o)
	r.judge(asked("acme", "GET", "/orders", ""))
	saved, _ := r.q.Dirty(nil, "plans", r.now)
	if len(saved) != 1 || saved[0].Account != "acme,GET" {
		t.Fatalf("%+v", saved)
	}
	fresh := newRig(t, o)
	if err := fresh.q.Restore(saved[0], r.now); err != nil {
		t.Fatal(err)
	}
	if got := fresh.judge(asked("acme", "GET", "/orders", "")).answer; got.Verdict != weir.Refuse {
		t.Errorf("after a restart: %s", got.Explain())
	}
	o.Key = []string{"account", "path:1"}
	if err := r.q.Configure(o, r.now); err != nil {
		t.Fatal(err)
	}
	if got := r.judge(asked("acme", "GET", "/GET", "")).answer; got.Verdict != weir.Admit {
		t.Errorf("after a reload: %s", got.Explain())
	}
	other := newRig(t, o)
	if err := other.q.Restore(saved[0], r.now); err == nil {
		t.Error("a counter of another key was taken")
	}
	o.Key = nil
	other = newRig(t, o)
	if err := other.q.Restore(store.Counter{Throttle: "plans", Rule: saved[0].Rule, Account: "acme,GET",
		Period: saved[0].Period, Used: 1, Until: saved[0].Until}, r.now); err == nil {
		t.Error("a counter of a key was taken for an account")
	}
}

func TestKeysInAFarm(t *testing.T) {
	for _, window := range []WindowKind{Fixed, Sliding, GCRA} {
		o := policy(window, 4, time.Hour)
		o.Key = []string{"account", "header:X-Tenant"}
		w := newWorld(t, 1, 2, lan, o).start()
		ask := func(n *node, tenant string) weir.Verdict {
			var a weir.Answer
			ev := asked("acme", "GET", "/", tenant)
			ev.Time = n.FarmTime()
			if err := n.quota.Judge(context.Background(), &ev, &a); err != nil {
				t.Fatal(err)
			}
			w.Run(50 * time.Millisecond)
			return a.Verdict
		}
		for i := range 4 {
			if got := ask(w.nodes[i%2], "t1"); got != weir.Admit {
				t.Errorf("%s: event %d: %s", window, i, got)
			}
		}
		for i, n := range w.nodes {
			if got := ask(n, "t1"); got != weir.Refuse {
				t.Errorf("%s: node %d over the limit: %s", window, i, got)
			}
			if got := ask(n, "t2"); got != weir.Admit {
				t.Errorf("%s: node %d, another key: %s", window, i, got)
			}
		}
		if !w.nodes[1].quota.Reset("acme,t1", w.nodes[1].FarmTime()) {
			t.Errorf("%s: the key is not known", window)
		}
		w.Run(time.Second)
		if got := ask(w.nodes[0], "t1"); got != weir.Admit {
			t.Errorf("%s: after a reset on the other node: %s", window, got)
		}
	}
}

func TestKeysAtAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := exactly(Policy{Limit: Count(10), Period: weir.Period{Calendar: weir.Year}})
		o.Key = []string{"account", "header:X-Tenant"}
		o.Cost = Cost{Header: "X-Cost", Max: 100}
		f := newLendingFarm(t, 3, o)
		ask := func(n *lendingNode, tenant string, price int64) weir.Verdict {
			var a weir.Answer
			ev := asked("acme", "GET", "/", tenant)
			ev.Time = n.now()
			if err := n.Judge(context.Background(), &ev, &a); err != nil {
				t.Fatal(err)
			}
			if a.Verdict == weir.Admit {
				n.Settle(a.Hold, weir.Outcome{Time: n.now(), Done: true,
					Price: weir.Price{Known: weir.Priced, N: price}})
			}
			time.Sleep(time.Second) // until everybody knows
			return a.Verdict
		}
		for i, price := range []int64{1, 4, 5} {
			if got := ask(f.nodes[i], "t1", price); got != weir.Admit {
				t.Errorf("event %d: %s", i, got)
			}
		}
		for i, n := range f.nodes {
			if got := ask(n, "t1", 1); got != weir.Refuse {
				t.Errorf("node %d over the limit: %s", i, got)
			}
		}
		if got := ask(f.nodes[0], "t2", 1); got != weir.Admit {
			t.Errorf("another key: %s", got)
		}
		f.close()
	})
}

func TestJudgingByAKeyAllocatesNothing(t *testing.T) {
	o := keyed(1<<40, "account", "method", "path:1", "network", "header:X-Tenant")
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ev := asked("acme", "GET", "/orders/17", "t1")
	ev.Time = epoch
	a := weir.Answer{Figures: make([]weir.Figure, 0, 4)}
	if n := testing.AllocsPerRun(100, func() {
		a.Clear()
		_ = q.Judge(context.Background(), &ev, &a)
		q.Settle(a.Hold, weir.Outcome{Time: epoch, Done: true})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkJudgeByAKey(b *testing.B) {
	for name, parts := range map[string][]string{"account": nil,
		"parts": {"account", "method", "path:1", "network", "header:X-Tenant"}} {
		b.Run(name, func(b *testing.B) {
			q, err := New(keyed(1<<40, parts...))
			if err != nil {
				b.Fatal(err)
			}
			ev := asked("acme", "GET", "/orders/17", "t1")
			ev.Time = epoch
			a := weir.Answer{Figures: make([]weir.Figure, 0, 4)}
			b.ReportAllocs()
			for b.Loop() {
				a.Clear()
				_ = q.Judge(context.Background(), &ev, &a)
			}
		})
	}
}

// TestShares: which quotas may be used up by others than the network that a ban hits.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		o       Options
		network string
		want    bool
	}{
		{Options{}, "192.0.2.1/32", false},
		{Options{}, "2001:db8::/64", false},
		{Options{SourceV4: 24}, "192.0.2.1/32", true},
		{Options{SourceV4: 24}, "192.0.2.0/24", false},
		{Options{SourceV4: 24}, "2001:db8::/64", false},
		{Options{SourceV6: 48}, "2001:db8::/64", true},
		{Options{Key: []string{"account", "method"}}, "192.0.2.1/32", false},
		{Options{Key: []string{"account", "method"}, SourceV4: 16}, "192.0.2.1/32", true},
		{Options{Key: []string{"method"}}, "192.0.2.1/32", true},
	} {
		c.o.Policies = keyed(2).Policies
		q, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Shares(netip.MustParsePrefix(c.network)); got != c.want {
			t.Errorf("%+v: %s shares: %t", c.o, c.network, got)
		}
	}
}
