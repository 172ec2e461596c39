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
		if s.opts.TLS.Mode != TLSImplicit { // nothing has been sent yet, so that this does not wait
			_ = tcp.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = tcp.Write([]byte("421 4.7.0 " + s.host + " too many sessions, try again later\r\n"))
		}
		_ = tcp.Close()
		return
	}
	g.Go(func() { g.serve(session) })
}

// join counts a session, or returns the bound at which it is one too many. When strangers have all that they may, the
// source with the most loses its newest session to one with fewer. A tenth more may be on the way out.
func (g *Gate) join(c *conn) (bound string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := &c.setup.opts.Bounds
	known := c.setup.freeUser(c.source) != "" || g.regulars.knows(c.group, g.env.Clock.Now())
	switch {
	case g.bySource[c.group] >= b.PerSource:
		return BoundPerSource
	case g.Stopping(), known && g.known+g.strangers.Len() >= b.Sessions,
		!known && int(g.UnderWay.Load()) > b.Sessions+b.Sessions/kept:
		return BoundSessions
	case known:
		g.known++
	default:
		if c.seat = g.strangers.Enter(c.group, b.Sessions-max(b.Sessions/kept, g.known), c.makeRoom); c.seat == nil {
			return BoundSessions
		}
	}
	g.bySource[c.group]++
	g.env.Observer.Sessions(1)
	return ""
}

// quit ends what join began.
func (g *Gate) quit(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bySource[c.group]--; g.bySource[c.group] == 0 {
		delete(g.bySource, c.group)
	}
	if c.seat.Leave(); c.seat == nil {
		g.known--
	}
	g.env.Observer.Sessions(-1)
}

// welcome notes that the client of a session is known: it has logged in, or sent a message from a network that may send
// without. It then has as much time as others, and its source is remembered.
func (g *Gate) welcome(c *conn) {
	if c.known {
		return
	}
	c.known = true
	g.mu.Lock()
	defer g.mu.Unlock()
	g.regulars.add(c.group, g.env.Clock.Now())
	if c.seat.Leave(); c.seat != nil {
		c.seat, g.known = nil, g.known+1
	}
}

// regulars are the sources of sessions with a known client. When strangers take all other sessions, they still get one.
type regulars map[netip.Addr]time.Time

const (
	kept = 10 // one in ten sessions is kept for known sources
	// maxRegulars is how many are remembered; then all are forgotten.
	maxRegulars = 10_000
	regularFor  = 24 * time.Hour
)

func (r regulars) knows(group netip.Addr, now time.Time) bool {
	return now.Sub(r[group]).Abs() < regularFor
}

func (r regulars) add(group netip.Addr, now time.Time) {
	if _, in := r[group]; !in && len(r) >= maxRegulars {
		clear(r)
	}
	r[group] = now
}
