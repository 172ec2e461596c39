package postfixgate

import (
	"errors"

	"weir/mail/spool"
)

// An Action is what Postfix is told to do.
type Action string

// The actions. See access(5).
const (
	ActionDunno   Action = "DUNNO"           // go on
	ActionPrepend Action = "PREPEND"         // go on, marked
	ActionFilter  Action = "FILTER"          // divert
	ActionHold    Action = "HOLD"            // keep
	ActionDefer   Action = "DEFER"           // refuse for now
	ActionDoubt   Action = "DEFER_IF_PERMIT" // refuse for now, unless another restriction refuses permanently
	ActionReject  Action = "REJECT"          // refuse
)

// Actions lists all of them.
var Actions = [...]Action{ActionDunno, ActionPrepend, ActionFilter, ActionHold, ActionDefer, ActionDoubt, ActionReject}

// An answer is an action with its text. The zero value is none.
type answer struct {
	action Action
	text   string
}

// append writes the answer as Postfix reads it.
func (a answer) append(b []byte) []byte {
	b = append(append(b, "action="...), a.action...)
	if a.text != "" {
		b = append(append(b, ' '), a.text...)
	}
	return append(b, "\n\n"...)
}

// ends reports whether Postfix asks nothing more about a message after the answer.
func (a answer) ends() bool {
	return a.action == ActionDefer || a.action == ActionReject || a.action == ActionDoubt
}

// The answers. Their texts tell clients of Postfix what happened and what to do.
var (
	dunno      = answer{action: ActionDunno}
	held       = answer{ActionHold, "is held: more new recipients than this user may reach for now"}
	overDefer  = answer{ActionDefer, "4.7.1 You write to more new recipients than you may for now; try again later"}
	overReject = answer{ActionReject, "5.7.1 You write to more new recipients than you may for now; try again later"}
	tooMany    = answer{ActionReject, "5.5.3 Too many recipients"}
	limited    = answer{ActionDefer, "4.7.1 You have used up what you may send for now; try again later"}
	banned     = answer{ActionReject, "5.7.1 You may not send to this recipient"}
	failed     = answer{ActionDoubt, "4.3.0 The mail cannot be judged right now; try again later"}
	bounded    = answer{ActionDoubt, "4.5.3 Too many messages or recipients at once; try again later"}
)

// refusing refuses a user who is stopped or flagged, or sends too many messages without a sender. It is empty for other
// errors.
func refusing(err error) answer {
	r, known := errors.AsType[*spool.Refusal](err)
	switch {
	case !known:
		return answer{}
	case r.Later:
		return answer{ActionDefer, "4.7.1 " + r.Text}
	}
	return answer{ActionReject, "5.7.1 " + r.Text}
}

// or returns an answer if doubt defers, and else lets pass.
func (d Doubt) or(a answer) answer {
	if d == DoubtPass {
		return dunno
	}
	return a
}
