package payer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weir"
	"weir/throttle/stamp"
)

// DefaultMaxTime is how long a stamp may take by default.
const DefaultMaxTime = 30 * time.Second

// swiftest is how many phones the fastest machine is worth. A stamp that would take even that one too long is not
// begun.
const swiftest = 10_000

// ErrTooDear is what a TooDearError is.
var ErrTooDear = errors.New("payer: too expensive")

// A TooDearError says that a stamp would take, or took, longer than allowed. It is ErrTooDear.
type TooDearError struct {
	Algorithm stamp.Algorithm
	Work      stamp.Work    // that is asked for, for each stamp
	Stamps    int           // how many
	MaxTime   time.Duration // that was allowed for all of them
}

func (e *TooDearError) Error() string {
	what := "a stamp"
	if e.Stamps > 1 {
		what = fmt.Sprintf("%d stamps", e.Stamps)
	}
	return fmt.Sprintf("payer: too expensive: %s of %s (%s) cannot be made within %s", what, e.Work, e.Algorithm,
		weir.Duration(e.MaxTime))
}

// Is makes it ErrTooDear.
func (e *TooDearError) Is(target error) bool { return target == ErrTooDear }

// Options say how to pay. The zero value works for up to 30 seconds, on all cores.
type Options struct {
	MaxTime time.Duration // 0: DefaultMaxTime
	Workers int           // 0: as many as there are cores
	// Progress is told now and then how many operations are done and how many are expected, by one worker at a time.
	Progress func(done, expected stamp.Work)
}

// A Payment is a stamp and what it took to make it.
type Payment struct {
	Stamp      string
	Algorithm  stamp.Algorithm
	Work       stamp.Work // that was asked for
	Operations stamp.Work // that were done, about
	Took       time.Duration
}

// Pay solves a challenge. A challenge that cannot be solved in time is a TooDearError: at once where that is clear, and
// otherwise when the time is over. Pay ends early, with the context's error, when ctx ends.
func Pay(ctx context.Context, challenge string, o Options) (Payment, error) {
	c, err := stamp.ParseChallenge(challenge)
	if err != nil {
		return Payment{}, err
	}
	p := Payment{Algorithm: c.Algorithm, Work: c.Work}
	// A stamp that is done after its challenge has expired is worth nothing.
	o.MaxTime = min(o.maxTime(), c.Lifetime)
	err = o.within(ctx, &p, 1, func(ctx context.Context, solve stamp.SolveOptions) error {
		p.Stamp, err = stamp.Solve(ctx, challenge, solve)
		return err
	})
	return p, err
}

func (o *Options) maxTime() time.Duration { return cmp.Or(max(o.MaxTime, 0), DefaultMaxTime) }

// within has n stamps made in the time that is allowed, and notes in p what they took.
func (o *Options) within(ctx context.Context, p *Payment, n int,
	work func(context.Context, stamp.SolveOptions) error) error {
	limit := o.maxTime()
	dear := &TooDearError{p.Algorithm, p.Work, n, limit}
	if float64(p.Work.Time(p.Algorithm))*float64(n)/swiftest > float64(limit) {
		return dear
	}
	inTime, cancel := context.WithTimeoutCause(ctx, limit, dear)
	defer cancel()
	began := time.Now()
	var done atomic.Uint64
	err := work(inTime, stamp.SolveOptions{Workers: o.Workers, Progress: func(d, expected stamp.Work) {
		done.Store(uint64(d))
		if o.Progress != nil {
			o.Progress(d, expected)
		}
	}})
	p.Took, p.Operations = time.Since(began), stamp.Work(done.Load())
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stamp.ErrTooHard), context.Cause(inTime) == dear && ctx.Err() == nil:
		return dear
	}
	return err
}
