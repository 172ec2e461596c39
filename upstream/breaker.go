package upstream

import (
	"fmt"
	"time"

	"weir"
)

// An UnavailableError says that no server can be given a request now. The request has not left.
type UnavailableError struct {
	Why   string        // one of the names below
	After time.Duration // when it is worth another try
}

// Why no server can be given a request.
const (
	NoneHealthy  = "unhealthy"  // no server is healthy, and the options say not to try then
	NoneFree     = "concurrent" // all servers have as many requests as they may
	NoneResolved = "unresolved" // no address of a server is known yet
)

func (e *UnavailableError) Error() string {
	switch e.Why {
	case NoneHealthy:
		return "no server is healthy"
	case NoneFree:
		return "every server has as many requests as it may"
	}
	return "no address of a server is known"
}

// statusSet is a set of statuses from 500 to 599.
type statusSet [100]bool

func newStatusSet(all []int) (s statusSet) {
	for _, status := range all {
		s[status-500] = true
	}
	return s
}

func (s *statusSet) has(status int) bool { return status >= 500 && status < 600 && s[status-500] }

func validateStatuses(v *weir.Mistakes, path string, all []int) {
	seen := statusSet{}
	for i, status := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case status < 500 || status > 599:
			// Clients can make any server answer with less.
			v.Add(at, fmt.Sprintf("an answer of %d does not say that the server failed", status), "from 500 to 599")
		case seen.has(status):
			v.Add(at, fmt.Sprintf("%d is named twice", status), "name each status once")
		default:
			seen[status-500] = true
		}
	}
}

// health is the state of a server. It is guarded by the server's lock.
type health struct {
	failures int // of requests, in a row
	checks   int // that failed, in a row
	passes   int // in a row, while it is not well
	down     bool
	until    time.Time // without checks: when a request is tried on it again
}

// due reports whether a request may be tried on a server that is down.
func (h *health) due(now time.Time) bool { return !h.until.IsZero() && !now.Before(h.until) }

// well reports whether a server is healthy, or may be tried again.
func (s *server) well(now time.Time) bool {
	if !s.trouble.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.health.down || s.health.due(now)
}

// enter gives a request to the server. It reports false if another one was quicker: the server has as many as it may,
// or it was picked as well and the one request that tries it is under way. probe is set if this is that request.
func (s *server) enter(p *Pool, picked bool) (probe time.Time, ok bool) {
	s.active.Add(1)
	if p.opts.Concurrent > 0 && s.load() > int64(p.opts.Concurrent) {
		s.active.Add(-1)
		return probe, false
	}
	if s.trouble.Load() {
		if probe, ok = s.claim(p, picked); !ok {
			s.active.Add(-1)
			return probe, false
		}
	}
	s.requests.Add(1)
	return probe, true
}

// load is how many requests are under way, without checks.
func (s *server) load() int64 { return s.active.Load() - int64(s.checking.Load()) }

// full reports whether the server has as many requests as it may.
func (s *server) full(o *Options) bool { return o.Concurrent > 0 && s.load() >= int64(o.Concurrent) }

// claim takes the one try of a server that is down. The next one is due after the usual time, so that a client that
// makes its try last does not keep the server out.
func (s *server) claim(p *Pool, picked bool) (probe time.Time, ok bool) {
	now := s.env.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch h := &s.health; {
	case !h.down:
		return probe, true
	case h.due(now):
		h.until = now.Add(p.opts.Health.Every.Std())
		return h.until, true
	}
	return probe, !picked
}

// undecided gives the one try back: it says nothing about the server.
func (s *server) undecided(probe time.Time) {
	if probe.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health.down && s.health.until.Equal(probe) {
		s.health.until = s.env.Clock.Now()
	}
}

// noted counts a failure that says nothing about the server's health.
func (s *server) noted(why string) {
	s.failures.Add(1)
	s.env.Observer.Failed(s.to.name, why)
}

// failed counts a failure, and takes the server out when there were too many in a row.
func (s *server) failed(p *Pool, why string) {
	s.noted(why)
	s.mu.Lock()
	h := &s.health
	if why == FailCheck {
		h.checks++
	} else {
		h.failures++
	}
	h.passes = 0
	turned := !h.down && max(h.failures, h.checks) >= p.opts.Health.Unhealthy
	if h.down = h.down || turned; h.down && p.opts.Health.Path == "" {
		h.until = s.env.Clock.Now().Add(p.opts.Health.Every.Std())
	}
	s.trouble.Store(true)
	s.mu.Unlock()
	if turned {
		s.env.Observer.Turned(s.to.name, false)
	}
}

// answered notes that a request was answered. If there are checks, only they bring a server back.
func (s *server) answered(p *Pool) {
	if p.opts.Health.Path == "" {
		s.passed(1)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := &s.health; !h.down {
		h.failures = 0
		s.trouble.Store(h.checks > 0)
	}
}

// passed counts a good answer, and takes the server in again when there were enough in a row.
func (s *server) passed(enough int) {
	s.mu.Lock()
	h := &s.health
	h.failures, h.checks = 0, 0
	h.passes++
	turned := h.down && h.passes >= enough
	if !h.down || turned {
		*h = health{}
		s.trouble.Store(false)
	}
	s.mu.Unlock()
	if turned {
		s.env.Observer.Turned(s.to.name, true)
	}
}

// unavailable says why none of these servers can be given a request.
func (p *Pool) unavailable(all []*server) error {
	if len(all) == 0 {
		return &UnavailableError{NoneResolved, time.Second}
	}
	now := p.env.Clock.Now()
	soon := p.opts.Health.Every.Std()
	for _, s := range all {
		if s.well(now) { // so that it is full
			p.env.Observer.Bounded(BoundConcurrent)
			return &UnavailableError{NoneFree, time.Second}
		}
		if due := s.dueIn(now); due > 0 {
			soon = min(soon, due)
		}
	}
	return &UnavailableError{NoneHealthy, soon}
}

// dueIn is how long it takes until a request is tried on a server that is down; 0 if that is not known.
func (s *server) dueIn(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health.until.IsZero() {
		return 0
	}
	return s.health.until.Sub(now)
}
