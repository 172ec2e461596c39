package quota

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// A purse is what a test pays with, and how often that was done.
type purse struct {
	weir.Paid
	opened int
	during func() // is called while it is open
}

func (p *purse) purse() *weir.Purse {
	return weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
		p.opened++
		if p.during != nil {
			p.during()
		}
		return p.Paid, nil
	})
}

// stamped is a purse with a good stamp.
func stamped() *purse { return &purse{Paid: weir.Paid{Work: 1 << 20}} }

// pay sends one event that brings a purse.
func (r *rig) pay(account string, p *purse) *event {
	r.t.Helper()
	return r.judge(weir.Event{Account: account, Purse: p.purse()})
}

func (r *rig) challenge(account string) *event {
	r.t.Helper()
	e := r.want(r.ask(account), weir.Challenge, 0)
	if e.answer.Reason != weir.Unpaid || !e.answer.Hold.IsZero() {
		r.t.Fatalf("event %d: %s, held %v", e.n, e.answer.Explain(), e.answer.Hold)
	}
	return e
}

func forStamps(p Policy) Policy { p.Over = OverStamp; return p }

// eachWindow is a limit of 4 a second, or one in 250 ms, under every window and kind that takes stamps.
func eachWindow() map[string]Policy {
	all := map[string]Policy{"idle": forStamps(Policy{Name: "per-second", Kind: Idle,
		Gap: weir.Duration(250 * time.Millisecond)})}
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		p := forStamps(perSecond(4))
		p.Window = w
		all[string(w)] = p
	}
	return all
}

func TestOverTheLimitAStampLetsGoOn(t *testing.T) {
	for name, p := range eachWindow() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, one(p))
			limit := 4
			if name == "idle" {
				limit = 1
			}
			for range limit {
				e := stamped()
				if r.want(r.pay("a", e), weir.Admit, 0); e.opened != 0 {
					t.Fatal("a purse was opened below the limit")
				}
			}
			asked := r.challenge("a")
			if asked.answer.Rule != "per-second" || asked.answer.Limit != int64(limit) || asked.answer.Remaining != 0 {
				t.Errorf("the figures of the policy: %+v", asked.answer.Figure)
			}
			again := asked.answer.Until
			if !again.After(r.now) {
				t.Errorf("without a stamp there is room at %s", again)
			}
			for i := range 10 {
				e := stamped()
				paid := r.want(r.pay("a", e), weir.Admit, 0)
				if f := paid.answer.Figures; e.opened != 1 || len(f) != 1 || f[0].Remaining != 0 {
					t.Fatalf("opened %d times, figures %+v", e.opened, f)
				}
				r.settle(paid, i%2 == 0) // nothing was charged, so nothing is given back
				if a := r.challenge("a").answer; !a.Until.Equal(again) {
					t.Fatalf("payers put it off from %s to %s", again, a.Until)
				}
			}
			r.now = again.Add(-1)
			r.challenge("a")
			r.now = again
			r.admit("a")
		})
	}
}

func TestChallengeExplains(t *testing.T) {
	r := newRig(t, one(forStamps(perSecond(1))))
	r.admit("a")
	want := "challenge by per-second (unpaid): 0 of 1 requests left per 1s, until 2026-03-02T00:00:01.000Z"
	if got := r.challenge("a").answer.Explain(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if a := r.pay("a", stamped()).answer; a.Explain() != "admit" {
		t.Error(a.Explain())
	}
}

// What is worth nothing pays for nothing. Whether its sender is banned is the stamp throttle's affair.
func TestOnlyAGoodStampPays(t *testing.T) {
	for _, c := range []struct {
		paid weir.Paid
		want weir.Verdict
		why  weir.Reason
	}{
		{weir.Paid{}, weir.Challenge, weir.Unpaid},
		{weir.Paid{Work: 1}, weir.Admit, 0},
		{weir.Paid{Work: 1, Free: true}, weir.Admit, 0},
		{weir.Paid{Free: true}, weir.Challenge, weir.Unpaid},
		{weir.Paid{Fault: weir.Forged}, weir.Challenge, weir.Unpaid},
		{weir.Paid{Fault: weir.Replayed}, weir.Challenge, weir.Unpaid},
		{weir.Paid{Work: 1, Fault: weir.Replayed}, weir.Challenge, weir.Unpaid},
		{weir.Paid{Fault: weir.Overload}, weir.Refuse, weir.Overload},
	} {
		r := newRig(t, one(forStamps(perSecond(1))))
		r.admit("a")
		p := &purse{Paid: c.paid}
		a := r.pay("a", p).answer
		if a.Verdict != c.want || a.Reason != c.why || a.Ban || p.opened != 1 {
			t.Errorf("%+v: %s, opened %d times", c.paid, a.Explain(), p.opened)
		}
		if a.Verdict != weir.Admit && (a.Rule != "per-second" || !a.Until.Equal(epoch.Add(time.Second)) ||
			!a.Hold.IsZero()) {
			t.Errorf("%+v: %+v", c.paid, a)
		}
		if acc := r.q.table.known(r.q.rules.Load(), "a"); acc.pins != 0 {
			t.Errorf("%+v: %d pins are left", c.paid, acc.pins)
		}
	}
}

// A stamp is not spent where it does not help: other policies hold for payers too, and what never fits cannot be
// bought.
func TestOtherPoliciesHoldForPayers(t *testing.T) {
	hour := weir.Period{Length: time.Hour}
	for name, c := range map[string]struct {
		policies []Policy
		cost     int64
		verdict  weir.Verdict
		why      weir.Reason
		rule     string
	}{
		"requests": {[]Policy{{Name: "x", Limit: Count(1), Period: hour}}, 1, weir.Refuse, weir.OverLimit, "x"},
		"idle": {[]Policy{{Name: "x", Kind: Idle, Gap: weir.Duration(time.Minute)}}, 1, weir.Refuse,
			weir.OverLimit, "x"},
		"concurrent": {[]Policy{{Name: "x", Kind: Concurrent, Limit: Count(1)}}, 1, weir.Refuse, weir.OverLimit, "x"},
		"volume": {[]Policy{{Name: "x", Kind: Volume, Limit: Bytes(10), Period: hour}}, 1, weir.Refuse,
			weir.OverLimit, "x"},
		"too costly": {nil, 3, weir.Refuse, weir.TooCostly, "per-second"},
		"closed":     {nil, 1, weir.Refuse, weir.OverLimit, "per-second"},
	} {
		t.Run(name, func(t *testing.T) {
			o := one(append(c.policies, forStamps(perSecond(1)))...)
			r := newRig(t, o)
			r.q.Flow(r.admit("a").answer.Hold, 10, r.now)
			if name == "closed" {
				o.Overrides = map[string]map[string]Override{"a": {"per-second": {Limit: Count(0)}}}
				if err := r.q.Configure(o, r.now); err != nil {
					t.Fatal(err)
				}
			}
			p := stamped()
			e := r.want(r.judge(weir.Event{Account: "a", Cost: c.cost, Purse: p.purse()}), c.verdict, c.why)
			if e.answer.Rule != c.rule || p.opened != 0 {
				t.Errorf("%s, opened %d times", e.answer.Explain(), p.opened)
			}
		})
	}
}

func TestPayersWaitAndAreChargedElsewhere(t *testing.T) {
	places := Policy{Name: "at-once", Kind: Concurrent, Limit: Count(3)}
	minute := Policy{Name: "per-minute", Limit: Count(5), Period: weir.Period{Length: time.Minute}}
	hour := forStamps(Policy{Name: "per-hour", Limit: Count(1), Period: weir.Period{Length: time.Hour}})
	r := newRig(t, one(hour, minute, delayed(perSecond(2), 10, 5*time.Second), places))
	first := r.admit("a")
	second := r.want(r.pay("a", stamped()), weir.Admit, 0)
	third := r.want(r.pay("a", stamped()), weir.Wait, 0)
	r.challenge("a") // who does not pay is not put in line
	if calls := r.advance(time.Second); !slices.Equal(calls[time.Second], []int{third.n}) {
		t.Fatalf("called %v", calls)
	}
	r.want(r.pay("a", stamped()), weir.Refuse, weir.OverLimit) // three are under way
	s, _ := r.q.Account("a", r.now)
	for i, left := range []int64{0, 2, 1, 0} {
		if s.Rules[i].Remaining != left {
			t.Errorf("%s: %d left, want %d", s.Rules[i].Rule, s.Rules[i].Remaining, left)
		}
	}
	for i, e := range []*event{first, second, third} {
		r.settle(e, i != 2) // the last one did not go on after all: what was charged is given back, and no more
	}
	s, _ = r.q.Account("a", r.now)
	for i, left := range []int64{0, 3, 2, 3} {
		if s.Rules[i].Remaining != left {
			t.Errorf("%s: %d left, want %d", s.Rules[i].Rule, s.Rules[i].Remaining, left)
		}
	}
}

// One stamp pays for all policies that ask for one; of those the one that lasts longest asks.
func TestOneStampForSeveralPolicies(t *testing.T) {
	minute := forStamps(Policy{Name: "per-minute", Limit: Count(1), Period: weir.Period{Length: time.Minute}})
	r := newRig(t, one(forStamps(perSecond(1)), minute))
	r.admit("a")
	if a := r.challenge("a").answer; a.Rule != "per-minute" || !a.Until.Equal(epoch.Add(time.Minute)) {
		t.Error(a.Explain())
	}
	p := stamped()
	if r.want(r.pay("a", p), weir.Admit, 0); p.opened != 1 {
		t.Errorf("opened %d times", p.opened)
	}
}

// What is left stays for those who fit in; a payer takes nothing of it.
func TestPayersTakeNothingOfWhatIsLeft(t *testing.T) {
	r := newRig(t, one(forStamps(perSecond(5))))
	r.admit("a")
	r.admit("a")
	cost := func(p *purse) *event { return r.judge(weir.Event{Account: "a", Cost: 4, Purse: p.purse()}) }
	e := r.want(cost(&purse{}), weir.Challenge, 0)
	if e.answer.Remaining != 3 {
		t.Errorf("%+v", e.answer.Figure)
	}
	if e := r.want(cost(stamped()), weir.Admit, 0); e.answer.Figures[0].Remaining != 3 {
		t.Errorf("%+v", e.answer.Figures)
	}
	for range 3 {
		r.admit("a")
	}
	r.challenge("a")
}

func TestPeekOpensNoPurse(t *testing.T) {
	r := newRig(t, one(forStamps(perSecond(1))))
	r.admit("a")
	p := stamped()
	ev := weir.Event{Account: "a", Time: r.now, Purse: p.purse()}
	peek := func() weir.Answer {
		var a weir.Answer
		r.q.Peek(&ev, &a)
		return a
	}
	if a := peek(); a.Verdict != weir.Challenge || a.Reason != weir.Unpaid || a.Rule != "per-second" || p.opened != 0 {
		t.Errorf("%s, opened %d times", a.Explain(), p.opened)
	}
	ev.Purse.Open(t.Context(), &ev)
	if a := peek(); a.Verdict != weir.Admit || p.opened != 1 {
		t.Errorf("%s, opened %d times", a.Explain(), p.opened)
	}
}

// An earlier throttle has opened the purse: it is not asked again.
func TestPaidBefore(t *testing.T) {
	r := newRig(t, one(forStamps(perSecond(1))))
	r.admit("a")
	p := stamped()
	ev := weir.Event{Account: "a", Time: r.now, Purse: p.purse()}
	ev.Purse.Open(t.Context(), &ev)
	if r.want(r.judge(ev), weir.Admit, 0); p.opened != 1 {
		t.Errorf("opened %d times", p.opened)
	}
}

// While somebody looks at a stamp, everybody else goes on, the same account included; and what happens meanwhile
// counts.
func TestPursesAreOpenedUnderNoLock(t *testing.T) {
	o := one(forStamps(perSecond(1)))
	harder := one(perSecond(1))
	wider := one(forStamps(perSecond(2)))
	for name, c := range map[string]struct {
		during func(r *rig)
		want   weir.Verdict
		left   int64
	}{
		"nothing": {func(*rig) {}, weir.Admit, 0},
		"others":  {func(r *rig) { r.admit("b"); r.challenge("a") }, weir.Admit, 0},
		"all": {func(r *rig) {
			for i := range 4 * shards {
				r.admit(fmt.Sprint("x", i))
			}
		}, weir.Admit, 0},
		"reset":  {func(r *rig) { r.q.Reset("a", r.now) }, weir.Admit, 0}, // there is room, and it is charged
		"wider":  {func(r *rig) { _ = r.q.Configure(wider, r.now) }, weir.Admit, 0},
		"harder": {func(r *rig) { _ = r.q.Configure(harder, r.now) }, weir.Refuse, 0},
		"a later": {func(r *rig) { r.now = r.now.Add(time.Second); r.admit("a"); r.now = r.now.Add(-time.Second) },
			weir.Admit, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, o)
			r.admit("a")
			p := stamped()
			p.during = func() { c.during(r) }
			r.want(r.pay("a", p), c.want, weir.OverLimit)
			if s, _ := r.q.Account("a", r.now); s.Rules[0].Remaining != c.left {
				t.Errorf("%d left, want %d", s.Rules[0].Remaining, c.left)
			}
		})
	}
}

// An account that is looked at is not forgotten, even when the table is full and its period is over.
func TestAnAccountIsPinnedWhileItsPurseIsOpen(t *testing.T) {
	o := one(forStamps(perSecond(1)), Policy{Name: "at-once", Kind: Concurrent, Limit: Count(1)})
	o.MaxAccounts = 1
	r := newRig(t, o)
	r.settle(r.admit("a"), true)
	p := stamped()
	p.during = func() {
		r.now = r.now.Add(time.Hour)
		for i := range 100 {
			r.judge(weir.Event{Account: fmt.Sprint("x", i)})
		}
		r.now = r.now.Add(-time.Hour)
	}
	e := r.want(r.pay("a", p), weir.Admit, 0)
	if s, known := r.q.Account("a", r.now); !known || s.Rules[1].Remaining != 0 {
		t.Errorf("%+v, %v", s, known)
	}
	r.settle(e, true)
	r.now = r.now.Add(time.Hour)
	r.admit("b") // it can be forgotten now
	if _, known := r.q.Account("a", r.now); known {
		t.Error("a pin is left")
	}
}

func TestAPanicWhileAPurseIsOpenKeepsNothing(t *testing.T) {
	r := newRig(t, one(forStamps(perSecond(1))))
	r.admit("a")
	p := stamped()
	p.during = func() { panic("no solver") }
	func() {
		defer func() { _ = recover() }()
		r.pay("a", p)
	}()
	r.challenge("a")
	if a := r.q.table.known(r.q.rules.Load(), "a"); a.pins != 0 {
		t.Errorf("%d pins", a.pins)
	}
}

// For those who do not pay, a limit is what it would be had the payers never come.
func TestPayersLeaveNoTrace(t *testing.T) {
	needs.Unwatched(t)
	policies := eachWindow()
	rapid.Check(t, func(rt *rapid.T) {
		p := policies[rapid.SampledFrom([]string{"fixed", "sliding", "gcra", "idle"}).Draw(rt, "window")]
		month := Policy{Name: "all", Limit: Count(1 << 40), Period: weir.Period{Calendar: weir.Month}}
		with, without := newRig(t, one(p, month)), newRig(t, one(p, month))
		type pair struct{ a, b *event }
		var under []pair
		all := int64(0)
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1, 2:
				cost := rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(rt, "cost")
				var look weir.Answer
				ev := weir.Event{Account: "a", Cost: cost}
				ev.Time = without.now
				without.q.Peek(&ev, &look)
				purse := &purse{}
				if rapid.Bool().Draw(rt, "pays") {
					purse = stamped()
				}
				a := with.judge(weir.Event{Account: "a", Cost: cost, Purse: purse.purse()})
				want := look.Verdict
				if want == weir.Challenge && purse.Work > 0 {
					want = weir.Admit
				}
				if a.answer.Verdict != want || (purse.opened > 0) != (look.Verdict == weir.Challenge) {
					rt.Fatalf("%s, without payers %s; opened %d times", a.answer.Explain(), look.Explain(),
						purse.opened)
				}
				if a.answer.Figures[0] != look.Figures[0] {
					rt.Fatalf("%+v, without payers %+v", a.answer.Figures[0], look.Figures[0])
				}
				if a.answer.Verdict != weir.Admit {
					continue
				}
				all += cost
				both := pair{a: a}
				if look.Verdict == weir.Admit {
					both.b = without.judge(weir.Event{Account: "a", Cost: cost})
				}
				under = append(under, both)
			case 3, 4:
				d := time.Duration(rapid.IntRange(0, 700).Draw(rt, "ms")) * time.Millisecond
				with.now, without.now = with.now.Add(d), without.now.Add(d)
			case 5:
				if len(under) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(under)-1).Draw(rt, "who")
				done := rapid.Bool().Draw(rt, "done")
				with.settle(under[i].a, done)
				if under[i].b != nil {
					without.settle(under[i].b, done)
				}
				if !done {
					all -= under[i].a.answer.Hold.N
				}
				under = slices.Delete(under, i, i+1)
			}
		}
		if s, known := with.q.Account("a", with.now); known && s.Rules[1].Remaining != s.Rules[1].Limit-all {
			rt.Fatalf("other policies were charged %d, want %d", s.Rules[1].Limit-s.Rules[1].Remaining, all)
		}
	})
}

// Many pay at once, on few accounts in a small table, while the options change: nobody is stuck, nothing is left held.
func TestManyPayAtOnce(t *testing.T) {
	o := one(forStamps(perSecond(3)), Policy{Name: "at-once", Kind: Concurrent, Limit: Count(1 << 20)})
	o.MaxAccounts = 3
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				now := epoch.Add(time.Duration(i) * 10 * time.Millisecond)
				p := stamped()
				ev := weir.Event{Time: now, Account: fmt.Sprint((g + i) % 6), Purse: p.purse()}
				if g == 7 {
					ev.Account, ev.Source = "", netip.MustParseAddr("192.0.2.1")
				}
				var a weir.Answer
				if err := q.Judge(t.Context(), &ev, &a); err != nil || a.Verdict != weir.Admit {
					t.Errorf("%s, %v", a.Explain(), err)
					continue
				}
				h := a.Hold
				q.Enter(&h, now, &a)
				q.Settle(h, weir.Outcome{Time: now, Done: i%3 == 0})
				if g == 0 && i%50 == 0 {
					o := one(forStamps(perSecond(int64(2+i%3))), o.Policies[1])
					o.MaxAccounts = 3
					if err := q.Configure(o, now); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range q.table.shards {
		for _, a := range append(slices.Clone(q.table.shards[i].ring), q.table.strangers[i]) {
			if a.pins != 0 {
				t.Errorf("%d pins are left", a.pins)
			}
		}
	}
}

func TestBelowTheLimitAPurseCostsNothing(t *testing.T) {
	r := newRig(t, one(forStamps(perSecond(1<<40)), forStamps(Policy{Name: "spacing", Kind: Idle, Gap: 1})))
	p := stamped().purse()
	var a weir.Answer
	n := 0
	if allocs := testing.AllocsPerRun(1000, func() {
		n++
		ev := weir.Event{Account: "a", Time: r.now.Add(time.Duration(n)), Purse: p}
		a.Clear()
		_ = r.q.Judge(context.Background(), &ev, &a)
		r.q.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true})
	}); allocs != 0 || a.Verdict != weir.Admit || p.Paid().Work != 0 {
		t.Errorf("%v allocations: %s", allocs, a.Explain())
	}
}
