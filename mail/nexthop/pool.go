package nexthop

import (
	"slices"
	"time"
)

func (c *Client) take(s *server) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(s.idle) - 1
	if last < 0 || c.env.Clock.Now().Sub(s.idle[last].idleSince) >= c.opts.Idle.Std() {
		return nil // the sweep closes them
	}
	k := s.idle[last]
	s.idle = slices.Delete(s.idle, last, last+1)
	s.inUse++
	return k
}

// put keeps a connection for the next message, or ends it.
func (c *Client) put(k *conn) {
	if k.broken || k.mails >= c.opts.Reuse {
		c.gone(k.server)
		c.goodbye(k)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.idleSince = c.env.Clock.Now()
	k.server.inUse--
	k.server.idle = append(k.server.idle, k)
	if c.sweeps == nil {
		c.sweeps = c.env.Clock.AfterFunc(c.opts.Idle.Std(), c.sweep)
	}
}

func (c *Client) gone(s *server) {
	c.mu.Lock()
	s.inUse--
	c.open--
	c.mu.Unlock()
}

// evictOldest takes an idle connection away if there are as many as allowed. It is called with the lock held.
func (c *Client) evictOldest() *conn {
	if c.open < c.opts.Connections {
		return nil
	}
	var oldest *server
	for _, s := range c.servers {
		if len(s.idle) > 0 && (oldest == nil || s.idle[0].idleSince.Before(oldest.idle[0].idleSince)) {
			oldest = s
		}
	}
	if oldest == nil {
		return nil
	}
	return c.evict(oldest)
}

// evict takes away the connection that has been idle for the longest time. It is called with the lock held.
func (c *Client) evict(s *server) *conn {
	k := s.idle[0]
	s.idle = slices.Delete(s.idle, 0, 1)
	c.open--
	return k
}

func (c *Client) drop(s *server) {
	c.mu.Lock()
	idle := s.idle
	s.idle = nil
	c.open -= len(idle)
	c.mu.Unlock()
	for _, k := range idle {
		c.goodbye(k)
	}
}

func (c *Client) sweep() {
	var old []*conn
	var next time.Duration
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return // Close ends them all
	}
	c.bye.Add(1)
	defer c.bye.Done()
	now := c.env.Clock.Now()
	for _, s := range c.servers {
		for len(s.idle) > 0 {
			left := c.opts.Idle.Std() - now.Sub(s.idle[0].idleSince)
			if left > 0 {
				if next == 0 || left < next {
					next = left
				}
				break
			}
			old = append(old, c.evict(s))
		}
	}
	c.sweeps = nil
	if next > 0 {
		c.sweeps = c.env.Clock.AfterFunc(next, c.sweep)
	}
	c.mu.Unlock()
	for _, k := range old {
		c.goodbye(k)
	}
}

// goodbye ends a connection without waiting. How many wait for an answer to QUIT is bounded.
func (c *Client) goodbye(k *conn) {
	if k.broken {
		k.Close()
		return
	}
	select {
	case c.quits <- struct{}{}:
		c.bye.Go(func() {
			k.quit()
			<-c.quits
		})
	default:
		k.Close()
	}
}
