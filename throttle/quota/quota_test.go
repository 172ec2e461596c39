package quota

import (
	"context"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestFixedStartsAtZeroEachPeriod(t *testing.T) {
	r := newRig(t, one(perSecond(5)))
	r.now = r.now.Add(300 * time.Millisecond)
	for range 5 {
		r.admit("a")
	}
	e := r.refuse("a", weir.OverLimit)
	if want := epoch.Add(time.Second); !e.answer.Until.Equal(want) || !e.answer.Reset.Equal(want) {
		t.Errorf("until %s, reset %s, want %s", e.answer.Until, e.answer.Reset, want)
	}
	if e.answer.Rule != "per-second" || e.answer.Limit != 5 || e.answer.Remaining != 0 {
		t.Errorf("figures: %+v", e.answer.Figure)
	}
	r.admit("b")
	r.now = epoch.Add(time.Second)
	for range 5 {
		r.admit("a")
	}
	r.refuse("a", weir.OverLimit)
}

func TestFiguresShowWhatIsLeft(t *testing.T) {
	r := newRig(t, one(perSecond(5)))
	for left := int64(4); left >= 0; left-- {
		if f := r.admit("a").answer.Figures; len(f) != 1 || f[0].Remaining != left ||
			f[0].Window.Length() != time.Second {
			t.Fatalf("want %d left: %+v", left, f)
		}
	}
}

// The source's case: twelve at once, five a second.
func TestDelayedGoFirstInOrderAndAreCharged(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(5), 20, 5*time.Second)))
	for i := range 12 {
		if i < 5 {
			r.admit("a")
		} else {
			r.wait("a")
		}
	}
	r.admit("b")
	second := r.advance(1500 * time.Millisecond)
	if got := inOrder(second); !slices.Equal(got, []int{5, 6, 7, 8, 9}) {
		t.Fatalf("second period: %v", second)
	}
	for i, n := range []int{5, 6, 7, 8, 9} {
		at := time.Second + time.Duration(i)*10*time.Millisecond
		if !slices.Equal(second[at], []int{n}) {
			t.Errorf("paced: %v", second)
		}
	}
	newcomer := r.wait("a") // the second period is used up, and two are ahead of it
	if want := epoch.Add(2*time.Second + 20*time.Millisecond); !newcomer.answer.Until.Equal(want) {
		t.Errorf("newcomer expected at %s, want %s", newcomer.answer.Until, want)
	}
	if got := inOrder(r.advance(time.Second)); !slices.Equal(got, []int{10, 11, newcomer.n}) {
		t.Fatalf("third period: %v", got)
	}
	for range 2 {
		r.admit("a")
	}
	r.wait("a")
}

func TestNewcomerDoesNotOvertakeThosePaced(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(5), 20, 5*time.Second)))
	for range 8 {
		r.ask("a")
	}
	r.advance(time.Second + 5*time.Millisecond) // 5 has been called, 6 and 7 are yet to be
	newcomer := r.wait("a")
	if got := inOrder(r.advance(time.Second / 2)); !slices.Equal(got, []int{6, 7, newcomer.n}) {
		t.Fatalf("called %v", got)
	}
	r.admit("a") // the fifth of this period
	r.wait("a")
}

func TestNextIsCalledWhenTheOneAheadIsOnItsWay(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(3), 20, 5*time.Second)))
	for range 6 {
		r.ask("a")
	}
	first, second, third := r.line[0], r.line[1], r.line[2]
	turn := func(e *event) bool {
		select {
		case <-e.answer.Turn.Called():
			return true
		default:
			return false
		}
	}
	at := func(d time.Duration) {
		r.now = epoch.Add(time.Second + d)
		r.q.Advance(r.now)
	}
	at(0)
	if !turn(first) || turn(second) {
		t.Fatal("one at a time")
	}
	at(50 * time.Millisecond) // the second could go, but the first is not on its way
	if turn(second) {
		t.Fatal("called too early")
	}
	r.q.Away(first.answer.Hold, r.now)
	at(55*time.Millisecond - 1)
	if turn(second) {
		t.Fatal("called at the heels of the one ahead of it")
	}
	at(55 * time.Millisecond)
	if !turn(second) || turn(third) {
		t.Fatal("not called when the one ahead of it was on its way")
	}
	at(155*time.Millisecond - 1)
	if turn(third) {
		t.Fatal("called too early")
	}
	at(155 * time.Millisecond) // nobody is waited for longer than that
	if !turn(third) {
		t.Fatal("held up for ever")
	}
	r.settle(second, true)
	r.settle(third, true)
	if a := r.q.table.known(r.q.rules.Load(), "a"); a.line().called != nil {
		t.Error("what is settled holds nobody up")
	}
}

func TestDelayHasBounds(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(1), 3, 10*time.Second)))
	r.admit("a")
	for range 3 {
		r.wait("a")
	}
	e := r.refuse("a", weir.LineFull)
	if !e.answer.Until.Equal(epoch.Add(time.Second)) {
		t.Errorf("until %s", e.answer.Until)
	}
	r.admit("b") // the bound is per account

	r = newRig(t, one(delayed(perSecond(1), 100, 2*time.Second)))
	r.admit("a")
	r.wait("a") // in 1 s
	r.wait("a") // in 2 s
	r.refuse("a", weir.WaitTooLong)
}

func TestLeavingMovesTheOthersUp(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(1), 10, 10*time.Second)))
	r.admit("a")
	first, second := r.wait("a"), r.wait("a")
	third := r.wait("a")
	r.settle(first, false)
	if got := r.advance(time.Second); !slices.Equal(got[time.Second], []int{second.n}) {
		t.Fatalf("called %v", got)
	}
	r.settle(third, false)
	if s := r.q.Stats(); s.Waiting != 0 {
		t.Errorf("still waiting: %+v", s)
	}
	if got := r.advance(5 * time.Second); len(got) != 0 {
		t.Errorf("called %v", got)
	}
}

func TestGivingBackServesTheNextInLine(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(1), 10, 10*time.Second)))
	first := r.admit("a")
	second := r.wait("a")
	r.settle(first, false)
	if got := r.called(); !slices.Equal(got, []int{second.n}) {
		t.Fatalf("called %v", got)
	}
	r.wait("a")
}

func TestRefusedDrainsNothing(t *testing.T) {
	minute := Policy{Name: "per-minute", Limit: Count(6), Period: weir.Period{Length: time.Minute}}
	r := newRig(t, one(minute, perSecond(2)))
	for range 3 {
		r.admit("a")
		r.admit("a")
		for range 20 {
			r.refuse("a", weir.OverLimit)
		}
		r.now = r.now.Add(time.Second)
	}
	if e := r.refuse("a", weir.OverLimit); e.answer.Rule != "per-minute" {
		t.Errorf("refused by %s", e.answer.Rule)
	}
}

func TestSeveralRefusalsTellTheLongest(t *testing.T) {
	minute := Policy{Name: "per-minute", Limit: Count(2), Period: weir.Period{Length: time.Minute}}
	places := Policy{Name: "at-once", Kind: Concurrent, Limit: Count(2)}
	r := newRig(t, one(places, minute, perSecond(2)))
	r.admit("a")
	r.admit("a")
	if e := r.refuse("a", weir.OverLimit); e.answer.Rule != "per-minute" ||
		!e.answer.Until.Equal(epoch.Add(time.Minute)) {
		t.Errorf("got %s", e.answer.Explain())
	}
}

func TestWaitReservesWhatOtherPoliciesWillCharge(t *testing.T) {
	hour := Policy{Name: "per-hour", Limit: Count(3), Period: weir.Period{Length: time.Hour}}
	r := newRig(t, one(delayed(perSecond(1), 10, 10*time.Second), hour))
	r.admit("a")
	r.wait("a")
	last := r.wait("a")
	if e := r.refuse("a", weir.OverLimit); e.answer.Rule != "per-hour" {
		t.Fatalf("refused by %s: nobody may wait for what never comes", e.answer.Rule)
	}
	r.settle(last, false)
	r.wait("a")
	if got := len(inOrder(r.advance(10 * time.Second))); got != 2 {
		t.Errorf("%d were called, want 2", got)
	}
}

func TestSliding(t *testing.T) {
	p := perSecond(16)
	p.Window = Sliding
	r := newRig(t, one(p))
	r.now = epoch.Add(900 * time.Millisecond)
	for range 16 {
		r.admit("a")
	}
	r.now = epoch.Add(time.Second) // a fixed window would start again here
	e := r.refuse("a", weir.OverLimit)
	if again := e.answer.Until; again.Before(r.now.Add(900*time.Millisecond)) ||
		again.After(r.now.Add(963*time.Millisecond)) {
		t.Errorf("again at %s", again.Sub(epoch))
	}
	r.now = e.answer.Until.Add(-1)
	r.refuse("a", weir.OverLimit)
	r.now = e.answer.Until
	r.admit("a")
}

// TestGivenBackAfterReload: nine of ten were paid off at the old rate before the new one came, and are not given back
// at it.
func TestGivenBackAfterReload(t *testing.T) {
	p := Policy{Name: "steady", Limit: Count(10), Burst: Count(10), Period: weir.Period{Length: time.Second},
		Window: GCRA}
	r := newRig(t, one(p))
	ten := r.want(r.judge(weir.Event{Account: "a", Cost: 10}), weir.Admit, 0)
	r.advance(900 * time.Millisecond)
	p.Limit = Count(1)
	if err := r.q.Configure(one(p), r.now); err != nil {
		t.Fatal(err)
	}
	r.want(r.judge(weir.Event{Account: "a", Cost: 9}), weir.Admit, 0)
	r.settle(ten, false)
	r.refuse("a", weir.OverLimit)
}

func TestGCRA(t *testing.T) {
	p := perSecond(10)
	p.Window, p.Burst = GCRA, Count(3)
	r := newRig(t, one(p))
	for range 3 {
		r.admit("a")
	}
	if e := r.refuse("a", weir.OverLimit); !e.answer.Until.Equal(epoch.Add(100 * time.Millisecond)) {
		t.Errorf("again at %s", e.answer.Until.Sub(epoch))
	}
	r.now = epoch.Add(100 * time.Millisecond)
	r.admit("a")
	r.refuse("a", weir.OverLimit)
	r.now = epoch.Add(time.Hour)
	for range 3 {
		r.admit("a")
	}
	r.refuse("a", weir.OverLimit)
	if e := r.judge(weir.Event{Account: "b", Cost: 4}); e.answer.Reason != weir.TooCostly {
		t.Errorf("a cost above the burst: %s", e.answer.Explain())
	}
}

func TestDelayToTheEarliestConformingTime(t *testing.T) {
	gcra := perSecond(10)
	gcra.Window, gcra.Burst = GCRA, Count(1)
	sliding := perSecond(2)
	sliding.Window = Sliding
	idle := Policy{Name: "spacing", Kind: Idle, Gap: weir.Duration(50 * time.Millisecond)}
	for name, c := range map[string]struct {
		p    Policy
		want []time.Duration
	}{
		"gcra": {gcra, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond}},
		"idle": {idle, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond}},
		"sliding": {sliding, []time.Duration{1062500 * time.Microsecond, 1072500 * time.Microsecond,
			2125 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, one(delayed(c.p, 10, 10*time.Second)))
			r.admit("a")
			if name == "sliding" {
				r.admit("a")
			}
			var waits []*event
			for range 3 {
				waits = append(waits, r.wait("a"))
			}
			calls := r.advance(5 * time.Second)
			for i, at := range c.want {
				if !slices.Equal(calls[at], []int{waits[i].n}) {
					t.Errorf("want %d at %s: %v", waits[i].n, at, calls)
				}
				if name != "sliding" && !waits[i].answer.Until.Equal(epoch.Add(at)) {
					t.Errorf("%d was told %s, called at %s", waits[i].n, waits[i].answer.Until.Sub(epoch), at)
				}
			}
		})
	}
}

// A clock that ticks a little late does not slow a steady rate down, and never cuts a least gap short.
func TestLateCalls(t *testing.T) {
	gcra := perSecond(100)
	gcra.Window, gcra.Burst = GCRA, Count(1)
	idle := Policy{Name: "spacing", Kind: Idle, Gap: weir.Duration(10 * time.Millisecond)}
	for name, c := range map[string]struct {
		p      Policy
		second time.Duration
	}{"gcra": {gcra, 20 * time.Millisecond}, "idle": {idle, 20*time.Millisecond + 900*time.Microsecond}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, one(delayed(c.p, 10, time.Second)))
			r.admit("a")
			r.wait("a")
			r.wait("a")
			r.now = epoch.Add(10*time.Millisecond + 900*time.Microsecond) // it was due 0.9 ms before
			next := r.q.Advance(r.now)
			if got := r.called(); !slices.Equal(got, []int{1}) {
				t.Fatalf("called %v", got)
			}
			if r.due = r.q.Advance(r.now); !r.due.Equal(epoch.Add(c.second)) {
				t.Errorf("the next one is due at %s (%s), want %s", r.due.Sub(epoch), next.Sub(epoch), c.second)
			}
		})
	}
}

func TestIdle(t *testing.T) {
	r := newRig(t, one(Policy{Name: "spacing", Kind: Idle, Gap: weir.Duration(50 * time.Millisecond)}))
	r.admit("a")
	r.now = r.now.Add(49 * time.Millisecond)
	if e := r.refuse("a", weir.OverLimit); !e.answer.Until.Equal(epoch.Add(50 * time.Millisecond)) {
		t.Errorf("again at %s", e.answer.Until.Sub(epoch))
	}
	r.now = r.now.Add(time.Millisecond)
	r.admit("a")
}

func TestConcurrent(t *testing.T) {
	r := newRig(t, one(Policy{Name: "at-once", Kind: Concurrent, Limit: Count(2)}))
	first := r.admit("a")
	r.admit("a")
	r.refuse("a", weir.OverLimit)
	r.admit("b")
	r.settle(first, true)
	r.admit("a")
	r.refuse("a", weir.OverLimit)
}

func TestPlaceGoesToTheNextInLine(t *testing.T) {
	r := newRig(t, one(delayed(Policy{Name: "at-once", Kind: Concurrent, Limit: Count(1)}, 2, 5*time.Second)))
	first := r.admit("a")
	second, third := r.wait("a"), r.wait("a")
	r.refuse("a", weir.LineFull)
	r.settle(first, true)
	newcomer := r.wait("a") // never overtakes the one in line
	if got := r.called(); !slices.Equal(got, []int{second.n}) {
		t.Fatalf("called %v", got)
	}
	r.settle(third, false)
	r.settle(second, true)
	if got := r.called(); !slices.Equal(got, []int{newcomer.n}) {
		t.Fatalf("called %v", got)
	}
	late := r.wait("a")
	if got := r.advance(6 * time.Second); len(got) != 0 || late.answer.Reason != weir.WaitTooLong ||
		late.answer.Verdict != weir.Refuse {
		t.Errorf("after the longest wait: %v, %s", got, late.answer.Explain())
	}
	r.settle(newcomer, true)
	r.admit("a")
}

func TestPlacesAreTakenAfterTheWaits(t *testing.T) {
	places := delayed(Policy{Name: "at-once", Kind: Concurrent, Limit: Count(1)}, 10, time.Minute)
	r := newRig(t, one(delayed(perSecond(1), 10, time.Minute), places))
	first := r.admit("a")
	r.wait("a") // waits for the next second, and holds no place meanwhile
	r.settle(first, true)
	if s, _ := r.q.Account("a", r.now); s.Rules[1].Remaining != 1 {
		t.Errorf("a place is taken by somebody who waits: %+v", s.Rules)
	}
	calls := r.advance(time.Second)
	if got := inOrder(calls); !slices.Equal(got, []int{1}) {
		t.Fatalf("called %v", calls)
	}
	r.wait("a")
	if got := r.advance(5 * time.Second); len(got) != 0 { // its second comes, but the place is taken
		t.Fatalf("called %v", got)
	}
	if len(r.line) != 1 {
		t.Fatalf("%d in line", len(r.line))
	}
}

func TestVolumeCarriesDebtOver(t *testing.T) {
	p := Policy{Name: "traffic", Kind: Volume, Limit: Bytes(1000), Period: weir.Period{Length: time.Second}}
	r := newRig(t, one(p))
	e := r.admit("a")
	if pause := r.q.Flow(e.answer.Hold, 3500, r.now); !pause.IsZero() {
		t.Errorf("over: refuse pauses nothing, got %s", pause)
	}
	r.settle(e, true)
	if e := r.refuse("a", weir.OverLimit); !e.answer.Until.Equal(epoch.Add(3 * time.Second)) {
		t.Errorf("again at %s", e.answer.Until.Sub(epoch))
	}
	r.now = epoch.Add(2999 * time.Millisecond)
	r.refuse("a", weir.OverLimit)
	r.now = epoch.Add(3 * time.Second)
	r.admit("a")
	if s, _ := r.q.Account("a", r.now); s.Rules[0].Remaining != 500 || s.Rules[0].Unit != "bytes" {
		t.Errorf("a debt of 500 is left: %+v", s.Rules)
	}
}

func TestVolumeDelays(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		t.Run(string(w), func(t *testing.T) {
			p := delayed(Policy{Name: "traffic", Kind: Volume, Window: w, Limit: Bytes(1000),
				Period: weir.Period{Length: time.Second}}, 5, 10*time.Second)
			r := newRig(t, one(p))
			e := r.admit("a")
			if pause := r.q.Flow(e.answer.Hold, 999, r.now); !pause.IsZero() {
				t.Fatalf("paused until %s with a byte left", pause.Sub(epoch))
			}
			pause := r.q.Flow(e.answer.Hold, 1001, r.now)
			if pause.Before(epoch.Add(time.Second)) || pause.After(epoch.Add(2*time.Second)) {
				t.Fatalf("paused until %s", pause.Sub(epoch))
			}
			waits := r.wait("a")
			calls := r.advance(9 * time.Second)
			if got := inOrder(calls); !slices.Equal(got, []int{waits.n}) {
				t.Fatalf("called %v", calls)
			}
			for at := range calls {
				if at < time.Second || at > 2*time.Second {
					t.Errorf("called at %s", at)
				}
			}
		})
	}
}

func TestCalendarMonth(t *testing.T) {
	p := Policy{Name: "monthly", Limit: Count(2), Period: weir.Period{Calendar: weir.Month},
		TimeZone: "America/New_York"}
	r := newRig(t, one(p))
	r.now = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC) // still February there
	r.admit("a")
	r.admit("a")
	e := r.refuse("a", weir.OverLimit)
	if want := time.Date(2026, 3, 1, 5, 0, 0, 0, time.UTC); !e.answer.Until.Equal(want) {
		t.Errorf("until %s, want %s", e.answer.Until.UTC(), want)
	}
	if e.answer.Window.Length() != 28*24*time.Hour {
		t.Errorf("February has %s", e.answer.Window.Length())
	}
	if text := e.answer.Explain(); !strings.Contains(text, ": 0 of 2 requests left per month, until ") {
		t.Error(text)
	}
	r.now = e.answer.Until
	r.admit("a")
	// summer time begins in March
	if f := r.admit("a").answer.Figures[0]; f.Window.Length() != 31*24*time.Hour-time.Hour {
		t.Errorf("March has %s", f.Window.Length())
	}
	r.refuse("a", weir.OverLimit)
}

func TestMatchPlansAndOverrides(t *testing.T) {
	search := Policy{Name: "search", Limit: Count(1), Period: weir.Period{Length: time.Minute},
		Match: Match{Methods: []string{"GET"}, Hosts: []string{"*.example.com"}, Paths: []string{"/v1/search/**"}}}
	free := Policy{Name: "free", Limit: Count(2), Period: weir.Period{Length: time.Minute},
		Match: Match{Plans: []string{"free"}}}
	r := newRig(t, Options{
		Policies:    []Policy{search, free, perSecond(5)},
		Plans:       map[string]map[string]Override{"gold": {"per-second": {Limit: Count(8)}}},
		Members:     map[string]string{"acme": "gold"},
		DefaultPlan: "free",
		Overrides: map[string]map[string]Override{"acme": {"search": {Exempt: true}},
			"blocked": {"per-second": {Limit: Count(0)}}},
	})
	route := weir.Route{Method: "GET", Host: "api.example.com", Path: "/v1/search/x"}
	r.want(r.judge(weir.Event{Account: "x", Route: route}), weir.Admit, 0)
	if e := r.want(r.judge(weir.Event{Account: "x", Route: route}), weir.Refuse,
		weir.OverLimit); e.answer.Rule != "search" {
		t.Errorf("refused by %s", e.answer.Rule)
	}
	r.admit("x")
	if e := r.refuse("x", weir.OverLimit); e.answer.Rule != "free" {
		t.Errorf("refused by %s", e.answer.Rule)
	}
	for range 8 {
		r.want(r.judge(weir.Event{Account: "acme", Route: route}), weir.Admit, 0)
	}
	r.refuse("acme", weir.OverLimit)
	for range 8 { // the gate knows that this one is on the gold plan
		r.want(r.judge(weir.Event{Account: "y", Plan: "gold"}), weir.Admit, 0)
	}
	r.want(r.judge(weir.Event{Account: "y", Plan: "gold"}), weir.Refuse, weir.OverLimit)
	r.refuse("blocked", weir.OverLimit)
}

func TestPeekTakesNothing(t *testing.T) {
	r := newRig(t, one(delayed(perSecond(1), 10, 5*time.Second),
		Policy{Name: "at-once", Kind: Concurrent, Limit: Count(1)}))
	peek := func(account string) weir.Answer {
		var a weir.Answer
		r.q.Peek(&weir.Event{Time: r.now, Account: account}, &a)
		return a
	}
	for range 3 {
		if a := peek("a"); a.Verdict != weir.Admit || a.Figures[0].Remaining != 0 {
			t.Fatalf("got %s", a.Explain())
		}
	}
	if s := r.q.Stats(); s.Accounts != 0 {
		t.Errorf("%+v", s)
	}
	r.settle(r.admit("a"), true)
	if a := peek("a"); a.Verdict != weir.Wait || a.Turn != nil || !a.Hold.IsZero() {
		t.Errorf("got %s", a.Explain())
	}
	if s := r.q.Stats(); s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

func TestClockRunningBackwards(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		p := perSecond(2)
		p.Window = w
		r := newRig(t, one(p))
		r.now = epoch.Add(10 * time.Second)
		r.admit("a")
		r.admit("a")
		r.now = r.now.Add(-900 * time.Millisecond) // a little: nothing is given twice
		r.refuse("a", weir.OverLimit)
		r.now = epoch.Add(12 * time.Second)
		r.admit("a")
		r.admit("a")
		r.now = epoch.Add(-24 * time.Hour) // a lot: nobody is shut out for a day
		for _, after := range []time.Duration{0, 2 * time.Second} {
			r.now = r.now.Add(after)
			if e := r.ask("a"); e.answer.Verdict == weir.Refuse && e.answer.Until.Sub(r.now) > time.Second {
				t.Errorf("%s: shut out until %s", w, e.answer.Until)
			}
		}
		r.admit("a")
	}
}

func TestClockSetBackWhileSomebodyWaits(t *testing.T) {
	for _, p := range []Policy{perSecond(1), {Name: "spacing", Kind: Idle, Gap: weir.Duration(time.Second)}} {
		for _, back := range []time.Duration{30 * time.Second, 24 * time.Hour} {
			r := newRig(t, one(delayed(p, 10, 5*time.Second)))
			r.q.Advance(r.now)
			r.admit("a")
			r.wait("a")
			r.wait("a")
			r.now = epoch.Add(-back)
			r.due = r.q.Advance(r.now) // the timer fires although the clock says that it is early
			granted := inOrder(r.advance(6 * time.Second))
			if granted = append(r.called(), granted...); len(granted) != 2 || len(r.line) != 0 {
				t.Errorf("%s: %v were called, %d still wait after %s", p.Name, granted, len(r.line), back)
			}
		}
	}
}

// TestClockSetBackWhileNobodyWaits: half a minute is no reason to shut anybody out for that long.
func TestClockSetBackWhileNobodyWaits(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		p := perSecond(1)
		p.Window = w
		r := newRig(t, one(p))
		r.q.Advance(r.now)
		r.admit("a")
		r.now = epoch.Add(-30 * time.Second)
		r.q.Advance(r.now)
		r.ask("a") // what was used by the old clock may count once more
		for range 3 {
			r.now = r.now.Add(2 * time.Second)
			r.admit("a")
		}
	}
}

func TestTooCostly(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		p := delayed(perSecond(5), 10, 5*time.Second)
		p.Window = w
		r := newRig(t, one(p))
		r.want(r.judge(weir.Event{Account: "a", Cost: 6}), weir.Refuse, weir.TooCostly)
		r.want(r.judge(weir.Event{Account: "a", Cost: math.MaxInt64}), weir.Refuse, weir.TooCostly)
		r.want(r.judge(weir.Event{Account: "a", Cost: 5}), weir.Admit, 0)
		r.want(r.judge(weir.Event{Account: "a", Cost: 1}), weir.Wait, 0)
	}
}

func TestRoutesDoNotBlockEachOther(t *testing.T) {
	search := delayed(perSecond(1), 10, 5*time.Second)
	search.Name, search.Match.Paths = "search", []string{"/search"}
	r := newRig(t, one(search, perSecond(5)))
	at := func(path string) *event { return r.judge(weir.Event{Account: "a", Route: weir.Route{Path: path}}) }
	r.want(at("/search"), weir.Admit, 0)
	r.want(at("/search"), weir.Wait, 0)
	r.want(at("/other"), weir.Admit, 0) // is not under the policy that delays
	r.want(at("/other"), weir.Admit, 0)
	r.want(at("/other"), weir.Admit, 0)
	r.want(at("/other"), weir.Refuse, weir.OverLimit) // the fifth is kept for the one in line
}

func TestAdmittedPathAllocatesNothing(t *testing.T) {
	volume := Policy{Name: "traffic", Kind: Volume, Limit: Bytes(1 << 40), Period: weir.Period{Length: time.Second}}
	sliding := Policy{Name: "sliding", Window: Sliding, Limit: Count(1 << 40), Period: weir.Period{Length: time.Minute}}
	gcra := Policy{Name: "gcra", Window: GCRA, Limit: Count(1 << 40), Period: weir.Period{Length: time.Minute}}
	r := newRig(t, one(perSecond(1<<40), volume, sliding, gcra,
		Policy{Name: "at-once", Kind: Concurrent, Limit: Count(10)}))
	var a weir.Answer
	ev := weir.Event{Account: "a", Time: r.now}
	if n := testing.AllocsPerRun(1000, func() {
		a.Clear()
		_ = r.q.Judge(context.Background(), &ev, &a)
		h := a.Hold
		r.q.Enter(&h, ev.Time, &a)
		r.q.Flow(h, 100, ev.Time)
		r.q.Settle(h, weir.Outcome{Time: ev.Time, Done: true})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestExemptAddressMustBeKnown: an address that an override exempts is limited where it may be another one.
func TestExemptAddressMustBeKnown(t *testing.T) {
	for _, o := range []Options{
		{Overrides: map[string]map[string]Override{"source:192.0.2.1": {"few": {Exempt: true}}}},
		{Plans: map[string]map[string]Override{"own": {"few": {Exempt: true}}},
			Members: map[string]string{"source:192.0.2.1": "own"}},
	} {
		for _, refuse := range []bool{false, true} {
			if o.Policies,
				o.OnMissing = []Policy{{Name: "few", Limit: Amount{N: 2, Set: true},
				Period: weir.Period{Length: time.Hour}}}, ""; refuse {
				o.OnMissing = MissingRefuse
			}
			r := newRig(t, o)
			sure := weir.Event{Account: "source:192.0.2.1", Source: netip.MustParseAddr("192.0.2.1")}
			unknown, named := sure, sure
			unknown.SourceUnknown = true
			named.Account, named.SourceUnknown = "acme", true
			for i := range 10 {
				want := weir.Admit
				r.want(r.judge(sure), want, 0)
				if i >= 2 {
					want = weir.Refuse
				}
				if got := r.judge(unknown).answer.Verdict; got != want {
					t.Errorf("number %d: %s", i, got)
				}
			}
			r.want(r.judge(named), weir.Admit, 0) // an account that is no address is what it is
		}
	}
}
