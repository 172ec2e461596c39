// Package drip is a throttle that lets some events through and refuses all others.
package drip

import (
	"context"
	"sync/atomic"
	"time"

	"weir"
)

// Options say how many events may go on.
type Options struct {
	// How many events may go on until the options change.
	First int64 `yaml:"first"`
}

// Validate returns the mistakes.
func (o Options) Validate() error {
	if o.First < 0 {
		return &weir.FieldError{Path: "first", Msg: "less than none"}
	}
	return nil
}

// Make implements weir.Maker.
func (o Options) Make(time.Time) (weir.Throttle, error) {
	d := new(drip)
	return d, o.Renew(d, time.Time{})
}

// Renew implements weir.Maker.
func (o Options) Renew(t weir.Throttle, _ time.Time) error {
	t.(*drip).left.Store(o.First)
	return nil
}

type drip struct{ left atomic.Int64 }

func (d *drip) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	d.Peek(ev, a)
	d.left.Add(-1)
	return nil
}

func (d *drip) Peek(_ *weir.Event, a *weir.Answer) {
	if d.left.Load() <= 0 {
		a.Verdict = weir.Refuse
	}
}

func (d *drip) Settle(weir.Hold, weir.Outcome) {}
