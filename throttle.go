package weir

import (
	"context"
	"time"
)

// A Throttle judges events. It is safe for concurrent use; it never sleeps and never reads the clock.
type Throttle interface {
	// Judge decides about ev and takes what it grants; a.Hold says what, and goes to Settle exactly once unless it is
	// zero. A refusal takes nothing. The answer comes in cleared; figures are appended. An error is not a verdict: the
	// policy decides what a failing throttle means.
	Judge(ctx context.Context, ev *Event, a *Answer) error
	// Settle ends a hold: the event is done, or what was taken is given back. A waiting event leaves the line.
	Settle(h Hold, o Outcome)
	// Peek answers as Judge would and takes nothing: to explain, and for throttles in shadow.
	Peek(ev *Event, a *Answer)
}

// A Prompter says whether Judge answers from memory: it asks nobody over a network, and opens no purse. Whoever has
// more to do than to wait for an answer then judges on the spot. A throttle that is not a Prompter may take its time.
type Prompter interface {
	Prompt() bool
}

// A ConcurrencyLimiter also limits how much is under way at once. Such a place is taken last, after all waits.
type ConcurrencyLimiter interface {
	// Enter takes the place for a hold with Hold.Enter. It may answer Wait or Refuse; Settle ends the hold either way.
	Enter(h *Hold, now time.Time, a *Answer)
}

// A Sequencer calls those who wait one after the other: the next one when the one before it is on its way, so that they
// arrive in order. It does not wait for ever for an event that does not go on.
type Sequencer interface {
	// Away says that an event whose turn was called is on its way. Settle says so too.
	Away(h Hold, now time.Time)
}

// A Meter also charges bytes as they flow.
type Meter interface {
	// Flow charges n bytes to a hold and returns until when the flow should pause; zero means not at all.
	Flow(h Hold, n int64, now time.Time) time.Time
}

// A Rationer is a Meter that is asked before bytes flow, so that any number of flows together keep to the limit.
type Rationer interface {
	Meter
	// Rations reports whether any limit of the throttle is one on bytes.
	Rations() bool
	// Ask charges up to most bytes to a hold before they flow, and returns how many. Where it is none, again is when to
	// ask again: a flow may wait for a packet's worth. The whole is granted or not, without a wait; again is zero.
	Ask(h Hold, most int64, whole bool, now time.Time) (granted int64, again time.Time)
	// Return gives back bytes that were asked for at a time and did not flow.
	Return(h Hold, n int64, asked, now time.Time)
}

// A Clocked throttle has work that falls due by itself, such as calling the next in line.
type Clocked interface {
	// Advance does what is due at now and returns when something is due next; zero means nothing is.
	Advance(now time.Time) time.Time
	// Alarm registers the function that is called when something falls due earlier than Advance said. It must not
	// block.
	Alarm(func(due time.Time))
}

// A Maker is the options of a throttle that is made of nothing else. A field of config.Throttle that points to a Maker
// is a mechanism that can be configured.
type Maker interface {
	Validate() error
	Make(now time.Time) (Throttle, error)
	// Renew gives these options to a throttle that others of the same type made, which keeps what it has counted. On an
	// error the throttle goes on as before. A throttle that must let go of those who wait in it when it is no longer
	// used has a method Retire(now time.Time).
	Renew(t Throttle, now time.Time) error
}
