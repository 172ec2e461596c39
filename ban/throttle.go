package ban

import (
	"context"

	"weir"
)

var _ weir.Throttle = (*List)(nil)

// Rule is the rule that answers name when somebody is banned.
const Rule = "banned"

// Judge refuses the events of clients and networks that are on the list, until their ban is over. The account of an event is taken for
// the id of its client; where there is none, as at a door, the source alone decides. It takes nothing.
func (l *List) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	l.Peek(ev, a)
	return nil
}

// Peek answers as Judge does.
func (l *List) Peek(ev *weir.Event, a *weir.Answer) {
	i := l.find(ev.Account, ev.Source, ev.Time)
	if i == nil {
		return
	}
	a.Verdict, a.Until = weir.Refuse, i.ban.Until
	a.Figure = weir.Figure{Rule: Rule, Reset: i.ban.Until}
}

// Settle has nothing to give back.
func (*List) Settle(weir.Hold, weir.Outcome) {}
