package smtpgate

import (
	"net/netip"
	"time"
)

// kept is the part of the sessions that is kept for known sources: one in ten.
const kept = 10

// welcome notes that the client of a session is known: it has logged in, or sent a message from a network that may send
// without. It then has as much time as others, and its source is remembered.
func (g *Gate) welcome(c *conn) {
	if c.known {
		return
	}
	c.known = true
	now := g.env.Clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.regulars.add(c.group, now)
	if _, in := g.sessions[c]; in && c.stranger {
		c.stranger = false
		g.strangers--
	}
}

// regulars are the sources of sessions with a known client. When strangers take all other sessions, they still get one.
type regulars map[netip.Addr]time.Time

const (
	// maxRegulars is how many are remembered; then all are forgotten.
	maxRegulars = 10_000
	regularFor  = 24 * time.Hour
)

func (r regulars) knows(group netip.Addr, now time.Time) bool {
	last, ok := r[group]
	return ok && now.Sub(last).Abs() < regularFor
}

func (r regulars) add(group netip.Addr, now time.Time) {
	if _, in := r[group]; !in && len(r) >= maxRegulars {
		clear(r)
	}
	r[group] = now
}
