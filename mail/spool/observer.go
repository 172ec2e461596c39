package spool

import (
	"time"

	"weir/throttle/reach"
)

// An Observer is told what becomes of messages. Its methods are called from many goroutines and must not block. n is a
// number of recipients.
type Observer interface {
	Accepted(gate, user string, r Receipt)
	// Decided: a message of so many recipients that another server keeps was judged.
	Decided(gate, user string, v Verdict, n int)
	// Delivered: a message was handed on, so long after it became ready for the first time.
	Delivered(gate string, n int, after time.Duration)
	// Deferred: a message was not taken, and is tried again.
	Deferred(gate string, n int)
	// Failed: a message was refused permanently, or given up.
	Failed(gate string, n int)
	// Bounced: a sender was told of a failure.
	Bounced(gate string)
	// Ambiguous: it is unknown whether a message was delivered.
	Ambiguous(gate string, n int)
	Stopped(throttle string)
	// Untold: a user was stopped who has no contact, and so was not told.
	Untold(throttle string)
	Resumed(throttle string)
	// Flagged: a reach throttle has flagged a user.
	Flagged(throttle string)
	// Reached: a reach throttle has judged a message.
	Reached(throttle, user string, v reach.Verdict, shadow bool)
	// Reminded: a user, or the admin in their place, was reminded of held messages.
	Reminded(gate string)
	// Expired: held messages that nobody released were given up.
	Expired(gate string, n int)
	Released(n int)
	Deleted(n int)
	// Bounded: something reached a bound, one of the Bound names.
	Bounded(bound string)
}

// The bounds. No message is lost at any of them: one that does not fit waits in the store, and the store refuses
// stopped users who are not in memory. Failures that are not reported are in the audit log.
const (
	BoundQueue      = "queue"      // messages that wait for a worker
	BoundBytes      = "bytes"      // of texts in memory
	BoundStopped    = "stopped"    // stopped users in memory
	BoundFlagged    = "flagged"    // flagged users in memory
	BoundWithheld   = "withheld"   // recipients or bytes that are withheld of a user
	BoundRecipients = "recipients" // of a message
	BoundWaiting    = "waiting"    // recipients in the delay queue of a user
	BoundNulls      = "nulls"      // messages of a user without a sender
	BoundHelp       = "help"       // answers to replies without a command
	BoundBounces    = "bounces"    // bounces to senders that are not known to be the user's
	BoundStamps     = "stamps"     // spent stamps that are remembered: no further one is taken
	BoundExpired    = "expired"    // held messages that are given up in an hour: others are an hour later
	BoundReminders  = "reminders"  // users who are reminded in an hour: others are an hour later
)

// BoundNames lists what Observer.Bounded may be told.
var BoundNames = [...]string{BoundQueue, BoundBytes, BoundStopped, BoundFlagged, BoundWithheld, BoundRecipients,
	BoundWaiting, BoundNulls, BoundHelp, BoundBounces, BoundStamps, BoundExpired, BoundReminders}

// Nobody ignores everything. Embed it to observe a part.
type Nobody struct{}

var _ Observer = Nobody{}

// Accepted does nothing, like the other methods.
func (Nobody) Accepted(string, string, Receipt)            {}
func (Nobody) Decided(string, string, Verdict, int)        {}
func (Nobody) Delivered(string, int, time.Duration)        {}
func (Nobody) Deferred(string, int)                        {}
func (Nobody) Failed(string, int)                          {}
func (Nobody) Bounced(string)                              {}
func (Nobody) Ambiguous(string, int)                       {}
func (Nobody) Stopped(string)                              {}
func (Nobody) Untold(string)                               {}
func (Nobody) Resumed(string)                              {}
func (Nobody) Flagged(string)                              {}
func (Nobody) Reached(string, string, reach.Verdict, bool) {}
func (Nobody) Reminded(string)                             {}
func (Nobody) Expired(string, int)                         {}
func (Nobody) Released(int)                                {}
func (Nobody) Deleted(int)                                 {}
func (Nobody) Bounded(string)                              {}
