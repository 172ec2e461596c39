package upstream

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/internal/clock"
)

// health is the state of a server. It is guarded by the server's lock.
type health struct {
	failures int // in a row
	passes   int // in a row, while it is not well
	down     bool
	until    time.Time // without checks: when a request is tried on it again
}

func (s *server) well(now time.Time) bool {
	if !s.trouble.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.health.down || !s.health.until.IsZero() && !now.Before(s.health.until)
}

// failed counts a failure, and takes the server out when there were too many in a row.
func (s *server) failed(p *Pool, why string) {
	s.failures.Add(1)
	s.env.Observer.Failed(s.to.name, why)
	s.mu.Lock()
	h := &s.health
	h.failures++
	h.passes = 0
	turned := !h.down && h.failures >= p.opts.Health.Unhealthy
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
	}
}

// passed counts a good answer, and takes the server in again when there were enough in a row.
func (s *server) passed(enough int) {
	s.mu.Lock()
	h := &s.health
	h.failures = 0
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

// startChecks begins to ask each server how it is.
func (p *Pool) startChecks() {
	if p.opts.Health.Path == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checks = make([]clock.Timer, len(p.servers))
	for i := range p.servers {
		p.nextCheck(i)
	}
}

// nextCheck plans the next check of a server. p.mu is held.
func (p *Pool) nextCheck(i int) {
	p.checks[i] = p.env.Clock.AfterFunc(p.opts.Health.Every.Std(), func() {
		p.check(p.servers[i])
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			p.nextCheck(i)
		}
	})
}

func (p *Pool) check(s *server) {
	ctx, cancel := context.WithTimeout(p.base, p.opts.Health.Timeout.Std())
	defer cancel()
	good := p.ask(ctx, s)
	switch {
	case p.base.Err() != nil:
	case good:
		if s.trouble.Load() {
			s.passed(p.opts.Health.Healthy)
		}
	default:
		s.failed(p, FailCheck)
	}
}

// checkBytes is how much of an answer to a check is read.
const checkBytes = 64 << 10

func (p *Pool) ask(ctx context.Context, s *server) bool {
	path, query, _ := strings.Cut(p.opts.Health.Path, "?")
	k := &Call{Request: (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query},
		Host: s.to.host, Close: true}).WithContext(ctx)}
	k.Fields.Add("User-Agent", "weir")
	s.active.Add(1) // given back with the answer
	err := s.give(p, k, nil, func(p *Pool, k *Call, by Caller) error {
		c, err := s.dial(ctx, &p.opts, by, false)
		if err != nil {
			return err
		}
		return c.exchange(p, k, by, time.Now())
	})
	if err != nil {
		s.active.Add(-1)
		return false
	}
	_, err = io.CopyN(io.Discard, k.Body, checkBytes)
	_ = k.Body.Close()
	return (err == nil || err == io.EOF) && k.Answer.Status >= 200 && k.Answer.Status < 400
}
