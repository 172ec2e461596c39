package spool

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/internal/clock"
	"weir/internal/loglimit"
	"weir/store"
)

// Errors of Accept and Decide. What else they return comes from the store.
var (
	ErrStopped    = errors.New("spool: the user is stopped")
	ErrRecipients = errors.New("spool: too many recipients")
	ErrUnknown    = errors.New("spool: no such gate")
	ErrClosing    = errors.New("spool: closing")
	ErrNulls      = errors.New("spool: as many messages without a sender as may pass uncounted")
	ErrUnpaid     = errors.New("spool: a stamp is required, and was spent before")
)

// An Envelope is a mail that a gate has received.
type Envelope struct {
	ID       store.MailID // from NewID
	Gate     string
	User     string // the authenticated name, or the address of the client where there is none
	Sender   string
	Subject  string
	Source   netip.Addr
	UTF8     bool
	EightBit bool
	Return   string
	Envelope string
	To       []To

	// Another server has taken the mail, and would keep what is refused for now where the user does not see it: what a
	// stopped user has sent is held.
	Diverted bool
}

// To is one recipient of an envelope.
type To struct {
	Address  string
	Notify   string
	Original string
	Stamp    Stamp     // that pays for this recipient; the zero value: nothing
	Pooled   bool      // the gate is over its load: waits in the general pool unless paid for
	Required bool      // the mail is refused unless this recipient is paid for
	After    time.Time // another throttle lets it go on from then on; zero: now
}

// A Stamp is one that the gate has found good. Accept spends it with the mail. A recipient whose stamp another mail has
// spent in the meantime is not paid for. Addresses that differ only in case share a stamp.
type Stamp = store.Stamp

// A Receipt says what became of a mail.
type Receipt struct {
	Paid    int // recipients whose stamps were spent
	Passed  int // recipients that go on at once
	Delayed int
	Held    int
	Pooled  int
	Stopped bool // the user has just been stopped by it

	// Recipients who are new to the user, who is flagged: they wait until somebody has looked at them.
	Withheld int

	Shadow      bool // the throttle only counts:
	WouldWait   int  // so many recipients would wait
	WouldRefuse int  // … or be refused
	WouldStop   bool // … and the user would be stopped
}

// A Spool is the spool. It is safe for concurrent use; make it with New. The order is New, Configure, Start, everything
// else, Stop.
type Spool struct {
	opts  Options
	store store.Mail
	clock clock.Clock
	log   *slog.Logger
	tell  Observer
	keys  hasher
	ids   store.MailIDs

	gates   atomic.Pointer[gates]
	stopped stoppedUsers
	flagged stoppedUsers // by reach throttles
	reaches atomic.Pointer[[]*Reach]
	flight  flight
	bytes   atomic.Int64 // of texts in memory

	// What is handed to workers ends in three steps: nothing new is begun once halt is over, what has not come to its
	// final dot is broken off then too, and everything when base is over.
	halt     context.Context
	halted   context.CancelFunc
	base     context.Context
	cut      context.CancelFunc
	running  sync.WaitGroup // workers and what they have begun
	under    tally          // what is handed over and not finished
	finishes chan struct{}  // bounds those that store how a delivery ended

	mu      sync.Mutex // of Configure, Start and Stop
	started bool
	closed  bool

	room       room
	strangers  strangers
	parked     parked
	dispatch   single
	wake       chan struct{}
	next       atomic.Int64 // what RunDue last said, in nanoseconds; 0: nothing
	pooled     atomic.Bool  // something may wait in the pool
	changed    atomic.Bool  // the configuration has, and not everybody was looked at yet
	heir       atomic.Bool  // what another run has left is taken over
	unflagging struct {
		sync.Mutex
		at time.Time
	}
	keeping struct { // of what is done now and then
		sync.Mutex
		at time.Time
	}
	ahead struct { // of a clock that may have been
		sync.Mutex
		latest time.Time // that it has shown
		todo   bool      // what was stored meanwhile is to be corrected
	}

	began   time.Time
	failing struct{ ends, hands, rounds, takes loglimit.Line } // what a store that fails would fill the log with
}

// New returns a spool that does nothing yet.
func New(o Options) (*Spool, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Spool{opts: o, store: o.Store, clock: o.Clock, log: o.Log, tell: o.Observer, keys: newHasher(o.Secret),
		finishes: make(chan struct{}, maxFinishes), wake: make(chan struct{}, 1), began: o.Clock.Now()}
	_, _ = rand.Read(s.ids.Start[:])
	s.halt, s.halted = context.WithCancel(context.Background())
	s.base, s.cut = context.WithCancel(context.Background())
	s.gates.Store(&gates{})
	return s, nil
}

// newOwner names a run of the process.
func newOwner() string {
	var chance [8]byte
	_, _ = rand.Read(chance[:])
	return hex.EncodeToString(chance[:])
}

// Configure says which gates there are from now on: before Start, and again at a reload. It takes all of them or
// changes nothing. Mail under way is delivered as it began. Mail of a gate that is gone goes out by the first one.
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
		s.staff(next)
	}
	for name, g := range before.byName {
		if next.byName[name] == nil {
			close(g.quit)
			s.log.Warn("a gate is gone; what is left of its mail goes out by the first gate there is", "gate", name)
		}
	}
	s.tellLost()
	s.rouse()
	return nil
}

// Start takes over what another run has left, learns who is stopped, and starts the workers. A disk that is full keeps
// nobody from starting: what is left is taken over when there is room.
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
	for _, err := range []error{s.takeOver(ctx, now), s.straighten(ctx, now)} {
		if err != nil && !errors.Is(err, store.ErrFull) {
			return fmt.Errorf("taking over the spool: %w", err)
		}
	}
	if err := errors.Join(s.learnPooled(ctx), s.learnStopped(ctx), s.learnFlagged(ctx)); err != nil {
		return fmt.Errorf("taking over the spool: %w", err)
	}
	s.started = true
	s.staff(s.gates.Load())
	s.tellLost()
	return nil
}

// lastWait is how long a stop waits for those whose contexts are over.
const lastWait = 5 * time.Second

// Stop ends the workers: mails that have come to their final dot are brought to their end, all others stay for the next
// run. When ctx ends first everything is broken off, and the error of ctx returned.
func (s *Spool) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.halted()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		_ = s.unpark() // what fails is logged, and for the next run
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
	busy := s.under.busy()
	s.cut()
	select {
	case <-ended:
		if !busy {
			return nil
		}
	case <-time.After(lastWait):
		s.log.Error("mails are still under way after the stop")
	}
	return fmt.Errorf("mails under way were broken off: %w", ctx.Err())
}

// Idle waits until nothing is left that was handed to the workers.
func (s *Spool) Idle(ctx context.Context) error { return s.under.wait(ctx) }

// NewID returns an id for a mail that is coming in.
func (s *Spool) NewID(now time.Time) store.MailID { return s.ids.Next(now) }

// Stage returns a place for its text. Writing to it fails with store.ErrFull where there is no room for new mail.
func (s *Spool) Stage() store.Staged { return incomingText{s.store.Stage(), s} }

// update runs a transaction to its end. It is not broken off half-way when a caller leaves, as nobody could say then
// what was stored.
func (s *Spool) update(ctx context.Context, f func(store.MailTx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.store.Update(context.WithoutCancel(ctx), f)
}

// complain puts a line into the log, but not every time: a disk that is full is not to be filled with that.
func (s *Spool) complain(line *loglimit.Line, message string, attrs ...any) {
	if more, ok := line.Now(s.clock.Now().Sub(s.began)); ok {
		s.log.Error(message, append(attrs, "unlogged_before", more)...)
	}
}

// User returns a user of the store, or store.ErrNotFound.
func (s *Spool) User(ctx context.Context, name string) (user store.User, err error) {
	err = s.store.View(ctx, func(tx store.MailTx) error {
		user, err = tx.User(name)
		return err
	})
	return user, err
}

// Load is what there is to deliver at a gate, in proportion to what can be delivered at once.
func (s *Spool) Load(gate string) float64 {
	g := s.gates.Load().byName[gate]
	if g == nil {
		return 0
	}
	return g.load()
}
