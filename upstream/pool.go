package upstream

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/clock"
)

// A Pool spreads requests over the servers of one service.
type Pool struct {
	opts   Options // with defaults
	env    Env
	on     conditions    // under which a request is tried again
	bad    statusSet     // answers that count as failures
	judges bool          // the status of an answer matters
	tls    *outward      // for https servers
	expect time.Duration // how long a server may take to say whether it wants a body; tests wait for longer

	members atomic.Pointer[[]*server] // replaced as a whole when names have other addresses
	next    atomic.Uint32             // the server that gets the next request in turn
	budget  atomic.Int64              // of retries, in millionths
	kept    atomic.Int64              // bytes of bodies that are kept for another try

	mu     sync.Mutex
	closed bool
	checks map[*server]clock.Timer // the next check of each server
	names  []*name                 // that are looked up
	ready  chan struct{}           // closed when each name has been looked up once
	cancel context.CancelFunc
	base   context.Context // of checks and lookups
}

var _ http.RoundTripper = (*Pool)(nil)

// New returns a pool. It makes no connections before the first request, except for checks; and it looks names up where
// the options say so. An error about a file that the options name is a weir.FieldError, too.
func New(o Options, env Env) (*Pool, error) { return newPool(o, env, nil) }

// Configure returns a pool with other options that shares the servers that stay. Both must be closed. Files that the
// options name are read again.
func (p *Pool) Configure(o Options) (*Pool, error) { return newPool(o, p.env, p) }

func newPool(o Options, env Env, before *Pool) (*Pool, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{opts: o.WithDefaults(), env: env.withDefaults(), checks: map[*server]clock.Timer{},
		ready: make(chan struct{}), expect: expectTime}
	var err error
	if p.tls, err = newOutward(o.TLS, p.env.Roots); err != nil {
		return nil, err
	}
	p.on, p.bad = newConditions(&p.opts.Retries), newStatusSet(o.Health.Statuses)
	p.judges = len(o.Health.Statuses) > 0 || p.on.statuses != statusSet{}
	p.base, p.cancel = context.WithCancel(context.Background())
	p.budget.Store(budgetMost)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = before.knownNames(&p.opts)
	p.populate(before)
	p.startLookups()
	return p, nil
}

// servers are those that there are now. The list does not change.
func (p *Pool) servers() []*server { return *p.members.Load() }

// populate makes the servers that the options and the addresses of names ask for. It keeps those of the pool, and of
// the pool before, that stay, and returns those that are gone. p.mu is held.
func (p *Pool) populate(before *Pool) (gone []*server) {
	var old []*server
	if now := p.members.Load(); now != nil {
		old = *now
	}
	var all []*server
	for _, to := range p.targets() {
		i := slices.IndexFunc(old, func(s *server) bool { return s.to.name == to.name })
		if i >= 0 {
			all = append(all, old[i])
			continue
		}
		s := before.shared(to.name, p)
		if s == nil {
			s = newServer(to, p)
		}
		p.startCheck(s)
		all = append(all, s)
	}
	p.members.Store(&all)
	for _, s := range old {
		if !slices.Contains(all, s) {
			p.stopCheck(s)
			gone = append(gone, s)
		}
	}
	return gone
}

// shared returns the server of that name if the pool that follows can use it, and notes that one more pool does.
func (p *Pool) shared(name string, next *Pool) *server {
	if p == nil {
		return nil
	}
	for _, s := range p.servers() {
		if s.to.name == name && s.fits(next) && s.share() {
			return s
		}
	}
	return nil
}

// Close stops checks and lookups and closes idle connections. Requests go on, even new ones, but connections are not
// kept.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.cancel()
	for _, n := range p.names {
		n.stop()
	}
	for _, s := range p.servers() {
		p.stopCheck(s)
		s.release()
	}
}

// Stats is the state of a server.
type Stats struct {
	Server   string
	Well     bool   // it has not failed, or it is back
	Active   int    // requests under way
	Idle     int    // connections kept for the next request; HTTP/1.1 only
	Requests uint64 // given to it, tries included
	Failures uint64
}

// Stats returns the state of each server, in the order of the options.
func (p *Pool) Stats() []Stats {
	servers := p.servers()
	all := make([]Stats, len(servers))
	for i, s := range servers {
		all[i] = s.stats()
	}
	return all
}

// HTTP2 reports whether a server may be spoken to in HTTP/2, as gRPC needs it.
func (p *Pool) HTTP2() bool {
	return p != nil && slices.ContainsFunc(p.servers(), func(s *server) bool { return s.via != nil })
}

// Kept is how many bytes of bodies are kept for another try.
func (p *Pool) Kept() int64 { return p.kept.Load() }

// A choice says which servers may be picked.
type choice struct {
	tried uint64 // not those
	again bool   // not those that asked for a pause
	well  bool   // only healthy ones
}

// pick returns the server that gets the next request, and whether it is well; or nil. If none is well, any may be it,
// unless the options or the choice say otherwise.
func (p *Pool) pick(all []*server, c choice) (best *server, bestWell bool) {
	if len(all) == 1 && c == (choice{}) && p.opts.Concurrent == 0 && !p.opts.Health.FailFast {
		return all[0], false
	}
	if len(all) == 0 {
		return nil, false
	}
	now := p.env.Clock.Now()
	turn := 0
	switch {
	case p.opts.Balance == First:
	case !c.again:
		turn = int(p.next.Add(1) % uint32(len(all)))
	default:
		// Another try does not advance the turn, or the server that is next would be passed over.
		turn = int(p.next.Load() % uint32(len(all)))
	}
	var least int64
	for i := range all {
		at := (turn + i) % len(all)
		s := all[at]
		if c.tried&(1<<at) != 0 || s.full(&p.opts) || c.again && s.rests(now) {
			continue
		}
		well, load := s.well(now), s.loadOf()
		if !well && (c.well || p.opts.Health.FailFast) {
			continue
		}
		if best == nil || well && !bestWell || well == bestWell && p.opts.Balance == LeastConnections &&
			load < least {
			best, bestWell, least = s, well, load
		}
	}
	return best, bestWell
}

// RoundTrip gives a request to a server and returns its answer.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) { return p.Do(r, nil) }

// Send makes a call. An Error means that no server answered, an UnavailableError that none was asked; others are of the
// request's context or body.
func (p *Pool) Send(k *Call, by Caller) error {
	t := tries{pool: p, all: p.servers()}
	if len(t.all) != 1 || p.opts.Retries.Same {
		p.earn()
	}
	if p.opts.Retries.Body > 0 && hasBody(k.Request) {
		t.keep(k.Request)
	}
	for {
		s, err := t.enter(k.Request.Context(), by)
		if err != nil {
			t.drop()
			return err
		}
		t.renew(k)
		err = s.give(p, k, by, s.ownClient)
		if err == nil {
			p.weigh(t.all, s, k.Answer.Status < 500)
		}
		switch {
		case err == nil && (t.passes(k.Answer.Status) || !t.answered(k)):
			t.release()
			return nil
		case err == nil:
			k.discard()
		default:
			s.active.Add(-1)
			if !t.failed(k, err, by) {
				t.drop()
				return err
			}
		}
	}
}
