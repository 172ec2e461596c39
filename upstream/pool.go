package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"weir/internal/clock"
)

// A Pool spreads requests over the servers of one service.
type Pool struct {
	opts    Options // with defaults
	env     Env
	servers []*server

	next   atomic.Uint32 // the server that gets the next request in turn
	budget atomic.Int64  // of retries, in millionths

	mu     sync.Mutex
	closed bool
	checks []clock.Timer // the next check of each server
	cancel context.CancelFunc
	base   context.Context // of checks
}

var _ http.RoundTripper = (*Pool)(nil)

// New returns a pool. It makes no connections before the first request, except for checks.
func New(o Options, env Env) (*Pool, error) { return newPool(o, env, nil) }

// Configure returns a pool with other options that shares the servers that stay. Both must be closed.
func (p *Pool) Configure(o Options) (*Pool, error) { return newPool(o, p.env, p) }

func newPool(o Options, env Env, before *Pool) (*Pool, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{opts: o.WithDefaults(), env: env.withDefaults()}
	p.base, p.cancel = context.WithCancel(context.Background())
	p.budget.Store(budgetMost)
	for _, name := range o.Servers {
		s := before.shared(name, &p.opts)
		if s == nil {
			to, _ := parseTarget(name)
			s = newServer(to, &p.opts, p.env)
		}
		p.servers = append(p.servers, s)
	}
	p.startChecks()
	return p, nil
}

// shared returns the server of that name if the new options allow it, and notes that one more pool uses it.
func (p *Pool) shared(name string, o *Options) *server {
	if p == nil {
		return nil
	}
	for _, s := range p.servers {
		if s.to.name == name && s.fits(o) && s.share() {
			return s
		}
	}
	return nil
}

// Close stops the checks and closes idle connections. Requests go on, even new ones, but connections are not kept.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.cancel()
	for _, t := range p.checks {
		if t != nil {
			t.Stop()
		}
	}
	for _, s := range p.servers {
		s.release()
	}
}

// Stats is the state of a server.
type Stats struct {
	Server   string
	Well     bool
	Active   int    // requests under way
	Idle     int    // connections kept for the next request; HTTP/1.1 only
	Requests uint64 // given to it, tries included
	Failures uint64
}

// Stats returns the state of each server, in the order of the options.
func (p *Pool) Stats() []Stats {
	all := make([]Stats, len(p.servers))
	for i, s := range p.servers {
		all[i] = s.stats(p.env.Clock.Now())
	}
	return all
}

// pick returns the server that gets the next request, other than those tried, or nil. If none is well, any may be it.
func (p *Pool) pick(tried uint64) *server {
	if len(p.servers) == 1 {
		if tried != 0 {
			return nil
		}
		return p.servers[0]
	}
	now := p.env.Clock.Now()
	turn := 0
	switch {
	case p.opts.Balance == First:
	case tried == 0:
		turn = int(p.next.Add(1) % uint32(len(p.servers)))
	default:
		// Another try does not advance the turn, or the server that is next would be passed over.
		turn = int(p.next.Load() % uint32(len(p.servers)))
	}
	var best *server
	var bestWell bool
	var least int64
	for i := range p.servers {
		at := (turn + i) % len(p.servers)
		s := p.servers[at]
		if tried&(1<<at) != 0 {
			continue
		}
		well, active := s.well(now), s.active.Load()
		if best == nil || well && !bestWell || well == bestWell && p.opts.Balance == LeastConnections &&
			active < least {
			best, bestWell, least = s, well, active
		}
	}
	return best
}

// bit stands for a server in a set of them.
func (p *Pool) bit(s *server) uint64 {
	return 1 << slices.Index(p.servers, s)
}

// RoundTrip gives a request to a server and returns its answer.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) { return p.Do(r, nil) }

// Send makes a call. An Error means that no server answered; others are of the request's context or body.
func (p *Pool) Send(k *Call, by Caller) error {
	if len(p.servers) > 1 {
		p.earn()
	}
	var tried uint64
	for n := 0; ; n++ {
		s := p.pick(tried)
		if n > 0 {
			p.env.Observer.Retried(s.to.name)
		}
		s.requests.Add(1)
		s.active.Add(1)
		err := s.give(p, k, by, s.ownClient)
		if err == nil {
			if s.trouble.Load() {
				s.answered(p)
			}
			return nil
		}
		s.active.Add(-1)
		failure, ok := errors.AsType[*Error](err)
		if !ok {
			return err // of the request itself
		}
		s.failed(p, failure.Why)
		tried |= p.bit(s)
		if n == p.opts.Retries.Servers || k.Request.Context().Err() != nil || p.pick(tried) == nil ||
			!p.mayRetry(k, failure) {
			return err
		}
	}
}

// The budget of retries, in millionths of a request: each request adds its share, each retry takes a whole one. It
// starts full, so that a service with few requests has some too.
const (
	budgetOne  = 1_000_000
	budgetMost = 10 * budgetOne
)

// earn adds the share of one request.
func (p *Pool) earn() {
	if share := int64(float64(*p.opts.Retries.Budget) * budgetOne); p.budget.Load() < budgetMost {
		p.budget.Add(share)
	}
}

// mayRetry reports whether a failed request may go to another server. What cannot have arrived costs no budget.
func (p *Pool) mayRetry(k *Call, e *Error) bool {
	if *p.opts.Retries.Budget == 0 || e.consumed || e.seen {
		return false
	}
	return !e.Reached || idempotent(k) && spend(&p.budget)
}

func spend(budget *atomic.Int64) bool {
	for {
		left := budget.Load()
		if left < budgetOne {
			return false
		}
		if budget.CompareAndSwap(left, left-budgetOne) {
			return true
		}
	}
}

// idempotent reports whether a request may be sent twice (RFC 9110, 9.2.2), by its method or by an idempotency key.
func idempotent(k *Call) bool {
	switch k.Request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return k.Fields.Has("Idempotency-Key") || k.Fields.Has("X-Idempotency-Key")
}
