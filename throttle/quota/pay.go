package quota

import (
	"context"
	"time"

	"weir"
)

// Over a limit with over: stamp, an event that pays goes on beside the limit: nothing is charged to the limit, and
// nothing is given back when the event does not go on. So payers change nothing for those who do not pay. If payers
// were charged, each payment would put off the time when none is needed. If they were given back what they were not
// charged, a request that fails would be a free one. All other rules hold and are charged.

// pays reports whether a payment lets an event go on. Nobody is let off for being free of stamps: a limit is no stamp.
func pays(p weir.Paid) bool { return p.Work > 0 && p.Fault == weir.NoReason }

// pay opens the purse of an event that is over a limit, and reports whether it holds enough. No shard is locked: to
// look at a stamp may take long.
func (q *Quota) pay(ctx context.Context, ev *weir.Event, a *weir.Answer) bool {
	switch paid := ev.Purse.Open(ctx, ev); {
	case pays(paid):
		a.Clear()
		return true
	case paid.Fault == weir.Overload: // the stamp may be good: whoever brought it needs not make another one
		a.Verdict, a.Reason, a.Until = weir.Refuse, weir.Overload, ev.Time.Add(lookAgain)
	}
	return false
}

// lookAgain is when somebody may have the time to look at a stamp, or an engine and other nodes may be back; those who
// wait for the latter are spread over lookAgainSpread more.
const (
	lookAgain       = time.Second
	lookAgainSpread = 2 * time.Second
)

// unpin lets go of an account that somebody came back to.
func (a *account) unpin() {
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	a.pins--
}

// ask asks for a stamp by the rule last checked, or passes it when there is one.
func (b *bill) ask(r *rule, a *weir.Answer, until int64) {
	if !b.paid {
		b.worsen(a, weir.Challenge, weir.Unpaid, until)
		return
	}
	b.short(a)
	b.mask &^= r.bit
	b.free |= 1 << (len(a.Figures) - 1 - b.before)
}
