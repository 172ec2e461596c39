package policy

import (
	"context"
	"maps"
	"sync"
	"testing"

	"weir"
)

// ruled is a throttle with named rules.
type ruled struct {
	script
	rules []string
}

func (r *ruled) Rules() []string { return r.rules }

// TestCountsByRule: verdicts are counted for the rule that gave them; admissions and unknown rules have no name.
func TestCountsByRule(t *testing.T) {
	r := &ruled{rules: []string{"minute", "month", ""}}
	link := NewLink("plans", r, Closed)
	c, err := New([]*Link{link}, nil)
	if err != nil {
		t.Fatal(err)
	}
	give := func(v weir.Verdict, rule string) {
		r.answer = weir.Answer{Verdict: v, Figure: weir.Figure{Rule: rule}}
		p := judge(c)
		p.Settle(weir.Outcome{Time: start})
	}
	give(weir.Refuse, "month")
	give(weir.Refuse, "month")
	give(weir.Refuse, "invented")
	give(weir.Refuse, "")
	give(weir.Admit, "month")
	link.Shadow.Store(true)
	give(weir.Refuse, "minute")
	wants := func(verdict weir.Verdict, unnamed, acted, shadowed uint64, byRule map[string][2]uint64) {
		t.Helper()
		got := map[string][2]uint64{}
		for rule, tally := range link.Counts.ByRule() {
			got[rule] = [2]uint64{tally.Verdicts[verdict].Load(), tally.Shadowed[verdict].Load()}
		}
		if !maps.Equal(got, byRule) {
			t.Errorf("%s by rule %v, want %v", verdict, got, byRule)
		}
		if n := link.Counts.Verdicts[verdict].Load(); n != unnamed {
			t.Errorf("%s without a rule: %d, want %d", verdict, n, unnamed)
		}
		if a, s := link.Counts.Total(verdict); a != acted || s != shadowed {
			t.Errorf("%s: %d and %d in total, want %d and %d", verdict, a, s, acted, shadowed)
		}
	}
	wants(weir.Refuse, 2, 4, 1, map[string][2]uint64{"minute": {0, 1}, "month": {2, 0}})
	wants(weir.Admit, 1, 1, 0, map[string][2]uint64{"minute": {}, "month": {}})

	// A reload: what stays keeps its counts, what goes stays in the totals, even after further reloads.
	for _, r.rules = range [][]string{{"month", "year"}, {"month", "year"}, {"month", "day"}} {
		link.DeclareRules()
	}
	wants(weir.Refuse, 2, 4, 1, map[string][2]uint64{"month": {2, 0}, "day": {}})
}

// TestCountingWhileRulesChange: a verdict that is counted while a reload drops its rule is in the totals.
func TestCountingWhileRulesChange(t *testing.T) {
	const rounds, each = 20, 500
	var counts Counts
	for round := range rounds {
		counts.Declare([]string{"a", "b"})
		var all sync.WaitGroup
		for _, rule := range []string{"a", "b"} {
			all.Go(func() {
				for range each {
					counts.Of(rule, weir.Refuse).Verdicts[weir.Refuse].Add(1)
				}
			})
		}
		all.Go(func() { counts.Declare([]string{"a"}) })
		all.Wait()
		if n, _ := counts.Total(weir.Refuse); n != uint64(round+1)*2*each {
			t.Fatalf("%d of %d", n, (round+1)*2*each)
		}
	}
}

func TestCountingRefusalsAllocatesNothing(t *testing.T) {
	r := &ruled{rules: []string{"minute"}}
	r.answer = weir.Answer{Verdict: weir.Refuse, Figure: weir.Figure{Rule: "minute"}}
	c, err := New([]*Link{NewLink("plans", r, Closed)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, ev := new(Pass), &weir.Event{Time: start}
	if n := testing.AllocsPerRun(1000, func() { c.Judge(context.Background(), ev, p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
