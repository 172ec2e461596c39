package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A server is one server of a service. A pool shares it with the pool that replaces it.
type server struct {
	to    target
	proxy ProxyProtocol
	env   Env
	tls   *outward
	via   *http.Transport // nil if our own client is the only one

	active    atomic.Int64
	errorLoad atomic.Int64 // see weigh
	requests  atomic.Uint64
	failures  atomic.Uint64
	trouble   atomic.Bool // health is not that of a healthy server
	silent    atomic.Bool // it did not answer Expect: 100-continue
	speaks    atomic.Int32
	checking  atomic.Int32 // checks under way, which active counts too
	resting   atomic.Int64 // until when it asked not to be tried again, in Unix nanoseconds

	mu     sync.Mutex
	users  int     // pools that share it
	idle   []*conn // the one used last is at the end
	sweeps *time.Timer
	health health
	watch  watch
}

func newServer(to target, p *Pool) *server {
	s := &server{to: to, proxy: p.opts.ProxyProtocol, env: p.env, tls: p.tls, users: 1}
	if !to.plain {
		s.via = newTransport(to, &p.opts, p.tls)
	}
	return s
}

// fits reports whether another pool can use a server. net/http's client has the timeouts built in.
func (s *server) fits(p *Pool) bool {
	o := &p.opts
	if s.proxy != o.ProxyProtocol || s.to.scheme == "https" && !s.tls.same(p.tls) {
		return false
	}
	return s.via == nil || s.via.ResponseHeaderTimeout == o.Timeouts.Response.Std() &&
		s.via.TLSHandshakeTimeout == o.Timeouts.Connect.Std() && s.via.MaxIdleConnsPerHost == o.Idle &&
		s.via.IdleConnTimeout == o.IdleTime.Std()
}

// share notes that one more pool uses the server. It reports false if none does any more.
func (s *server) share() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false
	}
	s.users++
	return true
}

// release notes that a pool does not use the server any more. The last one closes the idle connections.
func (s *server) release() {
	s.mu.Lock()
	if s.users--; s.users > 0 {
		s.mu.Unlock()
		return
	}
	idle := s.idle
	s.idle = nil
	if s.sweeps != nil {
		s.sweeps.Stop()
		s.sweeps = nil
	}
	s.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
	if s.via != nil {
		s.via.CloseIdleConnections()
	}
}

func (s *server) stats() Stats {
	s.mu.Lock()
	idle, well := len(s.idle), !s.health.down
	s.mu.Unlock()
	return Stats{Server: s.to.name, Well: well, Active: int(s.active.Load()), Idle: idle,
		Requests: s.requests.Load(), Failures: s.failures.Load()}
}

// take returns the idle connection that was used last and is still good, or nil.
func (s *server) take(o *Options, now time.Time) *conn {
	for {
		s.mu.Lock()
		last := len(s.idle) - 1
		if last < 0 {
			s.mu.Unlock()
			return nil
		}
		c := s.idle[last]
		s.idle[last] = nil
		s.idle = s.idle[:last]
		s.mu.Unlock()
		if now.Sub(c.since) < o.IdleTime.Std() && c.quiet() {
			return c
		}
		c.close()
	}
}

// put keeps a connection for the next request, unless there are enough.
func (s *server) put(c *conn, o *Options) {
	if c.since = c.began; c.patient {
		c.since = time.Now() // the exchange took its time
	}
	s.mu.Lock()
	if s.users == 0 || len(s.idle) >= o.Idle || s.proxy != NoProxyProtocol {
		s.mu.Unlock()
		c.close()
		return
	}
	s.idle = append(s.idle, c)
	if s.sweeps == nil {
		s.sweeps = time.AfterFunc(o.IdleTime.Std(), func() { s.sweep(o) })
	}
	s.mu.Unlock()
}

// sweep closes connections that were idle for too long. It runs again while there are idle ones.
func (s *server) sweep(o *Options) {
	now := time.Now()
	s.mu.Lock()
	old := 0
	for old < len(s.idle) && now.Sub(s.idle[old].since) >= o.IdleTime.Std() {
		old++
	}
	gone := slices.Clone(s.idle[:old])
	s.idle = slices.Delete(s.idle, 0, old)
	s.sweeps = nil
	if len(s.idle) > 0 {
		s.sweeps = time.AfterFunc(o.IdleTime.Std()/2, func() { s.sweep(o) })
	}
	s.mu.Unlock()
	for _, c := range gone {
		c.close()
	}
}

// dial makes a connection. Its error is errHTTP2 if the server speaks that.
func (s *server) dial(ctx context.Context, o *Options, by Caller, only1 bool) (*conn, error) {
	dialer := net.Dialer{Timeout: o.Timeouts.Connect.Std(), KeepAlive: 15 * time.Second}
	nc, err := dialer.DialContext(ctx, s.to.network, s.to.address)
	if err == nil && s.proxy != NoProxyProtocol {
		if err = greet(nc, s.proxy, by, o.Timeouts.Connect.Std()); err != nil {
			_ = nc.Close()
		}
	}
	if err == nil && s.to.scheme == "https" {
		nc, err = s.encrypt(ctx, nc, o, only1)
	}
	if err == errHTTP2 {
		return nil, err
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &Error{Server: s.to.name, Why: FailConnect, Err: err}
	}
	return newConn(s, nc), nil
}

// A client gives a call to a server.
type client func(p *Pool, k *Call, by Caller) error

// give gives a call to our own client if that can speak to the server, and otherwise to net/http's.
func (s *server) give(p *Pool, k *Call, by Caller, own client) error {
	if s.via == nil || s.to.scheme == "https" && (s.speaks.Load() != speaksHTTP2 || upgrades(k)) {
		if err := own(p, k, by); err != errHTTP2 {
			return err
		}
	}
	err := s.viaTransport(p, k, by)
	if failure, ok := errors.AsType[*Error](err); ok && failure.Why != FailTimeout {
		s.speaks.Store(speaksUnknown) // it may have changed
	}
	return err
}

// upgrades reports whether a call asks for another protocol on its connection. HTTP/2 cannot carry that.
func upgrades(k *Call) bool { return k.Fields.Has("Upgrade") }

func (s *server) ownClient(p *Pool, k *Call, by Caller) error {
	ctx := k.Request.Context()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := time.Now()
	c := s.take(&p.opts, now)
	for {
		reused := c != nil
		if !reused {
			var err error
			if c, err = s.dial(ctx, &p.opts, by, upgrades(k)); err != nil {
				return err
			}
			now = time.Now()
		}
		err := c.exchange(p, k, by, now)
		if err == nil {
			return nil
		}
		// If nothing of an answer came, the server has just closed an idle connection.
		failure, ok := errors.AsType[*Error](err)
		if !ok || !reused || failure.Why != FailBroken || failure.seen || failure.consumed || !idempotent(k) {
			return err
		}
		c = nil
	}
}
