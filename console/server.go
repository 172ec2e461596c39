package console

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/gate"
	"weir/gate/httpgate/keys"
	"weir/identify"
	"weir/internal/clock"
	"weir/internal/logs"
)

// Bounds of the two servers.
const (
	maxConnections        = 128
	maxChecks             = 16 // connections beyond them, for health and readiness alone
	maxControlConnections = 32
	maxStreams            = 16 // of one connection with HTTP/2
	maxHeader             = 16 << 10
	maxBody               = 64 << 10
)

// The names that these bounds have in the metrics.
const (
	boundConsole = "console_connections"
	boundControl = "control_connections"
)

// A Server is the TCP side of the console: pages, the API, metrics and health. New, Listen, Start and Stop are called
// in this order, by one goroutine; Configure at any time.
type Server struct {
	listen  string
	backend Backend
	metrics *Metrics
	log     *slog.Logger
	guard   atomic.Pointer[guard]
	keys    atomic.Pointer[keys.Keys] // nil without TLS
	api     *api
	pages   []*page

	made     time.Time
	refusals logs.Line // of logins, in the log
	lifecycle
}

// New returns a server that has bound nothing yet. It fails if the certificate cannot be read.
func New(o Options, b Backend, m *Metrics, log *slog.Logger) (*Server, error) {
	s := &Server{listen: o.WithDefaults().Listen, backend: b, metrics: m, log: log, pages: consolePages(),
		made: time.Now()}
	if err := s.Configure(o); err != nil {
		return nil, err
	}
	stopping, stop := context.WithCancel(context.Background())
	s.api = newAPI(b, log, stopping)
	s.http = newHTTPServer(s.handler(stopping), log)
	s.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
	s.http.ConnContext = withConn
	s.http.RegisterOnShutdown(stop)
	return s, nil
}

// Configure changes everything but the address.
func (s *Server) Configure(o Options) error {
	commit, err := s.Prepare(o)
	if err == nil {
		commit()
	}
	return err
}

// Prepare does everything of Configure that can fail. The rest is done by the function that it returns.
func (s *Server) Prepare(o Options) (commit func(), err error) {
	o = o.WithDefaults()
	var next *keys.Keys
	if o.TLS != nil {
		next, err = keys.New((&keys.TLS{Cert: o.TLS.Cert, Key: o.TLS.Key}).WithDefaults(), nil, nil,
			keys.Env{Clock: clock.System, Log: s.log, Unusable: func() {}}, s.keys.Load())
		if err != nil {
			return nil, fmt.Errorf("console.tls: %w", err)
		}
	}
	return func() {
		s.keys.Store(next)
		s.guard.Store(newGuard(o))
	}, nil
}

func (s *Server) Listen() error {
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	s.bind(&boundedListener{Listener: l, max: maxConnections, spare: maxChecks, reached: s.turnedAway,
		known: func(a net.Addr) bool { return s.guard.Load().admits(a) },
		many:  func(a netip.Addr) bool { return s.guard.Load().isProxy(a) }})
	s.listener = &tlsListener{s.listener, &s.keys}
	return nil
}

func (s *Server) turnedAway() { s.metrics.BoundReached(boundConsole) }

// A tlsListener speaks TLS while there are keys.
type tlsListener struct {
	net.Listener
	keys *atomic.Pointer[keys.Keys]
}

func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if k := l.keys.Load(); err == nil && k != nil {
		return tls.Server(c, k.Config(clock.System.Now())), nil
	}
	return c, err
}

// contentPolicy is the Content-Security-Policy of all pages: nothing from elsewhere, and no script or style in the page
// itself.
const contentPolicy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; form-action 'self'"

// handler answers requests until stopping ends.
func (s *Server) handler(stopping context.Context) http.Handler {
	open := http.NewServeMux() // for everybody who may connect
	open.HandleFunc("/style.css", style)
	open.HandleFunc("/live.js", script(liveJS))
	open.HandleFunc("/plot.js", script(plotJS))
	open.HandleFunc(healthPath, healthz)
	open.HandleFunc(readyPath, s.readyz)
	open.Handle("/metrics", s.metrics.Handler())
	open.Handle("/debug/pprof/", s.profiles(stopping))
	open.HandleFunc(EnterPath, s.enter)
	open.HandleFunc("/", s.page)

	acts := http.NewServeMux() // they change something
	acts.HandleFunc("POST /login", s.logIn)
	acts.HandleFunc("POST /logout", s.logOut)
	acts.HandleFunc("POST /do/{call}", s.submit)
	calls := s.api.handler(s.identify)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		protect(h, contentPolicy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		health := r.URL.Path == healthPath || r.URL.Path == readyPath
		if b := boundedConnOf(r); b != nil && b.seat == nil {
			h.Set("Connection", "close")
			if !health {
				s.turnedAway()
				writeJSON(w, http.StatusServiceUnavailable, &Error{Msg: "the console has as many connections as it may"})
				return
			}
		}
		if why := s.guard.Load().check(r, health); why != "" {
			h.Set("Connection", "close")
			writeJSON(w, http.StatusForbidden, &Error{Msg: why})
			return
		}
		_, act := acts.Handler(r)
		switch {
		case strings.HasPrefix(r.URL.Path, Prefix+"/"):
			calls.ServeHTTP(w, r)
		case act != "":
			acts.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			writeJSON(w, http.StatusMethodNotAllowed, &Error{Msg: "this only shows something; write GET"})
		default:
			open.ServeHTTP(w, r)
		}
	})
}

// lifecycle is shared by the servers of this package. New, Listen, Start and Stop are called in this order, by one
// goroutine.
type lifecycle struct {
	http     *http.Server
	listener net.Listener // set by Listen
	served   sync.WaitGroup
}

// newHTTPServer returns a server with bounds for small requests and short answers.
func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// bind bounds the connections of a listener. Peers that are not known may take an eighth of the places only, so that
// they cannot lock the others out; known may be nil where everybody is.
func (l *lifecycle) bind(b *boundedListener) {
	if b.known == nil {
		b.known = func(net.Addr) bool { return true }
	}
	l.listener = b
}

// protect sets the headers that every page has.
func protect(h http.Header, policy string) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the address of a page may be a secret
	h.Set("Content-Security-Policy", policy+"; img-src data:; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Cache-Control", "no-store")
}

// Addr is the address that was bound, or nil.
func (l *lifecycle) Addr() net.Addr {
	if l.listener == nil {
		return nil
	}
	return l.listener.Addr()
}

// Start serves until Stop.
func (l *lifecycle) Start() {
	l.served.Go(func() { l.http.Serve(l.listener) })
}

// Unlisten closes the address, so that somebody else can have it at once. Stop must follow.
func (l *lifecycle) Unlisten() {
	if l.listener != nil {
		l.listener.Close()
	}
}

// Stop closes the address and waits for answers under way, until ctx ends. It may be called without Start.
func (l *lifecycle) Stop(ctx context.Context) error {
	l.Unlisten() // the server does not know the listener before it serves
	err := l.http.Shutdown(ctx)
	if err != nil {
		l.http.Close()
	}
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	l.served.Wait()
	return err
}

// boundedListener closes connections beyond a bound at once, or one of the source with most. They do not queue behind
// those that are open.
type boundedListener struct {
	net.Listener
	max   int
	known func(net.Addr) bool
	many  func(netip.Addr) bool // reports whether many are behind a peer; nil: behind none
	// connections beyond max for peers that are known, for checks of health; the newest have them
	spare   int
	reached func()
	crowd   gate.Crowd

	mu     sync.Mutex
	spared []*boundedConn // the oldest first
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		b, oldest := l.admit(c)
		if oldest != nil {
			l.reached()
			oldest.Close()
		}
		if b != nil {
			return b, nil
		}
		l.reached()
		c.Close()
	}
}

// admit returns the connection if there is room for it, and the spare one that has to go for it.
func (l *boundedListener) admit(c net.Conn) (b, oldest *boundedConn) {
	b = &boundedConn{Conn: c, of: l}
	known := l.known(c.RemoteAddr())
	if known || l.crowd.Len() < max(1, l.max/8) {
		b.seat = l.crowd.Enter(l.source(c), l.max, func() {
			l.reached()
			c.Close()
		})
	}
	switch {
	case b.seat != nil:
	case known && l.spare > 0:
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.spared) == l.spare {
			oldest, l.spared = l.spared[0], slices.Delete(l.spared, 0, 1)
		}
		l.spared = append(l.spared, b)
	default:
		b = nil
	}
	return b, oldest
}

// source is whose connection it is, or the zero Addr if it may be that of many.
func (l *boundedListener) source(c net.Conn) netip.Addr {
	peer, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	if addr := identify.Plain(peer.AddrPort().Addr()); l.many == nil || !l.many(addr) {
		return addr
	}
	return netip.Addr{}
}

func (l *boundedListener) leave(c *boundedConn) {
	c.seat.Leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.spared, c); at >= 0 {
		l.spared = slices.Delete(l.spared, at, at+1)
	}
}

type boundedConn struct {
	net.Conn
	of   *boundedListener
	seat *gate.Seat // nil for a spare one
	once sync.Once
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.of.leave(c) })
	return err
}

// boundedConnOf is the connection of a request to a server with withConn.
func boundedConnOf(r *http.Request) *boundedConn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	b, _ := c.(*boundedConn)
	return b
}

// Where health and readiness are asked for, by whatever name: load balancers often do not know any.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// Readiness is the body of /readyz.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why not
}

// healthz says that the process is alive. It checks nothing that a restart would not repair.
func healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
}

// readyz says whether a load balancer should send requests here.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := s.backend.Ready(); err != nil {
		writeJSON(w, http.StatusServiceUnavailable, Readiness{Reason: err.Error()})
		return
	}
	writeJSON(w, http.StatusOK, Readiness{Ready: true})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(body, '\n'))
}
