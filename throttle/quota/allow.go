package quota

import (
	"context"
	"time"

	"weir"
)

// Allow reports whether one event of an account may go on now, and charges it if so. It is AllowN(now, account, 1).
//
// Most programs want Allow or AllowN and nothing else of a Quota. Judge is for those that also want to know why and
// until when an event is refused, to let it wait, to give it back, or to hold a place of kind concurrent.
func (q *Quota) Allow(now time.Time, account string) bool { return q.AllowN(now, account, 1) }

// AllowN reports whether an event that costs n requests may go on now, and charges every policy if so. A refusal
// charges none. What is allowed counts as done: it cannot be given back. An n below 1 counts as 1.
//
// Nobody waits and nobody pays: an event that Judge would delay or challenge is refused. A policy of kind concurrent
// refuses when events of Judge hold all its places; AllowN holds none. Events have no method, host or path to match.
//
// AllowN is safe for concurrent use. It allocates nothing for an account that is known, under policies that do not
// delay.
func (q *Quota) AllowN(now time.Time, account string, n int64) bool {
	a, _ := q.answers.Get().(*weir.Answer)
	if a == nil {
		a = new(weir.Answer)
	}
	_ = q.Judge(context.Background(), &weir.Event{Time: now, Account: account, Cost: n}, a) // it never fails
	if a.Hold.Enter && a.Verdict == weir.Admit {
		q.Enter(&a.Hold, now, a)
	}
	allowed := a.Verdict == weir.Admit
	if !a.Hold.IsZero() {
		q.Settle(a.Hold, weir.Outcome{Time: now, Done: allowed})
	}
	a.Clear()
	q.answers.Put(a)
	return allowed
}
