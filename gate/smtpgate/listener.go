package smtpgate

import (
	"net"
	"net/netip"
	"time"

	"weir/gate"
	"weir/identify"
)

// receive lets a connection in, unless the door turns it away or it is one too many.
func (g *Gate) receive(c net.Conn) {
	s, tcp := g.Setup.Load(), c.(*net.TCPConn)
	source := identify.Plain(tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	if !s.door.Admit(source, g.env.Clock.Now()) {
		gate.Reset(tcp)
		return
	}
	session := newConn(g, s, tcp, source)
	if bound := g.join(session); bound != "" {
		g.env.Observer.Bounded(bound)
		turnAway(s, tcp)
		return
	}
	g.Go(func() { g.serve(session) })
}

// turnAway tells a client that there are too many sessions, if that can be sent without a wait.
func turnAway(s *setup, tcp *net.TCPConn) {
	if s.opts.TLS.Mode != TLSImplicit {
		_ = tcp.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = tcp.Write([]byte("421 4.7.0 " + s.host + " too many sessions, try again later\r\n"))
	}
	_ = tcp.Close()
}

// join counts a session, or returns the bound at which it is one too many.
func (g *Gate) join(c *conn) (bound string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &c.setup.opts.Bounds
	c.stranger = c.setup.freeUser(c.source) == "" && !g.regulars.knows(c.group, g.env.Clock.Now())
	switch {
	case g.Stopping(), len(g.sessions) >= b.Sessions, c.stranger && g.strangers >= b.Sessions-b.Sessions/kept:
		return BoundSessions
	case g.bySource[c.group] >= b.PerSource:
		return BoundPerSource
	}
	g.sessions[c] = struct{}{}
	g.bySource[c.group]++
	if c.stranger {
		g.strangers++
	}
	g.env.Observer.Sessions(1)
	return ""
}

// quit ends what join began.
func (g *Gate) quit(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, c)
	if g.bySource[c.group]--; g.bySource[c.group] == 0 {
		delete(g.bySource, c.group)
	}
	if c.stranger {
		g.strangers--
	}
	g.env.Observer.Sessions(-1)
}

// groupOf is what counts as one source: an address, or an IPv6 /64, which one customer has.
func groupOf(source netip.Addr) netip.Addr {
	if source.Is6() {
		return identify.Network(source, 32, 64).Addr()
	}
	return source
}

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
