package spool

import (
	"time"

	"weir/throttle/reach"
)

// An Observer is told what becomes of mail. Its methods are called from many goroutines and must not block. Numbers are
// of recipients.
type Observer interface {
	Accepted(gate string, r Receipt)
	// Decided tells what was said about a mail that another server keeps, and to how many recipients it was.
	Decided(gate string, v Verdict, n int)
	// Delivered tells that a mail was handed on, and how long after it could have been for the first time.
	Delivered(gate string, n int, after time.Duration)
	// Deferred tells that a mail was not taken, and is tried again.
	Deferred(gate string, n int)
	// Failed tells that a mail was refused for good, or given up.
	Failed(gate string, n int)
	// Bounced tells that a sender was told about it.
	Bounced(gate string)
	// Ambiguous tells that it is unknown whether a mail was delivered.
	Ambiguous(gate string, n int)
	Stopped(throttle string)
	Resumed(throttle string)
	// Flagged tells that a reach throttle has flagged a user.
	Flagged(throttle string)
	// Reached tells what a reach throttle said about a message, and whether it was in shadow.
	Reached(throttle string, v reach.Verdict, shadow bool)
	Released(n int)
	Deleted(n int)
	// Bounded tells that something reached a bound, one of the Bound names.
	Bounded(bound string)
}

// What Observer.Bounded is told. No mail is lost at any of them: one that does not fit waits in the store, and a
// stopped user who is not known in memory is refused by the store. Failures that are not reported are in the audit log.
const (
	BoundQueue      = "queue"      // of mails that wait for a worker
	BoundBytes      = "bytes"      // of texts in memory
	BoundStopped    = "stopped"    // users known to be stopped
	BoundFlagged    = "flagged"    // users known to be flagged
	BoundWithheld   = "withheld"   // what is withheld of a user
	BoundRecipients = "recipients" // of a mail
	BoundWaiting    = "waiting"    // recipients in the delay queue of a user
	BoundNulls      = "nulls"      // messages of a server without a sender
	BoundHelp       = "help"       // answers to a reply that says nothing
	BoundBounces    = "bounces"    // notifications to senders that are not known to be the user's
	BoundStamps     = "stamps"     // spent stamps that are remembered: no further one is taken
)

// BoundNames lists what Observer.Bounded may be told.
var BoundNames = [...]string{BoundQueue, BoundBytes, BoundStopped, BoundFlagged, BoundWithheld, BoundRecipients,
	BoundWaiting, BoundNulls, BoundHelp, BoundBounces, BoundStamps}

// Nobody observes nothing. Embed it to observe a part.
type Nobody struct{}

var _ Observer = Nobody{}

// Accepted does nothing, like the other methods.
func (Nobody) Accepted(string, Receipt)             {}
func (Nobody) Decided(string, Verdict, int)         {}
func (Nobody) Delivered(string, int, time.Duration) {}
func (Nobody) Deferred(string, int)                 {}
func (Nobody) Failed(string, int)                   {}
func (Nobody) Bounced(string)                       {}
func (Nobody) Ambiguous(string, int)                {}
func (Nobody) Stopped(string)                       {}
func (Nobody) Resumed(string)                       {}
func (Nobody) Flagged(string)                       {}
func (Nobody) Reached(string, reach.Verdict, bool)  {}
func (Nobody) Released(int)                         {}
func (Nobody) Deleted(int)                          {}
func (Nobody) Bounded(string)                       {}
