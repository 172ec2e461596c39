package upstream

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// startCheck begins to ask a server how it is. p.mu is held.
func (p *Pool) startCheck(s *server) {
	if p.opts.Health.Path == "" {
		return
	}
	p.checks[s] = p.env.Clock.AfterFunc(p.opts.Health.Every.Std(), func() {
		p.check(s)
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, goesOn := p.checks[s]; goesOn {
			p.startCheck(s)
		}
	})
}

// stopCheck ends the checks of a server. p.mu is held.
func (p *Pool) stopCheck(s *server) {
	if t := p.checks[s]; t != nil {
		t.Stop()
	}
	delete(p.checks, s)
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
	s.checking.Add(1)
	defer s.checking.Add(-1)
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
