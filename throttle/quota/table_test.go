package quota

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

func TestMissingAccount(t *testing.T) {
	from := func(addr string) weir.Event { return weir.Event{Source: netip.MustParseAddr(addr)} }
	r := newRig(t, one(perSecond(1)))
	r.want(r.judge(from("192.0.2.1")), weir.Admit, 0)
	r.want(r.judge(from("192.0.2.1")), weir.Refuse, weir.OverLimit)
	r.want(r.judge(from("192.0.2.2")), weir.Admit, 0)
	r.want(r.judge(from("2001:db8::1")), weir.Admit, 0)
	r.want(r.judge(from("2001:db8::2")), weir.Refuse, weir.OverLimit) // the same /64
	r.admit("192.0.2.1")                                              // an account of that name is somebody else
	r.want(r.judge(weir.Event{}), weir.Refuse, weir.NoAccount)

	r = newRig(t, Options{Policies: []Policy{perSecond(1)}, OnMissing: MissingRefuse})
	r.want(r.judge(from("192.0.2.1")), weir.Refuse, weir.NoAccount)
}

func TestInventedAccountsPushNobodyOut(t *testing.T) {
	needs.Unwatched(t)
	o := Options{Policies: []Policy{perSecond(2)}, MaxAccounts: 100,
		Overrides: map[string]map[string]Override{"partner": {"per-second": {Limit: Count(3)}}}}
	r := newRig(t, o)
	r.admit("real")
	r.admit("real")
	admitted := 0
	for i := range 20_000 {
		if r.ask(fmt.Sprint("invented-", i)).answer.Verdict == weir.Admit {
			admitted++
		}
	}
	r.refuse("real", weir.OverLimit)
	for range 3 {
		r.admit("partner") // named in the options: has a place whatever happens
	}
	r.refuse("partner", weir.OverLimit)
	if s := r.q.Stats(); s.Accounts > 101 || s.Strangers == 0 {
		t.Errorf("%+v", s)
	}
	if most := 99 + 2*strangers; admitted > most {
		t.Errorf("%d invented accounts were admitted, want at most %d", admitted, most)
	}
	// When the flood is over, the table takes newcomers again.
	for _, e := range r.line {
		r.settle(e, false)
	}
}

func TestIdleAccountsMakeRoom(t *testing.T) {
	r := newRig(t, Options{Policies: []Policy{perSecond(2)}, MaxAccounts: 10})
	for i := range 1000 {
		r.settle(r.admit(fmt.Sprint("a", i)), true)
		r.now = r.now.Add(300 * time.Millisecond)
	}
	if s := r.q.Stats(); s.Accounts > 10 || s.Strangers != 0 {
		t.Errorf("%+v", s)
	}
}

func TestConfigureKeepsCounters(t *testing.T) {
	minute := Policy{Name: "per-minute", Limit: Count(100), Period: weir.Period{Length: time.Minute}}
	places := Policy{Name: "at-once", Kind: Concurrent, Limit: Count(10)}
	r := newRig(t, one(minute, perSecond(5), places))
	var under []*event
	for range 5 {
		under = append(under, r.admit("a"))
	}
	configure := func(o Options) {
		t.Helper()
		if err := r.q.Configure(o, r.now); err != nil {
			t.Fatal(err)
		}
	}
	configure(one(places, perSecond(6), minute)) // another order, a higher limit
	r.admit("a")
	if e := r.refuse("a", weir.OverLimit); e.answer.Rule != "per-second" {
		t.Errorf("refused by %s", e.answer.Rule)
	}
	if s, _ := r.q.Account("a", r.now); s.Rules[0].Remaining != 4 || s.Rules[2].Remaining != 94 {
		t.Errorf("%+v", s.Rules)
	}
	if err := r.q.Configure(one(Policy{}), r.now); err == nil {
		t.Error("a policy without a name was taken")
	}
	r.refuse("a", weir.OverLimit)

	configure(one(minute)) // the places are gone while they are taken,
	for _, e := range under[:3] {
		r.settle(e, true)
	}
	configure(one(minute, places)) // and come back fresh
	if s, _ := r.q.Account("a", r.now); s.Rules[0].Remaining != 94 || s.Rules[1].Remaining != 10 {
		t.Errorf("%+v", s.Rules)
	}
	for _, e := range under[3:] {
		r.settle(e, true)
	}
	if s, _ := r.q.Account("a", r.now); s.Rules[1].Remaining != 10 {
		t.Errorf("somebody gave back a place of another version: %+v", s.Rules)
	}
}

func TestConfigureManyTimesRunsOutOfNothing(t *testing.T) {
	r := newRig(t, one(perSecond(5)))
	for i := range 3 * MaxPolicies {
		p := perSecond(5)
		p.Name = fmt.Sprint("p", i)
		keep := perSecond(5)
		if err := r.q.Configure(one(keep, p), r.now); err != nil {
			t.Fatal(err)
		}
		e := r.ask("a")
		if want := weir.Admit; i < 5 && e.answer.Verdict != want || i >= 5 && e.answer.Rule != "per-second" {
			t.Fatalf("%d: %s", i, e.answer.Explain())
		}
	}
}

func TestConfigureCallsThoseWhoWait(t *testing.T) {
	slow := delayed(Policy{Name: "per-minute", Limit: Count(1), Period: weir.Period{Length: time.Minute}}, 10,
		5*time.Minute)
	r := newRig(t, one(slow))
	r.admit("a")
	first, second := r.wait("a"), r.wait("a")
	slow.Limit = Count(2)
	if err := r.q.Configure(one(slow), r.now); err != nil {
		t.Fatal(err)
	}
	if got := r.called(); !slices.Equal(got, []int{first.n}) {
		t.Fatalf("called %v", got)
	}
	if err := r.q.Configure(one(perSecond(100)), r.now); err != nil { // the policy is gone
		t.Fatal(err)
	}
	if got := r.called(); !slices.Equal(got, []int{second.n}) {
		t.Fatalf("called %v", got)
	}
	third := r.admit("a")
	for _, e := range []*event{first, second, third} {
		r.settle(e, true)
	}
}

func TestRetireLetsEverybodyGo(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(1), 10, 20*time.Second)))
	r.admit("a")
	r.wait("a")
	r.wait("a")
	r.q.Retire(r.now)
	if got := r.called(); len(got) != 2 {
		t.Fatalf("called %v", got)
	}
}

func TestAccountAndReset(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(2), 10, 5*time.Second)))
	if _, ok := r.q.Account("a", r.now); ok {
		t.Error("an account that was never seen is known")
	}
	r.admit("a")
	r.admit("a")
	r.wait("a")
	s, ok := r.q.Account("a", r.now)
	if !ok || s.Waiting != 1 || s.Rules[0].Remaining != 0 {
		t.Errorf("%+v", s)
	}
	if !r.q.Reset("a", r.now) || r.q.Reset("b", r.now) {
		t.Error("reset")
	}
	if got := r.called(); !slices.Equal(got, []int{2}) {
		t.Errorf("called %v", got)
	}
	r.judge(weir.Event{Source: netip.MustParseAddr("192.0.2.7")})
	if s, ok := r.q.Account("192.0.2.7", r.now); !ok || s.Rules[0].Remaining != 1 {
		t.Errorf("by address: %+v", s)
	}
}

// TestTwoAccountsOfOneHash: the second one shares with strangers, and takes no room of the table: whoever finds such
// names, or is overtaken while room is made, would else fill it for ever.
func TestTwoAccountsOfOneHash(t *testing.T) {
	r := newRig(t, one(perSecond(2)))
	r.admit("a")
	q, rs := r.q.table, r.q.rules.Load()
	hash := q.hash("a", netip.Addr{})
	s := &q.shards[hash%shards]
	for range 5 {
		s.mu.Lock()
		a, g := q.enrol(rs, s, hash, "b", netip.Addr{}, netip.Addr{}, nanos(r.now), enter)
		s.mu.Unlock()
		if g == nil || a.name != "" {
			t.Fatalf("b got the account %q", a.name)
		}
		s.mu.Lock()
		q.admit(rs, g, nanos(r.now)) // the upstream accepted it
		s.mu.Unlock()
	}
	if n := r.q.Stats().Accounts; n != 1 {
		t.Errorf("%d accounts in the table, want 1", n)
	}
}
