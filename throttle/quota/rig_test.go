package quota

import (
	"context"
	"slices"
	"testing"
	"time"

	"weir"
)

// epoch is where the tests begin: on the border of every period up to a day.
var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A rig is a quota with a clock in the test's hand.
type rig struct {
	t    *testing.T
	q    *Quota
	now  time.Time
	due  time.Time // as Alarm and Advance say
	next int       // number of the next event
	line []*event  // those that wait
}

type event struct {
	n      int
	answer weir.Answer
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, q: q, now: epoch}
	q.Alarm(func(due time.Time) {
		if r.due.IsZero() || due.Before(r.due) {
			r.due = due
		}
	})
	return r
}

// judge sends one event and lets it in if there is room.
func (r *rig) judge(ev weir.Event) *event {
	r.t.Helper()
	ev.Time = r.now
	e := &event{n: r.next}
	r.next++
	if err := r.q.Judge(context.Background(), &ev, &e.answer); err != nil {
		r.t.Fatal(err)
	}
	r.enter(e)
	if e.answer.Verdict == weir.Wait {
		r.line = append(r.line, e)
	}
	return e
}

func (r *rig) enter(e *event) {
	if e.answer.Verdict == weir.Admit && e.answer.Hold.Enter {
		h := e.answer.Hold
		r.q.Enter(&h, r.now, &e.answer)
		e.answer.Hold = h
	}
}

func (r *rig) ask(account string) *event { r.t.Helper(); return r.judge(weir.Event{Account: account}) }

func (r *rig) settle(e *event, done bool) {
	r.q.Settle(e.answer.Hold, weir.Outcome{Time: r.now, Done: done})
	r.line = slices.DeleteFunc(r.line, func(w *event) bool { return w == e })
}

// called returns the numbers of those whose turn has come since it was last asked, and sends them on their way.
func (r *rig) called() (granted []int) {
	for {
		now := r.callOnce()
		if granted = append(granted, now...); now == nil {
			return granted
		}
	}
}

func (r *rig) callOnce() (granted []int) {
	for _, e := range slices.Clone(r.line) {
		select {
		case <-e.answer.Turn.Called():
			r.line = slices.DeleteFunc(r.line, func(w *event) bool { return w == e })
			if why := e.answer.Turn.Refused(); why != weir.NoReason {
				e.answer.Verdict, e.answer.Reason = weir.Refuse, why
				r.settle(e, false)
				continue
			}
			e.answer.Verdict = weir.Admit
			r.enter(e)
			if e.answer.Verdict == weir.Wait {
				r.line = append(r.line, e)
				continue
			}
			granted = append(granted, e.n)
			r.q.Away(e.answer.Hold, r.now)
		default:
		}
	}
	return granted
}

// advance moves the clock by d, stopping whenever something is due, and returns who was called when.
func (r *rig) advance(d time.Duration) map[time.Duration][]int {
	r.t.Helper()
	calls := map[time.Duration][]int{}
	end := r.now.Add(d)
	for {
		if r.due.IsZero() || r.due.After(end) {
			break
		}
		if r.due.After(r.now) {
			r.now = r.due
		}
		r.due = time.Time{}
		if next := r.q.Advance(r.now); !next.IsZero() && (r.due.IsZero() || next.Before(r.due)) {
			if !next.After(r.now) {
				r.t.Fatalf("at %s Advance says that something is due at %s", r.now, next)
			}
			r.due = next
		}
		if c := r.called(); c != nil {
			calls[r.now.Sub(epoch)] = append(calls[r.now.Sub(epoch)], c...)
		}
	}
	r.now = end
	return calls
}

// inOrder flattens calls in the order of time.
func inOrder(calls map[time.Duration][]int) (all []int) {
	var times []time.Duration
	for at := range calls {
		times = append(times, at)
	}
	slices.Sort(times)
	for _, at := range times {
		all = append(all, calls[at]...)
	}
	return all
}

func (r *rig) want(e *event, v weir.Verdict, why weir.Reason) *event {
	r.t.Helper()
	if e.answer.Verdict != v || (v == weir.Refuse && e.answer.Reason != why) {
		r.t.Fatalf("event %d: got %s, want %s (%s)", e.n, e.answer.Explain(), v, why)
	}
	return e
}

func (r *rig) admit(account string) *event {
	r.t.Helper()
	return r.want(r.ask(account), weir.Admit, 0)
}
func (r *rig) wait(account string) *event { r.t.Helper(); return r.want(r.ask(account), weir.Wait, 0) }
func (r *rig) refuse(account string, why weir.Reason) *event {
	r.t.Helper()
	return r.want(r.ask(account), weir.Refuse, why)
}

func perSecond(limit int64) Policy {
	return Policy{Name: "per-second", Limit: Count(limit), Period: weir.Period{Length: time.Second}}
}

func delayed(p Policy, max int, maxWait time.Duration) Policy {
	p.Over, p.Delay = OverDelay, Delay{max, weir.Duration(maxWait)}
	return p
}

func one(p ...Policy) Options { return Options{Policies: p} }
