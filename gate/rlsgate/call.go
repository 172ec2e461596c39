package rlsgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir"
	"weir/policy"
)

// A visit is one call on its way through the gate. Visits are reused, so that a decision leaves little garbage.
type visit struct {
	gate  *Gate
	setup *setup
	now   time.Time

	event  weir.Event
	answer weir.Answer
	key    []byte
	items  []item
	parts  []weir.Part
	passes []*policy.Pass // those from used on are free
	used   int
}

// enter begins a call, or returns an error if there is no room for it. Either way the visit must be ended by leave.
func (g *Gate) enter(ctx context.Context) (*visit, error) {
	v := g.visits.Get().(*visit)
	v.gate, v.setup, v.now = g, g.Setup.Load(), g.env.Clock.Now()
	if g.UnderWay.Add(1) > int64(v.setup.opts.Bounds.Requests) {
		g.env.Observer.Bounded(BoundRequests)
		return v, status.Errorf(codes.ResourceExhausted, "there are as many requests under way as the gate takes: %d",
			v.setup.opts.Bounds.Requests)
	}
	if err := ctx.Err(); err != nil {
		return v, status.FromContextError(err).Err()
	}
	return v, nil
}

// leave is deferred and ends a call: it settles what is left, keeps a panic from ending other calls, and tells the
// observer.
func (v *visit) leave(service string, code *string, err *error) {
	g := v.gate
	if failure := recover(); failure != nil {
		g.Panicked("a call ended in a panic", failure, slog.String("service", service))
		*err = status.Error(codes.Internal, "the call could not be judged")
	}
	v.settle(false) // does nothing if all is settled
	if *err != nil {
		*code = codeOf(*err)
	}
	g.env.Observer.Answered(service, *code)
	clear(v.items)
	clear(v.parts)
	*v = visit{answer: weir.Answer{Figures: v.answer.Figures[:0]}, key: v.key[:0], items: v.items[:0],
		parts: v.parts[:0], passes: v.passes}
	g.visits.Put(v)
	g.UnderWay.Add(-1)
}

// codeOf is what the observer is told of an error.
func codeOf(err error) string {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return CodeInvalid
	case codes.Canceled, codes.DeadlineExceeded:
		return CodeLeft
	case codes.ResourceExhausted:
		return CodeBusy
	}
	return CodeFailed
}

// pass returns a free pass.
func (v *visit) pass() *policy.Pass {
	if v.used == len(v.passes) {
		v.passes = append(v.passes, new(policy.Pass))
	}
	v.used++
	return v.passes[v.used-1]
}

// settle ends all passes: done, or given back.
func (v *visit) settle(done bool) {
	for _, p := range v.passes[:v.used] {
		p.Settle(weir.Outcome{Time: v.gate.env.Clock.Now(), Done: done})
	}
	v.used = 0
}

// errTooLong means that a turn did not come within max_wait.
var errTooLong = errors.New("the turn did not come in time")

// await holds the call until the turn of a pass comes or is called off, but not longer than max_wait.
func (v *visit) await(ctx context.Context, p *policy.Pass) error {
	g := v.gate
	if !v.worthWaiting(p) {
		return errTooLong
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	left := v.setup.opts.MaxWait.Std() - g.env.Clock.Now().Sub(v.now)
	timer := g.env.Clock.AfterFunc(max(left, 0), cancel)
	defer timer.Stop()
	defer context.AfterFunc(g.Serving, cancel)()
	for p.Answer.Verdict == weir.Wait {
		if p.Await(waiting, g.env.Clock.Now) != nil {
			if err := ctx.Err(); err != nil {
				return err
			}
			return errTooLong
		}
	}
	return nil
}

// worthWaiting reports whether the turn of a pass is expected within max_wait.
func (v *visit) worthWaiting(p *policy.Pass) bool {
	most := v.setup.opts.MaxWait.Std()
	return most > 0 && !p.Answer.Until.After(v.now.Add(most))
}

// clamp makes a figure fit into a message.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// invalid is the error of a request that cannot be understood.
func invalid(format string, args ...any) error {
	return status.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
}
