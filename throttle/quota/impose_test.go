package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir"
)

func imposed(account, policy string, o Override) map[string]map[string]Override {
	return map[string]map[string]Override{account: {policy: o}}
}

func (r *rig) impose(all map[string]map[string]Override) {
	r.t.Helper()
	if err := r.q.Impose(all, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// admits checks how many of an account pass now.
func (r *rig) admits(account string, n int) {
	r.t.Helper()
	for range n {
		r.admit(account)
	}
	r.refuse(account, weir.OverLimit)
}

func TestImposedLimitsHoldAtOnceAndOverConfigure(t *testing.T) {
	o := Options{Policies: []Policy{perSecond(3)},
		Overrides: map[string]map[string]Override{"acme": {"per-second": {Limit: Count(5)}}}}
	r := newRig(t, o)
	r.admits("acme", 5)
	r.admits("other", 3)

	r.impose(imposed("acme", "per-second", Override{Limit: Count(7)}))
	r.admits("acme", 2) // what was used stays used
	r.refuse("other", weir.OverLimit)

	if err := r.q.Configure(o, r.now); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(time.Second)
	r.admits("acme", 7)
	r.admits("other", 3)

	r.impose(nil)
	r.now = r.now.Add(time.Second)
	r.admits("acme", 5)
}

func TestImposedLimitReachesAnAccountThatHasWaited(t *testing.T) {
	p := perSecond(1)
	p.Over, p.Delay = OverDelay, Delay{Max: 5, MaxWait: weir.Duration(10 * time.Second)}
	r := newRig(t, Options{Policies: []Policy{p}})
	r.admit("acme")
	for range 3 {
		r.want(r.ask("acme"), weir.Wait, weir.OverLimit)
	}
	r.impose(imposed("acme", "per-second", Override{Limit: Count(10)}))
	n := len(r.called()) // the first one at once, and then at the new pace
	for _, all := range r.advance(500 * time.Millisecond) {
		n += len(all)
	}
	if n != 3 {
		t.Errorf("%d were called within half of the period, want all three", n)
	}
}

// An account on an exempt plan gets the limit that it is given, in the file or by an operator.
func TestALimitGoesBeforeAnExemptPlan(t *testing.T) {
	o := Options{Policies: []Policy{perSecond(3)},
		Plans:     map[string]map[string]Override{"free": {"per-second": {Exempt: true}}},
		Members:   map[string]string{"acme": "free", "file": "free"},
		Overrides: map[string]map[string]Override{"file": {"per-second": {Limit: Count(2)}}}}
	r := newRig(t, o)
	for range 10 {
		r.admit("acme")
	}
	r.admits("file", 2)
	r.impose(imposed("acme", "per-second", Override{Limit: Count(4)}))
	r.admits("acme", 4)
	r.impose(imposed("file", "per-second", Override{Exempt: true}))
	for range 10 {
		r.admit("file")
		r.admit("acme")
	}
}

func TestImposedLimitsThatDoNotFitWaitForTheirPolicy(t *testing.T) {
	r := newRig(t, Options{Policies: []Policy{perSecond(3)}})
	r.impose(map[string]map[string]Override{"acme": {"later": {Limit: Count(1)},
		"per-second": {Limit: Bytes(5)}}})
	r.admits("acme", 3)
	later := perSecond(9)
	later.Name = "later"
	if err := r.q.Configure(Options{Policies: []Policy{perSecond(3), later}}, r.now); err != nil {
		t.Fatal(err)
	}
	r.now = r.now.Add(time.Second)
	r.admits("acme", 1)
}

// A table full of strangers has room for an account that an operator names.
func TestImposedAccountsHaveAnEntry(t *testing.T) {
	r := newRig(t, Options{Policies: []Policy{perSecond(3)}, MaxAccounts: 2})
	for i := range 50 {
		r.ask(fmt.Sprint("stranger ", i))
	}
	r.impose(imposed("acme", "per-second", Override{Limit: Count(8)}))
	r.admits("acme", 8)
}

func TestImposedBound(t *testing.T) {
	q, err := New(Options{Policies: []Policy{perSecond(3)}})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]Override{}
	for i := range MaxImposed {
		all[fmt.Sprint(i)] = map[string]Override{"per-second": {Limit: Count(1)}}
	}
	if err := q.Impose(all, epoch); err != nil {
		t.Fatal(err)
	}
	all["one more"] = all["0"]
	if err := q.Impose(all, epoch); err == nil {
		t.Error("one more than the bound was taken")
	}
	if q.Allow(epoch, "7") != true || q.Allow(epoch, "7") != false {
		t.Error("what was imposed before does not hold after an error")
	}
}

func TestCheckOverride(t *testing.T) {
	gcra := perSecond(3)
	gcra.Name, gcra.Window = "steady", GCRA
	o := Options{Policies: []Policy{perSecond(3), gcra, {Name: "gap", Kind: Idle, Gap: weir.Duration(time.Second)},
		{Name: "bytes", Kind: Volume, Limit: Bytes(10), Period: weir.Period{Length: time.Second}}}}
	for _, c := range []struct {
		policy string
		given  Override
		want   string // a part of the mistake; empty for none
	}{
		{"per-second", Override{Limit: Count(0)}, ""},
		{"per-second", Override{Exempt: true}, ""},
		{"steady", Override{Limit: Count(9), Burst: Count(2)}, ""},
		{"gap", Override{Gap: weir.Duration(time.Millisecond)}, ""},
		{"bytes", Override{Limit: Bytes(99)}, ""},
		{"per-secnd", Override{Limit: Count(9)}, `there is no policy "per-secnd"`},
		{"per-second", Override{}, "no figure"},
		{"per-second", Override{Limit: Bytes(5)}, "is a size"},
		{"per-second", Override{Limit: Count(MaxLimit + 1)}, "too large"},
		{"per-second", Override{Burst: Count(5)}, "only window gcra"},
		{"steady", Override{Burst: Count(0)}, "burst of nothing"},
		{"per-second", Override{Gap: 5}, "only kind idle"},
		{"gap", Override{Limit: Count(5)}, "kind idle has no limit"},
		{"bytes", Override{Limit: Count(5)}, "has no unit"},
		{"per-second", Override{Exempt: true, Limit: Count(5)}, "exempt cannot be combined"},
	} {
		err := o.CheckOverride(c.policy, c.given)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %+v: %v", c.policy, c.given, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %+v: %v, want %q", c.policy, c.given, err, c.want)
		}
	}
}
