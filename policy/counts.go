package policy

import (
	"cmp"
	"iter"
	"sync"
	"sync/atomic"

	"weir"
)

// A Ruled throttle has rules that its answers name in Figure.Rule. A reload may change them.
type Ruled interface {
	// Rules lists the names. There are as many as the configuration has, never one per client.
	Rules() []string
}

// A Tally counts verdicts.
type Tally struct {
	Verdicts [len(weir.Verdicts)]atomic.Uint64 // by verdict, as acted upon
	Shadowed [len(weir.Verdicts)]atomic.Uint64 // by verdict, in shadow: nothing was done
}

// Counts are the verdicts that a throttle has given since the start. The zero value is ready and knows no rules. It is
// safe for concurrent use; counting allocates nothing.
type Counts struct {
	Tally   // admissions, and verdicts that no declared rule gave
	Errors  atomic.Uint64
	Expired atomic.Uint64 // waits that ended without a turn

	rules atomic.Pointer[ruleCounts]
}

// ruleCounts are the tallies of the rules of one configuration. They do not change; Declare makes new ones.
type ruleCounts struct {
	named map[string]*Tally
	gone  []*Tally // of rules that the last Declare dropped; a verdict that was being counted then still lands here
	past  [2][len(weir.Verdicts)]uint64
}

// Declare says which rules are counted apart from now on. Rules that stay keep their counts. Those of dropped rules
// remain in the totals.
func (c *Counts) Declare(rules []string) {
	old := c.rules.Load()
	if old == nil {
		old = &ruleCounts{}
	}
	next := &ruleCounts{named: make(map[string]*Tally, len(rules)), past: old.past}
	for _, t := range old.gone {
		for v := range weir.Verdicts {
			next.past[0][v] += t.Verdicts[v].Load()
			next.past[1][v] += t.Shadowed[v].Load()
		}
	}
	for _, rule := range rules {
		if rule != "" {
			next.named[rule] = cmp.Or(old.named[rule], new(Tally))
		}
	}
	for rule, t := range old.named {
		if next.named[rule] == nil {
			next.gone = append(next.gone, t)
		}
	}
	c.rules.Store(next)
}

// Of returns the tally of a verdict by a rule. Admissions have no rule, and rules that are not declared share one
// tally.
func (c *Counts) Of(rule string, v weir.Verdict) *Tally {
	if v == weir.Admit {
		return &c.Tally
	}
	if r := c.rules.Load(); r != nil && r.named[rule] != nil {
		return r.named[rule]
	}
	return &c.Tally
}

// ByRule yields the declared rules and their tallies.
func (c *Counts) ByRule() iter.Seq2[string, *Tally] {
	return func(yield func(string, *Tally) bool) {
		if r := c.rules.Load(); r != nil {
			for rule, t := range r.named {
				if !yield(rule, t) {
					return
				}
			}
		}
	}
}

// Total returns how often a verdict was given by any rule: as acted upon, and in shadow.
func (c *Counts) Total(v weir.Verdict) (acted, shadowed uint64) {
	acted, shadowed = c.Verdicts[v].Load(), c.Shadowed[v].Load()
	r := c.rules.Load()
	if r == nil {
		return acted, shadowed
	}
	add := func(t *Tally) {
		acted += t.Verdicts[v].Load()
		shadowed += t.Shadowed[v].Load()
	}
	for _, t := range r.named {
		add(t)
	}
	for _, t := range r.gone {
		add(t)
	}
	return acted + r.past[0][v], shadowed + r.past[1][v]
}

// A Switch takes a throttle into shadow and out of it. The zero value is off. It is safe for concurrent use.
type Switch struct {
	on atomic.Bool

	mu   sync.Mutex
	goes chan struct{} // closed while it is on; nil where nobody waits for that
}

// Load reports whether the throttle is in shadow.
func (s *Switch) Load() bool { return s.on.Load() }

// Store turns the switch. Events that wait because of the throttle go on when it is turned on.
func (s *Switch) Store(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on.Swap(on) == on || s.goes == nil {
		return
	}
	if on {
		close(s.goes)
	} else {
		s.goes = nil
	}
}

// Goes returns a channel that is closed as soon as the throttle is in shadow.
func (s *Switch) Goes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.goes == nil {
		if s.goes = make(chan struct{}); s.on.Load() {
			close(s.goes)
		}
	}
	return s.goes
}
