package weir

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Verdict is what is decided about an event. A greater one is more severe.
type Verdict uint8

const (
	Admit     Verdict = iota // go on now
	Wait                     // go on when the turn comes
	Challenge                // go on after paying
	Refuse                   // do not go on
)

// Verdicts lists all of them, in rising severity.
var Verdicts = [...]Verdict{Admit, Wait, Challenge, Refuse}

var verdictNames = [...]string{"admit", "wait", "challenge", "refuse"}

func (v Verdict) String() string { return Name(verdictNames[:], v, "verdict") }

func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

func (v *Verdict) UnmarshalText(text []byte) error { return named(v, verdictNames[:], text, "verdict") }

// A Reason says why an event does not go on at once.
type Reason uint8

const (
	NoReason     Reason = iota
	OverLimit           // a limit is used up
	LineFull            // as many as may wait are waiting
	WaitTooLong         // the turn would come later than the longest wait allowed
	NoAccount           // the event names no account, and that is not allowed
	TooCostly           // it costs more than the limit will ever allow
	Overload            // the server cannot take more, whoever asks
	Failure             // a throttle failed and fails closed
	NoSource            // the event names no source, and sources are limited
	Banned              // it is on the block list
	Unpaid              // a stamp is asked for, and there is none
	NotPaying           // it keeps coming without a stamp
	Forged              // its stamp is not genuine, or wrongly solved
	Replayed            // its stamp has been used
	TooMany             // the client has as much under way or waiting as one may have
	NewRecipient        // the account is flagged, and the recipient is new to it
	Flagged             // the account is flagged, and nothing of it goes on
	NoRecipient         // the event names no recipient, and recipients are counted
	SharedLimit         // what unknown accounts share is used up
	BadKey              // what limits count it by is too long, or can be read in several ways
)

var reasonNames = [...]string{"", "over-limit", "line-full", "wait-too-long", "no-account", "too-costly", "overload",
	"failure", "no-source",
	"banned", "unpaid", "not-paying", "forged", "replayed", "too-many", "new-recipient", "flagged", "no-recipient",
	"shared-limit", "bad-key"}

func (r Reason) String() string { return Name(reasonNames[:], r, "reason") }

func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r *Reason) UnmarshalText(text []byte) error { return named(r, reasonNames[:], text, "reason") }

// Name returns the i-th of some names, or what(i) where there is none.
func Name[T ~uint8](names []string, i T, what string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", what, uint8(i))
}

// named sets a value to the index of a name.
func named[T ~uint8](into *T, names []string, text []byte, what string) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("unknown %s %q", what, text)
	}
	*into = T(i)
	return nil
}

// A Figure is the state of one rule as an event met it: the numbers behind a verdict.
type Figure struct {
	By        string    `json:"by"`        // the throttle, filled in by the policy
	Rule      string    `json:"rule"`      // the rule of that throttle
	Unit      string    `json:"unit"`      // what is counted: "requests", "bytes", "at once"
	Limit     int64     `json:"limit"`     // how much is allowed
	Remaining int64     `json:"remaining"` // how much is left, never negative
	Window    Window    `json:"window"`    // per how long; 0 for a level
	Reset     time.Time `json:"reset"`     // when something is left again; zero when that is not known
}

// An Answer is what a throttle, or a whole policy, says about an event. It carries numbers; text is rendered only when
// somebody reads it. The zero value admits. An Answer may be used again after Clear, which keeps the memory of Figures.
type Answer struct {
	Verdict Verdict
	Reason  Reason
	Figure  // the rule that decided, where one did
	// Wait: when the turn is expected. Refuse: not worth coming back before. Zero when that is not known.
	Until   time.Time
	Turn    *Turn    // Wait: the place in line
	Ban     bool     // Refuse: the client belongs on the block list
	Hold    Hold     // what was taken; to be settled unless it is zero
	Figures []Figure // every rule that the event met, for those who want to see how close it is
}

// Clear makes the answer an admission again.
func (a *Answer) Clear() { *a = Answer{Figures: a.Figures[:0]} }

// Explain says in a sentence what was decided, by which rule, and on what figures.
func (a *Answer) Explain() string {
	var b strings.Builder
	b.WriteString(a.Verdict.String())
	if a.Rule != "" || a.By != "" {
		fmt.Fprintf(&b, " by %s", strings.Trim(a.By+"/"+a.Rule, "/"))
	}
	if a.Reason != NoReason {
		fmt.Fprintf(&b, " (%s)", a.Reason)
	}
	if a.Limit > 0 {
		fmt.Fprintf(&b, ": %d of %d %s left", a.Remaining, a.Limit, a.Unit)
		if a.Window > 0 {
			fmt.Fprintf(&b, " per %s", a.Window)
		}
	}
	if !a.Until.IsZero() {
		fmt.Fprintf(&b, ", until %s", a.Until.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	return b.String()
}

// A Hold is what a throttle took for one event. Only the throttle that made it can read it; for everybody else it is a
// value to be handed back, exactly once, to Settle. The zero Hold means that nothing was taken.
type Hold struct {
	Ref   any    // a pointer, so that making a hold allocates nothing
	At    int64  // when it was taken, in nanoseconds since the epoch
	N     int64  // how much was taken
	A, B  uint64 // the throttle's own
	C     uint64 // the throttle's own
	V     uint32 // the version of its options that the throttle took it under
	Enter bool   // the throttle is a ConcurrencyLimiter and wants to be asked before the event goes on
}

// IsZero reports whether nothing was taken.
func (h *Hold) IsZero() bool { return h.Ref == nil }

// An Outcome says how an event ended.
type Outcome struct {
	Time time.Time
	Done bool // false: it did not go on, and what was taken is given back
	// Status is of the response, where the gate saw one; 0 elsewhere. What a gate answers itself is none.
	Status int
	Price  Price
}

// A Price is what an event turned out to cost, as its answer said. The zero value is for gates that see no answers.
type Price struct {
	Known Pricing
	N     int64 // with Priced, in requests; never below zero
}

// A Pricing says what is known of a price.
type Pricing uint8

const (
	Unseen     Pricing = iota // nobody looked
	Unanswered                // no answer came: the client left first, or the upstream failed
	Unpriced                  // the answer says nothing
	Priced                    // the answer says N
)

// A Turn is a place in a line. The throttle that made it calls it once; settling its hold leaves the line.
type Turn struct {
	called  chan struct{}
	refused Reason
}

// NewTurn returns a turn that has not been called.
func NewTurn() *Turn { return &Turn{called: make(chan struct{})} }

// Called is closed when the turn has come, or will not come any more.
func (t *Turn) Called() <-chan struct{} { return t.called }

// Grant calls the turn: whoever waits may go on.
func (t *Turn) Grant() { close(t.called) }

// Refuse calls the turn off, for the reason given.
func (t *Turn) Refuse(why Reason) { t.refused = why; close(t.called) }

// Refused is why the turn was called off, or NoReason when it was granted. It may be read once Called is closed.
func (t *Turn) Refused() Reason { return t.refused }
