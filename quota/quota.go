package quota

import (
	"context"
	"time"

	"weir"
)

// Quota is the throttle.
type Quota struct{}

// New returns a quota.
func New(o Options, now time.Time) (*Quota, error) { panic("soon") }

// Configure changes the options and keeps the counters; on an error nothing is changed.
func (q *Quota) Configure(o Options, now time.Time) error { panic("soon") }

func (q *Quota) Judge(ctx context.Context, ev *weir.Event, a *weir.Answer) error { panic("soon") }
func (q *Quota) Settle(h weir.Hold, o weir.Outcome)                              { panic("soon") }
func (q *Quota) Peek(ev *weir.Event, a *weir.Answer)                             { panic("soon") }
func (q *Quota) Enter(h *weir.Hold, now time.Time, a *weir.Answer)               { panic("soon") }
func (q *Quota) Flow(h weir.Hold, n int64, now time.Time) time.Time              { panic("soon") }
func (q *Quota) Advance(now time.Time) time.Time                                 { panic("soon") }
func (q *Quota) Alarm(f func(time.Time))                                         { panic("soon") }

// Account returns the state of one account; false when nothing is known of it.
func (q *Quota) Account(name string, now time.Time) (AccountState, bool) { panic("soon") }

// Reset forgets what an account has used; false when nothing is known of it.
func (q *Quota) Reset(name string, now time.Time) bool { panic("soon") }

// Stats returns the size of the table.
func (q *Quota) Stats() Stats { panic("soon") }

// Retire lets everybody go who waits; for a quota that is no longer configured.
func (q *Quota) Retire(now time.Time) { panic("soon") }

// AccountState is what a quota knows of one account.
type AccountState struct {
	Account  string        `json:"account"`
	Plan     string        `json:"plan,omitempty"`
	Rules    []weir.Figure `json:"rules"`
	Waiting  int           `json:"waiting"`
	UnderWay int           `json:"under_way"`
}

// Stats is the size of a quota's table.
type Stats struct {
	Accounts  int    `json:"accounts"`
	Waiting   int    `json:"waiting"`
	Strangers uint64 `json:"strangers"` // events of accounts beyond the table's bound, since the start
}
