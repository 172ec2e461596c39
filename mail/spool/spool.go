package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir"
	"weir/internal/logs"
	"weir/store"
)

// A Spool keeps mail. It is safe for concurrent use. The order is New, Configure, Start, everything else, Stop.
//
// It starts, runs and stops its parts. Each part uses only those above it in this list.
type Spool struct {
	*env      // what all parts share: store, clock, log, gates
	*delivery // the workers, and the end of their deliveries
	*reaches  // what reach throttles know of users
	*queue    // accepting and keeping, and what the mail throttle knows of users
	*desk     // what users and operators do

	end context.CancelFunc // of env.halt

	mu      sync.Mutex // of Configure, Start and Stop
	started bool
	closed  bool

	failing logs.Line // rounds of RunDue
	keeping struct {  // of housekeep
		sync.Mutex
		at time.Time
	}
	ahead struct { // of correctClock
		sync.Mutex
		latest time.Time // of the clock
		todo   bool      // times in the store are to be corrected
	}
}

// New returns a spool that does nothing yet.
func New(o Options) (*Spool, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Spool{env: newEnv(o.withDefaults())}
	s.halt, s.end = context.WithCancel(context.Background())
	s.delivery = newDelivery(s.env)
	s.openTrail()
	s.reaches = &reaches{env: s.env, delivery: s.delivery, flagged: newFlagged()}
	s.queue = &queue{env: s.env, delivery: s.delivery, reach: s.reaches}
	s.desk = &desk{env: s.env, delivery: s.delivery, reach: s.reaches, queue: s.queue}
	return s, nil
}

// Configure says which gates there are from now on: before Start, and again at a reload. After an error nothing has
// changed. Messages under way are delivered as they began. Messages of a gate that is gone go out by the first one.
func (s *Spool) Configure(list []Gate) error {
	next := &gates{byName: map[string]*gateway{}}
	confs := make([]Gate, len(list))
	for i, g := range list {
		confs[i] = g.withDefaults()
		if err := confs[i].validate(); err != nil {
			return weir.Under(fmt.Sprintf("gates[%d]", i), err)
		}
		if slices.ContainsFunc(confs[:i], func(other Gate) bool { return other.Name == g.Name }) {
			return &weir.FieldError{Path: fmt.Sprintf("gates[%d].name", i),
				Msg: fmt.Sprintf("there is another gate %q", g.Name)}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosing
	}
	before := s.gates.Load()
	for i := range confs {
		g := before.byName[confs[i].Name]
		if g == nil {
			g = newGateway(s.opts.Queue)
		}
		g.conf.Store(&confs[i])
		next.list = append(next.list, g)
		next.byName[confs[i].Name] = g
	}
	s.gates.Store(next)
	s.changed.Store(true)
	if s.started {
		s.startWorkers(next)
	}
	for name, g := range before.byName {
		if next.byName[name] == nil {
			close(g.quit)
			s.log.Warn("a gate is gone; what is left of its mail goes out by the first gate there is", "gate", name)
		}
	}
	s.warnOfLost()
	s.wakeUp()
	return nil
}

// Start takes over what another run has left, reads which users are stopped, and starts the workers. On a full disk it
// starts, too, and takes over when there is space.
func (s *Spool) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosing
	}
	if s.started {
		return nil
	}
	now := s.clock.Now()
	for _, err := range []error{s.takeOver(ctx, now), s.correctClock(ctx, now)} {
		if err != nil && !errors.Is(err, store.ErrFull) {
			return fmt.Errorf("taking over the spool: %w", err)
		}
	}
	if err := errors.Join(s.learnPooled(ctx), s.learn(ctx, &s.stopped), s.learn(ctx, &s.flagged)); err != nil {
		return fmt.Errorf("taking over the spool: %w", err)
	}
	s.started = true
	s.startWorkers(s.gates.Load())
	s.warnOfLost()
	return nil
}

// lastWait is how long a stop waits for workers whose contexts have ended.
const lastWait = 5 * time.Second

// Stop ends the workers. Deliveries after their final dot are brought to their end, and all others are left for the
// next run. When ctx ends first, everything is broken off and the error of ctx returned.
func (s *Spool) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		_ = s.unpark() // an error is logged, and the next run takes over
		if err := s.savePopulations(context.Background()); err != nil {
			s.log.Error("what reach throttles have learnt lately is not stored", "error", err)
		}
		close(ended)
	}()
	defer s.cut()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	busy := s.under.wait(ctx) != nil // ctx has ended: it does not wait
	s.cut()
	select {
	case <-ended:
		if !busy {
			return nil
		}
	case <-time.After(lastWait):
		s.log.Error("messages are still being sent after the stop")
	}
	return fmt.Errorf("messages being sent were interrupted: %w", ctx.Err())
}
