package httpgate

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir/gate"
	"weir/gate/httpgate/accesslog"
	"weir/gate/httpgate/pages"
	"weir/identify"
	"weir/internal/http1"
	"weir/internal/logs"
	"weir/policy"
	"weir/traces"
)

// A Gate is one HTTP listener with its upstream and its chain of throttles.
type Gate struct {
	*gate.Skeleton[setup]
	env    Env
	watch  *hangups
	assets *pages.Assets
	rooms  pages.Rooms

	access   atomic.Pointer[accesslog.Log]
	tracer   atomic.Pointer[traces.Tracer]
	crowd    gate.Crowd     // all connections
	hasty    gate.Crowd     // connections whose PROXY header or TLS handshake is under way
	arriving atomic.Int64   // how many these are
	arrivals sync.WaitGroup // the same
	// arrivable ends when a stop waits no longer for those.
	arrivable   context.Context
	endArrivals context.CancelFunc
	draining    atomic.Bool
	patience    time.Duration // firstRequest, except in tests
	requests    gate.Tally    // that were let in
	waiting     gate.Tally    // requests that a throttle holds back
	bodies      bodyRoom

	unlisted identify.Unlisted

	lines   logs.Rates  // of the log
	summing atomic.Bool // lines left out are about to be reported

	sessions sync.Map       // of *session
	speaking sync.WaitGroup // the same
	upgraded sync.Map       // of net.Conn
}

// New returns a gate that listens nowhere yet. The chain accept judges every connection, the other one every request;
// nil admits everything. The chains of routes come last, in the order of the options; nil stands for that of the gate.
func New(o Options, accept, chain *policy.Chain, env Env, routes ...*policy.Chain) (*Gate, error) {
	env = env.withDefaults()
	s, err := newSetup(o, accept, chain, routes, env, nil)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env, watch: newHangups(), assets: pages.NewAssets(env.Scripts), patience: firstRequest,
		bodies: bodyRoom{clients: map[netip.Addr]int64{}}}
	g.arrivable, g.endArrivals = context.WithCancel(context.Background())
	g.Skeleton = gate.New(env.Env, s, gate.Hooks[setup]{
		What: "requests",
		Open: func(s *setup) (gate.Listener, error) {
			return g.env.Sockets.Listen(s.opts.Listen, s.opts.Socket.rights())
		},
		Take:    g.receive,
		Server:  func(s *setup) gate.Server { return g.newServer(s.httpOptions()) },
		Same:    func(old, next *setup) bool { return old.httpOptions() == next.httpOptions() },
		Start:   g.begin,
		Drain:   g.drain,
		End:     g.end,
		Dropped: func(next *setup) { next.end(g.Setup.Load()) },
		Replaced: func(old, next *setup, serving bool) {
			if serving {
				next.keys.Begin()
			}
			old.end(next)
		},
	})
	context.AfterFunc(g.Base, g.cut)
	g.SetAccess(env.Access)
	g.SetTracer(env.Tracer)
	return g, nil
}

// SetAccess changes which requests get a line in the access log, and where it goes.
func (g *Gate) SetAccess(l accesslog.Log) { g.access.Store(&l) }

// Listen binds the address, or makes the socket. Port 0 takes a free one; see Addr. Where keys of tokens are being
// fetched, it then waits for the first try, ten seconds at most, so that tokens count from the first request on.
func (g *Gate) Listen() error {
	if err := g.Skeleton.Listen(); err != nil {
		return err
	}
	g.Setup.Load().keys.Await()
	return nil
}

// begin starts what goes on in the background. The secrets may be known only now.
func (g *Gate) begin() {
	signed := *g.Setup.Load()
	signed.sign(g.env)
	signed.signRoutes(g.env)
	g.Setup.Store(&signed)
	signed.keys.Begin()
}

func (g *Gate) newServer(o gate.HTTPOptions) *http.Server {
	s := g.HTTPServer(g, o)
	s.ConnContext = withConn
	s.Protocols = new(http.Protocols)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// Prepare prepares a reload with other options and chains. Everything that can fail happens here; then either commit,
// which cannot fail, or abort must be called. Requests under way keep the options and the chain that they began with.
// The listener is kept, and a changed listen address ignored.
func (g *Gate) Prepare(o Options, accept, chain *policy.Chain, routes ...*policy.Chain) (commit, abort func(),
	err error) {
	now := g.Setup.Load()
	o.Listen = now.opts.Listen
	return g.Replace(newSetup(o, accept, chain, routes, g.env, now))
}

// cut closes the connections that net/http does not know of.
func (g *Gate) cut() {
	for s := range g.sessions.Range {
		_ = s.(*session).conn.wire.Close()
	}
	for c := range g.upgraded.Range {
		_ = c.(net.Conn).Close()
	}
}

// end ends what goes on in the background.
func (g *Gate) end() {
	g.sumUp()
	g.watch.close()
	g.Setup.Load().end(&setup{})
}

func (g *Gate) progress() time.Duration { return g.Setup.Load().opts.Timeouts.Progress.Std() }

// malformed counts and logs bytes that are not a request.
func (g *Gate) malformed(c *conn, why error) {
	c.linger.Store(true)
	bound := BoundMalformed
	if why == http1.ErrTooLarge {
		bound = BoundHeader
	}
	g.env.Observer.Bounded(bound)
	if g.access.Load().Requests != accesslog.Off && g.mayLog("malformed", g.env.Clock.Now()) {
		g.env.Log.LogAttrs(g.Base, slog.LevelInfo, "malformed request",
			slog.String("peer", c.RemoteAddr().String()), slog.String("why", why.Error()))
	}
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if streams, ok := c.(*streamConn); ok {
		c = streams.conn
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection that a request came on.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
