package console

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"weir/gate/httpgate/keys"
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
