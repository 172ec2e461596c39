package rlsgate

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"weir"
	"weir/policy"
)

// A counter is a throttle that counts rules with the same limit.
type counter struct {
	rule Rule
	link *policy.Link
	plan string
}

// counters are the counters of one setup. Those of overrides are made when they are first needed.
type counters struct {
	limit func(Rule) (*policy.Link, error)
	made  sync.Map // Rule → *counter

	mu        sync.Mutex
	overrides int // how many were made for overrides
}

// get returns the counter of a rule, and makes it if there is none.
func (c *counters) get(r Rule) (*counter, error) {
	if known, ok := c.made.Load(r); ok {
		return known.(*counter), nil
	}
	if c.limit == nil {
		return nil, fmt.Errorf("nobody counts %s", r)
	}
	link, err := c.limit(r)
	if err != nil {
		return nil, err
	}
	made, _ := c.made.LoadOrStore(r, &counter{rule: r, link: link, plan: r.Plan()})
	return made.(*counter), nil
}

// override returns the counter of an override: a limit that came with the request. It makes at most so many of them. If
// that many exist, full is true and made is nil.
func (c *counters) override(r Rule, most int) (made *counter, full bool, err error) {
	if known, ok := c.made.Load(r); ok {
		return known.(*counter), false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.made.Load(r); ok {
		return known.(*counter), false, nil
	}
	if c.overrides >= most {
		return nil, true, nil
	}
	if made, err = c.get(r); err == nil {
		c.overrides++
	}
	return made, false, err
}

// errUncounted means that it is not known what has been used.
var errUncounted = errors.New("the engine of exact limits is lost")

// fills is how often a hit that does not fit tries to use up what is left, while other requests do the same.
const fills = 8

// hit charges hits to an account, as envoyproxy/ratelimit does: hits beyond the limit count too, until the window ends.
// With 0 hits it charges nothing. It returns how much of the limit is left, and whether the limit is exceeded.
func (c *counter) hit(ctx context.Context, ev *weir.Event, a *weir.Answer, hits uint64) (left uint32, over bool,
	err error) {
	ev.Plan = c.plan
	room := c.rule.Room()
	if hits == 0 {
		ev.Cost = 1
		a.Clear()
		c.link.Throttle.Peek(ev, a)
		if a.Verdict == weir.Refuse && a.Reason == weir.Overload {
			return 0, false, errUncounted
		}
		// Peek says what would be left of the room after a charge of 1, which is what is left of the limit now.
		return clamp(remaining(a)), a.Verdict != weir.Admit, nil
	}
	ev.Cost = int64(min(hits, uint64(room)+1)) // room+1 is already too much
	for range fills {
		a.Clear()
		if err := c.link.Throttle.Judge(ctx, ev, a); err != nil {
			return 0, false, err
		}
		if a.Verdict == weir.Refuse && a.Reason == weir.Overload {
			return 0, false, errUncounted
		}
		if !a.Hold.IsZero() {
			c.link.Throttle.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: a.Verdict == weir.Admit})
		}
		rest := remaining(a)
		if a.Verdict == weir.Admit {
			if over || rest == 0 { // the room beyond the limit is taken
				return 0, true, nil
			}
			return clamp(rest - 1), false, nil
		}
		if over = true; rest == 0 {
			break
		}
		ev.Cost = rest
	}
	return 0, true, nil
}

// remaining is how much is left, as the throttle's answer says.
func remaining(a *weir.Answer) int64 {
	if len(a.Figures) > 0 {
		return a.Figures[0].Remaining
	}
	return a.Remaining
}
