package postfixgate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"weir/identify"
)

// writeWait is how long a client may take to read an answer.
const writeWait = 10 * time.Second

// receive lets a connection in, unless it is one too many or not from an allowed client.
func (g *Gate) receive(raw net.Conn) {
	s := g.Setup.Load()
	if peer, ok := raw.RemoteAddr().(*net.TCPAddr); ok && !s.clients.Trusts(peer.AddrPort().Addr()) {
		g.env.Observer.Bounded(BoundClients)
		g.Warn(&g.misled, "a client that is not allowed asks: if it should be allowed, add its network under clients",
			slog.String("from", peer.String()))
		_ = raw.Close()
		return
	}
	bounded := func() { g.env.Observer.Bounded(BoundConnections) }
	if counted := g.Counted(raw, s.opts.Bounds.Connections, bounded); counted != nil {
		g.Go((&conn{Conn: counted, gate: g, in: newReader(counted)}).serve)
	}
}

// A conn is a connection of one smtpd of Postfix. It belongs to its goroutine.
type conn struct {
	net.Conn
	gate   *Gate
	in     reader
	req    request
	out    []byte
	latest []byte // the instance of the last request
}

// wake ends the wait for a request. It may be called from any goroutine.
func (c *conn) wake() { _ = c.SetReadDeadline(time.Unix(1, 0)) }

// serve answers requests until there are no more.
func (c *conn) serve() {
	g := c.gate
	g.env.Observer.Connections(1)
	defer g.env.Observer.Connections(-1)
	defer c.Close()
	defer func() { g.arriving.leave(c.latest) }()
	defer context.AfterFunc(g.Serving, c.wake)()
	defer context.AfterFunc(g.Base, func() { _ = c.Close() })()
	defer g.Recover("a request failed because of a bug in weir", nil)
	for c.await() {
		a := c.answer()
		if g.Base.Err() != nil { // a stop has cut off the judgement
			return
		}
		c.out = a.append(c.out[:0])
		_ = c.SetWriteDeadline(time.Now().Add(writeWait))
		if _, err := c.Write(c.out); err != nil {
			return
		}
		g.env.Observer.Answered(a.action)
	}
}

// await reads the next request. It reports false if there is none, or if it is malformed.
func (c *conn) await() bool {
	g := c.gate
	_ = c.SetReadDeadline(time.Now().Add(g.Setup.Load().opts.Timeouts.Idle.Std()))
	if g.Stopping() { // wake may have come before this deadline
		return false
	}
	err := c.in.next(&c.req)
	switch {
	case err == nil:
		return true
	case g.Stopping(), err == io.EOF:
	case errors.Is(err, os.ErrDeadlineExceeded):
		g.env.Observer.Bounded(BoundIdle)
	case errors.Is(err, errRequest), errors.Is(err, errLine), errors.Is(err, errAttributes):
		g.env.Observer.Bounded(BoundRequest)
		c.garbled(err)
	case errors.Is(err, errNoPair), errors.Is(err, errTwice), errors.Is(err, errKind), errors.Is(err, errNumber),
		errors.Is(err, errCut):
		g.env.Observer.Bounded(BoundMalformed)
		c.garbled(err)
	}
	return false
}

func (c *conn) garbled(err error) {
	c.gate.Warn(&c.gate.garbled, "a connection is closed: it does not speak the policy protocol of Postfix",
		slog.String("from", c.RemoteAddr().String()), slog.Any("error", err))
}

// answer judges the request that was read.
func (c *conn) answer() answer {
	g, q := c.gate, &c.req
	c.forgetLatest()
	t := &inquiry{gate: g, setup: g.Setup.Load(), req: q, now: g.env.Clock.Now()}
	a := t.judge()
	level := slog.LevelInfo // with the queue id, by which the log of Postfix has it
	if len(q.queue) == 0 || a.action == ActionPrepend {
		level = slog.LevelDebug
	}
	if a.action != ActionDunno && g.env.Log.Enabled(g.Base, level) {
		g.env.Log.LogAttrs(g.Base, level, "policy", slog.String("queue_id", string(q.queue)),
			slog.String("instance", string(q.instance)), slog.String("state", string(q.state)),
			slog.String("user", t.user), slog.String("action", string(a.action)))
	}
	return a
}

// forgetLatest forgets the last message when the request is about another one: an smtpd handles one at a time.
func (c *conn) forgetLatest() {
	if len(c.req.instance) == 0 || bytes.Equal(c.req.instance, c.latest) {
		return
	}
	if len(c.latest) > 0 {
		if later, found := c.gate.arriving.forget(c.latest); found && later.action == ActionFilter {
			c.gate.env.Observer.Bounded(BoundUnmarked)
			c.gate.Warn(&c.gate.misled,
				"a mail was marked at DATA and not asked about at its end: either its sender left, "+
					"or smtpd_end_of_data_restrictions lacks the check_policy_service",
				slog.String("instance", string(c.latest)))
		}
	}
	c.latest = append(c.latest[:0], c.req.instance...)
}

// sourceOf reads an address as Postfix writes it, which may be "unknown".
func sourceOf(text []byte) netip.Addr {
	addr, err := netip.ParseAddr(string(text))
	if err != nil {
		return netip.Addr{}
	}
	return identify.Plain(addr)
}
