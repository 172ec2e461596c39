package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestCostByRule(t *testing.T) {
	o := keyed(10)
	o.Cost.Rules = []CostRule{{Cost: 3, Match: Match{Paths: []string{"/search/**"}}},
		{Cost: 5, Match: Match{Paths: []string{"/search/deep"}, Methods: []string{"POST"}}},
		{Cost: 11, Match: Match{Paths: []string{"/export"}}}}
	o.Policies = append(o.Policies, Policy{Name: "spacing", Kind: Idle, Gap: weir.Duration(time.Second)},
		Policy{Name: "at-once", Kind: Concurrent, Limit: Count(10)})
	r := newRig(t, o)
	left := func(ev weir.Event) int64 {
		t.Helper()
		e := r.judge(ev)
		r.now = r.now.Add(2 * time.Second) // the gap
		if e.answer.Verdict == weir.Admit {
			r.settle(e, true)
			return e.answer.Figures[0].Remaining
		}
		return -int64(e.answer.Reason)
	}
	for i, c := range []struct {
		ev   weir.Event
		want int64
	}{
		{asked("a", "GET", "/", ""), 9},
		{asked("a", "GET", "/search/x", ""), 6},
		{asked("a", "GET", "/SEARCH", ""), 3},
		{asked("a", "GET", "/other/%2e%2e/search", ""), 0}, // some servers read a search
		{asked("a", "GET", "/", ""), -int64(weir.OverLimit)},
		{asked("b", "POST", "/search/deep", ""), 5}, // the dearest rule
		{asked("b", "GET", "/search/deep", ""), 2},
		{asked("b", "GET", "/search/deep", ""), -int64(weir.OverLimit)},
		{asked("b", "GET", "/", ""), 1}, // a refusal charges nothing
		{asked("c", "GET", "/export", ""), -int64(weir.TooCostly)},
		{weir.Event{Account: "d", Cost: 2, Route: asked("", "GET", "/search", "").Route}, 4}, // two searches
	} {
		if got := left(c.ev); got != c.want {
			t.Errorf("event %d: %d left, want %d", i, got, c.want)
		}
	}
}

// priced ends an event with what its answer says.
func (r *rig) priced(e *event, known weir.Pricing, n int64) {
	r.q.Settle(e.answer.Hold, weir.Outcome{Time: r.now, Done: true, Status: 200, Price: weir.Price{Known: known, N: n}})
}

func (r *rig) left(account string) int64 {
	s, known := r.q.Account(account, r.now)
	if !known {
		return -1
	}
	return s.Rules[0].Remaining
}

func TestCostByAnswer(t *testing.T) {
	for _, window := range []WindowKind{Fixed, Sliding, GCRA} {
		o := keyed(10)
		o.Policies[0].Window = window
		o.Cost = Cost{Header: "X-Cost", Max: 6, Unanswered: 4,
			Rules: []CostRule{{Cost: 3, Match: Match{Paths: []string{"/search"}}}}}
		r := newRig(t, o)
		for _, c := range []struct {
			name, path string
			known      weir.Pricing
			n, want    int64
		}{
			{"more than at first", "/", weir.Priced, 5, 5},
			{"as at first", "/", weir.Priced, 1, 9},
			{"nothing", "/", weir.Priced, 0, 10},
			{"less than the rule", "/search", weir.Priced, 2, 8},
			{"at the bound", "/", weir.Priced, 6, 4},
			{"above the bound", "/", weir.Priced, 7, 4},
			{"far above it", "/", weir.Priced, 1 << 62, 4},
			{"the answer says nothing", "/search", weir.Unpriced, 0, 7},
			{"no answer came", "/", weir.Unanswered, 0, 6},
			{"the gate sees no answers", "/search", weir.Unseen, 0, 7},
		} {
			ev := asked(strings.ReplaceAll(c.name, " ", "-"), "GET", c.path, "")
			e := r.judge(ev)
			if first := r.left(ev.Account); first != 9 && first != 7 {
				t.Errorf("%s, %s: %d left before the answer", window, c.name, first)
			}
			r.priced(e, c.known, c.n)
			if got := r.left(ev.Account); got != c.want {
				t.Errorf("%s, %s: %d left, want %d", window, c.name, got, c.want)
			}
		}
		if s := r.q.Stats(); s.Capped != 2 {
			t.Errorf("%s: %d answers were over the bound", window, s.Capped)
		}
		e := r.judge(asked("undone", "GET", "/search", ""))
		r.q.Settle(e.answer.Hold, weir.Outcome{Time: r.now, Price: weir.Price{Known: weir.Priced, N: 6}})
		if got := r.left("undone"); got != 10 {
			t.Errorf("%s: what did not happen costs %d", window, 10-got)
		}
	}
}

// Many requests may begin before the first answer says what they cost. The next one then has to wait for all of it.
func TestCostOfManyAtOnce(t *testing.T) {
	for _, c := range []struct {
		window WindowKind
		after  time.Duration // until one more is let in
	}{
		{Fixed, time.Minute},                   // what is over is forgotten then
		{Sliding, time.Minute + 4*time.Second}, // and a sixteenth later here
		{GCRA, 10 * time.Minute},               // 100 at 10 a minute, less the burst
	} {
		o := keyed(10)
		o.Policies[0].Window = c.window
		o.Cost = Cost{Header: "X-Cost", Max: 100}
		r := newRig(t, o)
		var all []*event
		for range 12 {
			if e := r.judge(asked("a", "GET", "/", "")); e.answer.Verdict == weir.Admit {
				all = append(all, e)
			}
		}
		if len(all) != 10 {
			t.Fatalf("%s: %d at once", c.window, len(all))
		}
		for _, e := range all {
			r.priced(e, weir.Priced, 11)
		}
		start := r.now
		for step := time.Duration(0); ; step += time.Second {
			r.now = start.Add(step)
			got := r.judge(asked("a", "GET", "/", "")).answer
			if got.Verdict == weir.Admit {
				if step < c.after-2*time.Second || step > c.after+7*time.Second {
					t.Errorf("%s: one more after %s, want %s", c.window, step, c.after)
				}
				break
			}
			if step > time.Hour {
				t.Fatalf("%s: %s", c.window, got.Explain())
			}
		}
	}
}

// With a rule that charges as much as an answer may say, not one too many is let in.
func TestCostReserved(t *testing.T) {
	o := keyed(10)
	o.Cost = Cost{Header: "X-Cost", Max: 5, Rules: []CostRule{{Cost: 5}}}
	r := newRig(t, o)
	first, second := r.judge(asked("a", "GET", "/", "")), r.judge(asked("a", "GET", "/", ""))
	if got := r.judge(asked("a", "GET", "/", "")).answer; got.Verdict != weir.Refuse {
		t.Errorf("three at once: %s", got.Explain())
	}
	r.priced(first, weir.Priced, 5)
	r.priced(second, weir.Priced, 1)
	if got := r.left("a"); got != 4 {
		t.Errorf("%d left", got)
	}
}

// Who waits in line is called when what was charged too much is given back.
func TestCostGivenBackCallsTheNext(t *testing.T) {
	o := keyed(5)
	o.Policies[0].Over, o.Policies[0].Delay = OverDelay, Delay{MaxWait: weir.Duration(time.Hour)}
	o.Cost = Cost{Header: "X-Cost", Rules: []CostRule{{Cost: 5}}}
	r := newRig(t, o)
	first := r.judge(asked("a", "GET", "/", ""))
	if second := r.judge(asked("a", "GET", "/", "")); second.answer.Verdict != weir.Wait {
		t.Fatal(second.answer.Explain())
	}
	r.priced(first, weir.Priced, 0)
	if got := r.called(); len(got) != 1 {
		t.Errorf("called %v", got)
	}
}

// An account of whose request the answer is not there yet is not forgotten.
func TestCostOfForgottenAccounts(t *testing.T) {
	o := keyed(10)
	o.Policies[0].Period = weir.Period{Length: time.Second}
	o.MaxAccounts = 10
	o.Cost = Cost{Header: "X-Cost"}
	r := newRig(t, o)
	e := r.judge(asked("slow", "GET", "/", ""))
	for i := range 1000 {
		r.now = r.now.Add(100 * time.Millisecond)
		r.judge(asked(fmt.Sprint("other", i), "GET", "/", ""))
	}
	r.priced(e, weir.Priced, 8)
	if got := r.left("slow"); got != 3 { // one was charged in a period that is over
		t.Errorf("%d left", got)
	}
}

func TestCostMistakes(t *testing.T) {
	rule := func(n int) Cost { return Cost{Rules: []CostRule{{Cost: n}}} }
	for want, c := range map[string]Cost{
		"cost.rules[0].cost: 0 is out of bounds":          rule(0),
		"cost.rules[0].cost: 1000000001 is out of bounds": rule(MaxCost + 1),
		"cost.max: 1000000001 is out of bounds":           {Header: "X-Cost", Max: MaxCost + 1},
		"cost.unanswered: -1 is out of bounds":            {Header: "X-Cost", Unanswered: -1},
		`cost.header: "X Cost" is not a header`:           {Header: "X Cost"},
		"cost.rules: 101 rules are too many":              {Rules: slicesOf(MaxCostRules+1, CostRule{Cost: 1})},
		`cost.rules[0].match.paths[0]: "search" does not start with a slash`: {Rules: []CostRule{{Cost: 2,
			Match: Match{Paths: []string{"search"}}}}},
		`cost.rules[0].match.plans[0]: no account is on plan "gold"`: {Rules: []CostRule{{Cost: 2,
			Match: Match{Plans: []string{"gold"}}}}},
		"cost.header: no header of the answer says what a request costs, so that max and unanswered have no effect": {Max: 5},
	} {
		o := keyed(1)
		o.Cost = c
		errs := weir.FieldErrors(o.Validate())
		if len(errs) != 1 || errs[0].Path+": "+errs[0].Msg != want {
			t.Errorf("%v, want %s", errs, want)
		}
	}
	for _, c := range []Cost{rule(1), rule(MaxCost), {Header: "X-Cost", Max: MaxCost, Unanswered: MaxCost},
		{Rules: slicesOf(MaxCostRules, CostRule{Cost: 1})}} {
		o := keyed(1)
		if o.Cost = c; o.Validate() != nil {
			t.Errorf("%+v: %v", c, o.Validate())
		}
	}
}

func slicesOf(n int, r CostRule) (all []CostRule) {
	for range n {
		all = append(all, r)
	}
	return all
}
