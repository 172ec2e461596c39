package nexthop

import (
	"context"
	"crypto/tls"
	"time"
)

// How long a server that cannot be used is left alone: twice as long each time.
const (
	firstPause = 5 * time.Second
	lastPause  = time.Minute
)

type safety struct {
	mode   TLS
	config *tls.Config
}

// A server of the next hop. Client.mu guards the fields below login.
type server struct {
	target
	mail  safety // of connections for messages
	login safety // of connections for the passwords of users

	idle     []*conn // the one used last is at the end
	inUse    int
	failures int           // in a row
	paused   bool          // it is left alone
	until    time.Time     // when it may be tried again
	reason   Result        // why it could not be used
	probe    chan struct{} // closed when a delivery has tried it again
}

// connect makes a connection, unless the server is left alone. probed tells that another delivery is trying it.
func (c *Client) connect(ctx context.Context, s *server) (k *conn, why *trouble, probed bool) {
	c.mu.Lock()
	if s.paused && (s.probe != nil || c.env.Clock.Now().Before(s.until)) {
		defer c.mu.Unlock()
		return nil, &trouble{Result: s.reason}, s.probe != nil
	}
	probing := s.paused
	if probing {
		s.probe = make(chan struct{})
	}
	s.inUse++
	victim := c.evictOldest()
	c.open++
	c.mu.Unlock()
	if victim != nil {
		c.goodbye(victim)
	}
	k, why = c.dial(ctx, s, s.mail, c.opts.User, c.opts.Password)
	if why != nil {
		c.lost.Add(1)
		c.gone(s)
		if ctx.Err() == nil && !(why.busy && c.serves(s)) {
			c.down(s, why.Result)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if why == nil {
		s.paused = false
	}
	if probing {
		close(s.probe)
		s.probe = nil
	}
	return k, why, false
}

func (c *Client) dial(ctx context.Context, s *server, safe safety, user, password string) (*conn, *trouble) {
	c.dials.Add(1)
	within, cancel := context.WithTimeout(ctx, c.opts.Timeouts.Connect.Std())
	nc, err := c.env.Dial(within, s.network, s.address)
	cancel()
	if err != nil {
		return nil, s.trouble(statusNoAnswer, "no connection: "+plainly(err))
	}
	k := newConn(nc, s, &c.opts.Timeouts)
	end := k.watch(ctx)
	why := k.open(ctx, c.name, safe)
	if why == nil && user != "" {
		why = k.logIn(user, password)
	}
	end()
	if why != nil {
		k.Close()
		return nil, why
	}
	return k, nil
}

// serves reports whether there are other connections to a server. Then it works, and has only reached its bound.
func (c *Client) serves(s *server) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.inUse+len(s.idle) > 0
}

// probed waits until another delivery has tried a server, and reports whether the server can be used again.
func (c *Client) probed(ctx context.Context, s *server) bool {
	c.mu.Lock()
	probe := s.probe
	c.mu.Unlock()
	if probe != nil {
		select {
		case <-probe:
		case <-ctx.Done():
			return false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !s.paused
}

func (c *Client) down(s *server, why Result) {
	c.mu.Lock()
	now := c.env.Clock.Now()
	first := s.failures == 0
	if !s.paused || !now.Before(s.until) { // deliveries that fail together count once
		s.failures++
		s.paused = true
		s.until = now.Add(min(firstPause<<min(s.failures-1, 10), lastPause))
	}
	s.reason = why
	s.reason.Outcome = Later // for messages during the pause, whatever became of this one
	c.mu.Unlock()
	if first {
		c.env.Log.Warn("the next hop cannot be used", "server", s.address, "reason", why.Text)
	}
}

// up notes that a server has taken a message, or refused it properly.
func (c *Client) up(s *server) {
	c.mu.Lock()
	again := s.failures > 0
	s.failures, s.paused, s.until, s.reason = 0, false, time.Time{}, Result{}
	c.mu.Unlock()
	if again {
		c.env.Log.Info("the next hop can be used again", "server", s.address)
	}
}
