package tcpgate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir"
	"weir/gate"
	"weir/identify"
	"weir/policy"
	behind "weir/upstream"
)

// Why connections are cut.
var (
	errLeft  = errors.New("the client has left")
	errIdle  = errors.New("nothing moved for too long")
	errPanic = errors.New("a bug in weir")
	errCrowd = errors.New("there are too many connections, and most of this source")
)

// A stream is a connection whose halves end independently: a *net.TCPConn or a *net.UnixConn.
type stream interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// A side is one of the two ends that a connection has at the gate.
type side struct {
	stream
	told atomic.Bool // it was told that nothing more comes
}

// finish tells a side that nothing more comes. The side may still send.
func (s *side) finish() {
	if s.CloseWrite() == nil {
		s.told.Store(true)
	}
}

// close ends a side, by a reset unless it was told that nothing more comes.
func (s *side) close() {
	if s.told.Load() {
		_ = s.Close()
	} else {
		gate.Reset(s.stream)
	}
}

// A conn is one client's connection on its way through the gate. It belongs to its goroutine, except where a field says
// otherwise.
type conn struct {
	gate  *Gate
	setup *setup
	seat  *gate.Seat              // among all connections
	ctx   context.Context         // ends when the connection is cut; then both sides are closed
	cut   context.CancelCauseFunc // may be called from any goroutine
	spare func() bool             // after it, the end of ctx no longer closes the sides

	event   weir.Event
	pass    policy.Pass
	verdict weir.Verdict
	reached bool     // the upstream was connected
	from    net.Addr // the client and where it connected to, as the upstream is told
	to      net.Addr
	ahead   []byte // what came right behind the PROXY header

	mu       sync.Mutex // the sides are closed from any goroutine
	client   side
	upstream side // empty before it is reached

	idle    idler
	in, out atomic.Int64 // bytes that went on
}

func newConn(g *Gate, s *setup, tcp *net.TCPConn, source netip.Addr) *conn {
	c := &conn{gate: g, setup: s, from: tcp.RemoteAddr(), to: tcp.LocalAddr()}
	c.client.stream = tcp
	c.event = weir.Event{Time: g.env.Clock.Now(), Source: source, Kind: KindTCP, ID: gate.NewID(), Cost: 1}
	c.idle.gate = g
	c.ctx, c.cut = context.WithCancelCause(g.Base)
	c.spare = context.AfterFunc(c.ctx, c.close)
	return c
}

// serve is the life of the connection.
func (c *conn) serve() {
	c.gate.env.Observer.Connections(1)
	defer c.end()
	defer c.gate.Recover(gate.ConnectionFailed, nil, slog.String("id", c.event.ID))
	if !c.identify() {
		return
	}
	defer c.settle()
	if c.judge() && c.connect() {
		c.relay()
	}
}

// identify finds out where the connection comes from. It reports false when a trusted proxy fails to say so.
func (c *conn) identify() bool {
	s := c.setup
	if s.opts.ProxyProtocol.In != ProxyInRequired || !s.proxies.Trusts(c.event.Source) {
		return true
	}
	_ = c.client.SetReadDeadline(time.Now().Add(s.opts.Timeouts.Header.Std()))
	header, err := gate.ReadProxyHeader(c.client.stream)
	if err != nil {
		if c.ctx.Err() == nil {
			c.gate.env.Observer.Bounded(BoundHeader)
			c.cut(err)
		}
		return false
	}
	_ = c.client.SetReadDeadline(time.Time{})
	c.ahead = header.Ahead
	if header.From != nil {
		c.from, c.to = header.From, header.To
		c.event.Source = identify.Plain(header.From.AddrPort().Addr())
		if !s.proxies.Trusts(c.event.Source) {
			c.seat.Of(c.event.Source)
		}
	}
	c.event.Time = c.gate.env.Clock.Now() // reading the header took time
	return true
}

// judge puts the connection before the chain and waits where it must. It reports whether it goes on.
func (c *conn) judge() bool {
	c.setup.chain.Judge(c.ctx, &c.event, &c.pass)
	c.verdict = c.pass.Answer.Verdict
	if c.verdict == weir.Wait && !c.wait() {
		return false
	}
	if end := c.pass.Answer.Verdict; end != weir.Admit {
		c.verdict = end
	}
	c.gate.env.Observer.Judged(c.verdict)
	return c.pass.Answer.Verdict == weir.Admit
}

// wait holds the connection unread until its turn comes or is called off. It reports false when too many are waiting,
// or the client has left.
func (c *conn) wait() bool {
	g, who := c.gate, gate.WhoAt(c.event.Source)
	if !g.waiting.Enter(who, c.setup.opts.Bounds.Waiting) {
		g.env.Observer.Bounded(BoundWaiting)
		return false
	}
	defer g.waiting.Leave(who)
	g.env.Observer.Waiting(1)
	defer g.env.Observer.Waiting(-1)
	defer c.watch()()
	for c.pass.Answer.Verdict == weir.Wait {
		if c.pass.Await(c.ctx, g.env.Clock.Now) != nil {
			return false
		}
	}
	return true
}

// watch cuts the connection when the client leaves while nobody reads from it. The function returned ends the watch.
func (c *conn) watch() (end func()) {
	wait, ended := awaitLeaving(c.client.stream), make(chan struct{})
	go func() {
		defer close(ended)
		if wait() == nil {
			c.cut(errLeft)
		}
	}()
	return func() {
		_ = c.client.SetReadDeadline(time.Unix(1, 0))
		<-ended
		_ = c.client.SetReadDeadline(time.Time{})
	}
}

// connect makes the connection to the upstream.
func (c *conn) connect() bool {
	s := c.setup
	dialer := net.Dialer{Timeout: s.opts.Timeouts.Connect.Std()}
	up, err := dialer.DialContext(c.ctx, s.network, s.address)
	if err != nil {
		if c.ctx.Err() == nil {
			c.gate.unreached(c.event.ID, err)
			c.cut(err)
		}
		return false
	}
	c.reached = true
	c.mu.Lock()
	c.upstream.stream = up.(stream)
	c.mu.Unlock()
	c.pass.Away(c.gate.env.Clock.Now())
	if out := s.opts.ProxyProtocol.Out; out != ProxyOutOff {
		if err := writeHeader(up, out, c.from, c.to); err != nil {
			c.cut(err)
		}
	}
	return c.ctx.Err() == nil
}

// writeHeader tells the upstream where a connection comes from and where it went.
func writeHeader(w io.Writer, version ProxyOut, from, to net.Addr) error {
	v := behind.ProxyV2
	if version == ProxyOutV1 {
		v = behind.ProxyV1
	}
	_, err := w.Write(behind.AppendProxyHeader(nil, v, addressOf(from), addressOf(to)))
	return err
}

// addressOf is invalid on a socket of this machine.
func addressOf(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort()
	}
	return netip.AddrPort{}
}

// close closes both sides. It may be called from any goroutine, and more than once.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client.close()
	if c.upstream.stream != nil {
		c.upstream.close()
	}
}

func (c *conn) settle() {
	c.pass.Settle(weir.Outcome{Time: c.gate.env.Clock.Now(), Done: c.reached})
}

// end is deferred: it leaves nothing behind, whatever happened.
func (c *conn) end() {
	g := c.gate
	why := context.Cause(c.ctx)
	c.spare()
	c.close()
	c.cut(nil)
	g.Open.Add(-1)
	c.seat.Leave()
	g.env.Observer.Connections(-1)
	if !g.env.Log.Enabled(g.Base, slog.LevelDebug) {
		return
	}
	a := &c.pass.Answer
	attrs := []slog.Attr{slog.String("id", c.event.ID), slog.String("source", c.event.Source.String()),
		slog.String("verdict", c.verdict.String()), slog.String("by", a.By), slog.String("rule", a.Rule),
		slog.Int64("in", c.in.Load()), slog.Int64("out", c.out.Load()),
		slog.Duration("total", g.env.Clock.Now().Sub(c.event.Time))}
	if why != nil {
		attrs = append(attrs, slog.String("cut", why.Error()))
	}
	g.env.Log.LogAttrs(g.Base, slog.LevelDebug, "connection", attrs...)
}
