package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/identify"
	"weir/throttle/outbreak"
)

// Bounds of a log that is replayed.
const (
	MaxStates    = 1 << 24       // users who send a lot, times the values that are tried
	MaxBackwards = 2 * time.Hour // mails of several servers come in any order, and clocks are put back in autumn
	maxWorkers   = 64
	// What is kept of a user's mails until they are run, in words: two for a mail, and one for each recipient. Most
	// users of a log never send so many, and then nothing else is kept of them.
	maxPending = 256
)

// Errors of Add. The entry is left out then, and everything else goes on.
var (
	ErrUsers      = fmt.Errorf("more than %d users in the log", MaxLogUsers)
	ErrRecipients = fmt.Errorf("a mail to more than %d recipients", MaxMailRecipients)
	ErrStates     = errors.New("too many users for so many values: sweep fewer of them")
	ErrOrder      = fmt.Errorf("the log goes back by more than %s", weir.Duration(MaxBackwards))
	ErrTime       = errors.New("a time before 1970 or after 2200")
	ErrEnded      = errors.New("the replay has ended")
)

var (
	earliest = time.Unix(0, 0)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// A logSpan is the time of the entries so far.
type logSpan struct{ from, to time.Time }

// check returns why an entry cannot be the next.
func (s *logSpan) check(e Entry, ended bool) error {
	switch {
	case ended:
		return ErrEnded
	case e.At.Before(earliest) || e.At.After(latest):
		return fmt.Errorf("%w: %s", ErrTime, e.At.Format(time.RFC3339))
	case len(e.To) > MaxMailRecipients:
		return fmt.Errorf("%w: %d", ErrRecipients, len(e.To))
	case s.to.Sub(e.At) > MaxBackwards:
		return fmt.Errorf("%w: from %s to %s", ErrOrder, s.to.Format(time.RFC3339), e.At.Format(time.RFC3339))
	}
	return nil
}

func (s *logSpan) extend(at time.Time) {
	if s.from.IsZero() || at.Before(s.from) {
		s.from = at
	}
	if at.After(s.to) {
		s.to = at
	}
}

// users are those of a log, in order of their first mail.
type users[U any] struct {
	byName map[string]*U
	order  []*U
	most   int
}

func newUsers[U any]() users[U] { return users[U]{byName: map[string]*U{}, most: MaxLogUsers} }

// find returns a user, who is made at their first mail.
func (u *users[U]) find(name string, make func(name string) *U) (*U, error) {
	if one := u.byName[name]; one != nil {
		return one, nil
	}
	if len(u.order) >= u.most {
		return nil, ErrUsers
	}
	name = strings.Clone(name) // not the whole line that it may be a part of
	one := make(name)
	u.byName[name] = one
	u.order = append(u.order, one)
	return one, nil
}

// ReplayOptions say what is tried on a log.
type ReplayOptions struct {
	Params  outbreak.Params                   // of everybody
	Of      func(user string) outbreak.Params // of users who have their own; nil: nobody has
	Counted func(recipient string) bool       // nil: all are
	Sweeps  []SweepSpec
	Share   float64 // advise how at most this share of the mails is delayed; 0: no advice
	Workers int     // that run in parallel. Default: one for each processor.
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o ReplayOptions) Validate() error {
	var m weir.Mistakes
	if len(o.Sweeps) > MaxSweeps {
		m.Add("sweep", fmt.Sprintf("%d sweeps are too many", len(o.Sweeps)), fmt.Sprintf("at most %d", MaxSweeps))
	}
	for i, s := range o.Sweeps {
		m.Under("", s.Validate())
		if slices.ContainsFunc(o.Sweeps[:i], func(before SweepSpec) bool { return before.Parameter == s.Parameter }) {
			m.Add("sweep", fmt.Sprintf("%s is swept twice", s.Parameter), "put all its values into one")
		}
	}
	if !(o.Share >= 0 && o.Share <= 1) {
		m.Add("share", fmt.Sprintf("%v is not a share", o.Share), "between 0% and 100%")
	}
	m.Count("workers", o.Workers, maxWorkers)
	return m.Err()
}

// A Replay runs a mail log through the mail throttle: Add takes it entry by entry, in order, Study tells what would
// have happened. Each user's clock starts with their first mail, and a stopped user releases all that is held and goes
// on. Every swept value has a state of its own for each user. It is not safe for concurrent use; inside, users are
// spread over several processors, and the result is the same for any number of them.
type Replay struct {
	o       ReplayOptions
	general outbreak.Params
	columns []outbreak.Params // the general parameters first, then everything else that is tried
	sweeps  [][]int           // the column of each value
	grid    []int             // … of what the advice chooses from

	seed    maphash.Seed
	users   users[replayUser]
	states  int
	most    int // states
	spare   chan []uint64
	workers []*replayWorker
	running sync.WaitGroup
	people  addressed // of a mail
	counted []uint64

	logSpan
	mails, recipients int
	ended             bool
	study             *Study
}

// A replayUser is what a replay keeps of a user.
type replayUser struct {
	name    string
	number  int
	own     *outbreak.Params // nil: the general ones
	mails   int
	last    int64    // when the latest mail was
	pending []uint64 // mails that have not been run yet: the time, how many recipients, and these
	busy    bool     // some have, and the states are kept

	// What follows belongs to the worker that runs the mails.
	packed []byte // the states, of all columns
	userTally
}

// NewReplay returns one that waits for entries. Study or Close ends it.
func NewReplay(o ReplayOptions) (*Replay, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.Workers = cmp.Or(o.Workers, min(runtime.GOMAXPROCS(0), maxWorkers))
	r := &Replay{
		o: o, general: filled(o.Params), seed: maphash.MakeSeed(), users: newUsers[replayUser](), most: MaxStates,
		spare: make(chan []uint64, 4*o.Workers),
	}
	r.column(r.general)
	for _, s := range o.Sweeps {
		var at []int
		for _, v := range s.Values {
			at = append(at, r.column(v.with(s.Parameter, r.general)))
		}
		r.sweeps = append(r.sweeps, at)
	}
	if o.Share > 0 {
		r.grid = append(r.grid, 0)
		for _, p := range adviceGrid(r.general) {
			r.grid = append(r.grid, r.column(p))
		}
	}
	for range o.Workers {
		w := newReplayWorker(r.general, r.columns)
		r.workers = append(r.workers, w)
		r.running.Go(func() { w.run(r.spare) })
	}
	return r, nil
}

// column returns the column with the parameters. Equal parameters are run once.
func (r *Replay) column(p outbreak.Params) int {
	at := slices.Index(r.columns, p)
	if at < 0 {
		at = len(r.columns)
		r.columns = append(r.columns, p)
	}
	return at
}

// Add takes the next mail of the log.
func (r *Replay) Add(e Entry) error {
	if err := r.check(e, r.ended); err != nil {
		return err
	}
	u, err := r.users.find(e.User, r.newUser)
	if err != nil {
		return err
	}
	if len(u.pending) > 0 && len(u.pending)+2+len(e.To) > maxPending {
		if err := r.hand(u); err != nil {
			return err
		}
	}
	r.extend(e.At)
	people, counted := r.addressees(e.To)
	r.mails++
	r.recipients += people
	u.mails++
	if len(counted) == 0 || u.own != nil && u.own.Exempt || u.own == nil && r.general.Exempt {
		return nil // the throttle never sees it
	}
	u.last = max(u.last, e.At.UnixNano())
	u.pending = append(append(u.pending, uint64(u.last), uint64(len(counted))), counted...)
	return nil
}

// addressees returns how many people a mail is to, and the keys of those who are counted. As at a gate, an address that
// is named twice, in any case, counts once.
func (r *Replay) addressees(to []string) (people int, counted []uint64) {
	r.people.begin(len(to))
	r.counted = r.counted[:0]
	for _, written := range to {
		address := normal(written)
		key := maphash.String(r.seed, address)
		if !r.people.add(key) {
			continue
		}
		// An address that may lead to another one is free only if it is listed exactly so.
		if r.o.Counted == nil || r.o.Counted(address) || outbreak.Routed(written) && r.o.Counted(written) {
			r.counted = append(r.counted, key)
		}
	}
	return len(r.people.keys), r.counted
}

func (r *Replay) newUser(name string) *replayUser {
	u := &replayUser{name: name, number: len(r.users.order)}
	if r.o.Of != nil {
		if own := filled(r.o.Of(name)); own != r.general {
			u.own = &own
		}
	}
	return u
}

// hand gives the mails of a user to their worker. More will follow.
func (r *Replay) hand(u *replayUser) error {
	if !u.busy {
		if r.states+len(r.columns) > r.most {
			return ErrStates
		}
		r.states += len(r.columns)
		u.busy = true
	}
	r.workers[u.number%len(r.workers)].jobs <- replayJob{u: u, words: u.pending}
	select {
	case words := <-r.spare:
		u.pending = words[:0]
	default:
		u.pending = make([]uint64, 0, maxPending)
	}
	return nil
}

// Close ends a replay whose study nobody wants.
func (r *Replay) Close() {
	if !r.ended {
		r.end()
	}
}

// end waits until everything that was handed over has been run.
func (r *Replay) end() {
	r.ended = true
	for _, w := range r.workers {
		close(w.jobs)
	}
	r.running.Wait()
}

// Study runs what is left, and returns the result. What still waits at the end of the log leaves by the clock.
func (r *Replay) Study() *Study {
	if r.ended {
		return r.study
	}
	for _, u := range r.users.order {
		if len(u.pending) == 0 && !u.busy {
			continue
		}
		r.workers[u.number%len(r.workers)].jobs <- replayJob{u: u, words: u.pending, last: true}
		u.pending = nil
	}
	r.end()
	r.study = r.found()
	return r.study
}

// An addressed is the recipients of one mail, by key, each once.
type addressed struct {
	keys  []uint64
	seen  map[uint64]struct{} // nil: they are few, and looked through
	spare map[uint64]struct{} // seen, of the latest mail to many
}

// Up to fewRecipients the keys are searched one by one: most mails have one recipient, and emptying a large map takes
// long.
const fewRecipients = 32

func (a *addressed) begin(named int) {
	a.keys, a.seen = a.keys[:0], nil
	if named <= fewRecipients {
		return
	}
	if a.spare == nil {
		a.spare = map[uint64]struct{}{}
	}
	clear(a.spare)
	a.seen = a.spare
}

// add reports whether a recipient is new among them.
func (a *addressed) add(key uint64) bool {
	if a.seen == nil {
		if slices.Contains(a.keys, key) {
			return false
		}
	} else {
		if _, twice := a.seen[key]; twice {
			return false
		}
		a.seen[key] = struct{}{}
	}
	a.keys = append(a.keys, key)
	return true
}

// normal is the form of an address by which a gate counts it: in lower case, and without a name or quotes, which few
// logs have.
func normal(address string) string {
	if strings.ContainsAny(address, "\"<(:\\ \t") {
		if r, err := identify.Recipient(address); err == nil {
			return r
		}
	}
	return strings.ToLower(address)
}
