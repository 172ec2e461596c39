package ban

import (
	"context"

	"weir"
)

var (
	_ weir.Throttle = (*List)(nil)
	_ weir.Prompter = (*List)(nil)
)

// The rules that answers name: who is banned, the client or its network.
const (
	RuleClient  = "client"
	RuleNetwork = "network"
)

// Rules lists the rules that answers name.
func (*List) Rules() []string { return []string{RuleClient, RuleNetwork} }

// Prompt reports true: the list is in memory.
func (*List) Prompt() bool { return true }

// Judge refuses the events of clients and networks that are on the list, until their ban is over. Where there is no
// client, as at a door, the source alone decides.
func (l *List) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	l.Peek(ev, a)
	return nil
}

// Peek answers as Judge does.
func (l *List) Peek(ev *weir.Event, a *weir.Answer) {
	i := l.find(ev)
	if i == nil {
		return
	}
	rule := RuleNetwork
	if i.ban.Client != "" {
		rule = RuleClient
	}
	a.Verdict, a.Reason, a.Until = weir.Refuse, weir.Banned, i.ban.Until
	a.Figure = weir.Figure{Rule: rule, Reset: i.ban.Until}
}

// Settle has nothing to give back.
func (*List) Settle(weir.Hold, weir.Outcome) {}
