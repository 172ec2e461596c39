package farm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// How a Guarded pot keeps calls short.
const (
	CallTime   = 20 * time.Millisecond  // for one call, or up to sharedDeadline less
	MaxFailed  = 3                      // calls in a row, and then the engine is taken for lost
	ProbeEvery = 100 * time.Millisecond // one call is let through to a lost engine

	sharedDeadline = time.Millisecond
)

// ErrLost is returned at once while the engine is taken for lost.
var ErrLost = errors.New("the engine of the counters is lost")

// errStalled is made once: a call to a lost engine allocates nothing.
var errStalled = fmt.Errorf("%w: the last calls failed", ErrLost)

// A PotState is what a Guarded pot thinks of its engine.
type PotState string

const (
	PotUnknown PotState = "unknown" // it has not answered yet
	PotUp      PotState = "up"
	PotStalled PotState = "stalled" // it is taken for lost: calls fail at once
)

// GuardOptions are what a guard needs.
type GuardOptions struct {
	Now func() time.Time // the machine's clock
	// Text says what an error is shown as in Stats. Default: its own text. It must leave out what is secret.
	Text func(error) string
}

// A Guarded is a Pot that never lets a caller wait for long. A call ends after CallTime. After MaxFailed failures in a
// row all calls fail at once with ErrLost, but for one in each ProbeEvery; when one is answered, all are let through
// again. Mistakes of the caller are no failures, nor is an answer that grants nothing, nor a call that its caller gave
// up. Make it with Guard. Goroutines may share it.
type Guarded struct {
	pot Pot
	GuardOptions
	last atomic.Pointer[deadline]

	mu     sync.Mutex // never held while the pot or the watcher is called
	state  PotState
	since  time.Time
	failed int       // calls in a row
	probe  time.Time // stalled: when the next call is let through
	barred error     // why no call is
	engine string

	calls, failures, refused uint64
	why                      string // the last call failed
	whyAt                    time.Time
	times                    potTimes

	watch   func(up bool)
	told    bool // what the watcher was told last: the engine is not lost
	telling bool
}

var _ Pot = (*Guarded)(nil)

// Guard returns a pot that is guarded. A Take of the pot itself must end when its context does.
func Guard(pot Pot, o GuardOptions) *Guarded {
	if o.Text == nil {
		o.Text = error.Error
	}
	now := o.Now()
	return &Guarded{pot: pot, GuardOptions: o, state: PotUnknown, since: now, told: true, times: potTimes{turned: now}}
}

// Take implements Pot. The errors are those of the pot, or ErrLost.
func (g *Guarded) Take(ctx context.Context, ask Ask) (Reply, error) {
	began := g.Now()
	if err := g.admit(began); err != nil {
		return Reply{}, err
	}
	within, cancel := g.deadline(ctx, began)
	reply, err := g.pot.Take(within, ask)
	cancel()
	if g.note(began, reply.Engine, err, ctx.Err()) {
		g.tell()
	}
	return reply, err
}

// A deadline is one that calls have in common.
type deadline struct {
	context.Context
	cancel context.CancelFunc // not needed: it ends in time
	at     time.Time
}

// deadline returns the context of a call. A timer for each call costs too much, so calls that begin within
// sharedDeadline have one in common, and the later ones of them a little less time.
func (g *Guarded) deadline(ctx context.Context, began time.Time) (within context.Context, end context.CancelFunc) {
	if ctx.Done() != nil { // the caller may give up
		return context.WithTimeout(ctx, CallTime)
	}
	if d := g.last.Load(); d != nil && d.Err() == nil {
		if left := d.at.Sub(began); left <= CallTime && left > CallTime-sharedDeadline {
			return d, func() {}
		}
	}
	d := &deadline{}
	d.Context, d.cancel = context.WithTimeout(ctx, CallTime)
	d.at, _ = d.Deadline()
	g.last.Store(d)
	return d, func() {}
}

// Close lets go of the engine.
func (g *Guarded) Close() { g.pot.Close() }

// admit returns why a call cannot be made now.
func (g *Guarded) admit(now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.barred != nil:
		g.refused++
		return g.barred
	case g.state == PotStalled && now.Before(g.probe):
		g.refused++
		return errStalled
	case g.state == PotStalled:
		g.probe = now.Add(ProbeEvery)
	}
	g.calls++
	return nil
}

// note takes down what became of a call. gaveUp is why the caller waits no more. It reports whether the watcher is to
// be told something.
func (g *Guarded) note(began time.Time, engine string, err, gaveUp error) (news bool) {
	now := g.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, ErrAsk) || errors.Is(err, ErrNumber): // the engine was not asked
		if g.state == PotStalled {
			g.probe = now
		}
		return false
	case errors.Is(gaveUp, context.Canceled):
		return false
	}
	g.times.add(now, now.Sub(began))
	if err == nil || errors.Is(err, ErrOutside) || errors.Is(err, ErrCrowded) || errors.Is(err, ErrEngine) {
		g.failed = 0
		if engine != "" {
			g.engine = engine
		}
		if g.barred == nil {
			g.become(PotUp, now)
		}
		return g.told != (g.state != PotStalled)
	}
	g.failures++
	g.failed++
	g.fault(err, now)
	if g.failed >= MaxFailed && g.state != PotStalled {
		g.become(PotStalled, now)
		g.probe = now.Add(ProbeEvery)
	}
	return g.told != (g.state != PotStalled)
}

func (g *Guarded) become(state PotState, now time.Time) {
	if g.state != state {
		g.state, g.since = state, now
	}
}

// fault remembers an error for people.
func (g *Guarded) fault(err error, now time.Time) {
	text := g.Text(err)
	g.why, g.whyAt = strings.ToValidUTF8(text[:min(len(text), maxErrorText)], ""), now
}

// Bar makes all calls fail with ErrLost, without a probe: the engine answers, but must not be used. Bar(nil) lifts it.
func (g *Guarded) Bar(why error) {
	now := g.Now()
	g.mu.Lock()
	switch {
	case why != nil:
		g.barred = fmt.Errorf("%w: %w", ErrLost, why)
		g.fault(why, now)
		g.become(PotStalled, now)
	case g.barred != nil:
		g.barred, g.failed = nil, 0
		g.become(PotUnknown, now)
	}
	g.mu.Unlock()
	g.tell()
}

// Watch registers the one function that is called when the engine is lost (up is false) and when it is back. At first
// it is taken to be up. Calls come one after the other, under no lock, from callers of Take and Bar: it must not block.
func (g *Guarded) Watch(told func(up bool)) {
	g.mu.Lock()
	g.watch = told
	g.mu.Unlock()
	g.tell()
}

// tell tells the watcher what has changed. One caller does so for all, so that the last word is the latest.
func (g *Guarded) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.telling || g.watch == nil {
		return
	}
	g.telling = true
	for up := g.state != PotStalled; up != g.told; up = g.state != PotStalled {
		g.told = up
		watch := g.watch
		g.mu.Unlock()
		watch(up)
		g.mu.Lock()
	}
	g.telling = false
}

// GuardStats say how an engine does.
type GuardStats struct {
	State    PotState
	Since    time.Time // when it came to be in this state
	Engine   string    // its identity, as it last said
	Calls    uint64    // that were let through
	Failures uint64    // of those: no answer in time, or an error of the engine
	Refused  uint64    // calls that failed at once, as the engine was taken for lost
	Error    string    // of the last failure, if there was any
	ErrorAt  time.Time
	P50, P99 time.Duration // of calls in the last minute or two; 0 if there were none
	// Counts are calls by their duration: up to each of CallTimes, and longer ones. Sum is how long all took.
	Counts []uint64
	Sum    time.Duration
}

// Stats returns how the engine does.
func (g *Guarded) Stats() GuardStats {
	now := g.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.times.turn(now)
	return GuardStats{State: g.state, Since: g.since, Engine: g.engine, Calls: g.calls, Failures: g.failures,
		Refused: g.refused, Error: g.why, ErrorAt: g.whyAt, P50: g.times.quantile(0.5), P99: g.times.quantile(0.99),
		Counts: append([]uint64(nil), g.times.all[:]...), Sum: g.times.sum}
}
