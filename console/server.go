package console

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
)

// Bounds of the two servers.
const (
	maxConnections        = 128
	maxControlConnections = 32
	maxHeader             = 16 << 10
	maxBody               = 64 << 10
)

// The names that these bounds have in the metrics.
const (
	boundConsole = "console_connections"
	boundControl = "control_connections"
)

// A Server is the TCP side of the console. It changes nothing. New, Listen, Start and Stop are called in this
// order, by one goroutine; Configure at any time.
type Server struct {
	listen  string
	backend Backend
	metrics *Metrics
	guard   atomic.Pointer[guard]
	lifecycle
}

// New returns a server that has bound nothing yet.
func New(o Options, b Backend, m *Metrics, log *slog.Logger) *Server {
	o = o.WithDefaults()
	s := &Server{listen: o.Listen, backend: b, metrics: m}
	s.Configure(o)
	stopping, stop := context.WithCancel(context.Background())
	s.http = newHTTPServer(s.handler(stopping), log)
	s.http.RegisterOnShutdown(stop)
	return s
}

// Configure changes who may connect, by which names, and the password of profiles. The address stays the same.
func (s *Server) Configure(o Options) {
	o = o.WithDefaults()
	s.guard.Store(&guard{allow: o.Allow, hosts: o.Hosts, profiles: profilesSum(o.ProfilesPassword)})
}

func (s *Server) Listen() error {
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	s.bind(l, maxConnections, func(a net.Addr) bool { return s.guard.Load().admits(a) },
		func() { s.metrics.BoundReached(boundConsole) })
	return nil
}

// handler answers requests until stopping ends.
func (s *Server) handler(stopping context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.index)
	mux.HandleFunc("/style.css", style)
	mux.HandleFunc("/live.js", live)
	mux.HandleFunc("/healthz", healthz)
	mux.HandleFunc("/readyz", s.readyz)
	mux.Handle("/metrics", s.metrics.Handler())
	mux.Handle("/debug/pprof/", s.profiles(stopping))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		protect(h, "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'")
		if why := s.guard.Load().check(r); why != "" {
			h.Set("Connection", "close")
			writeJSON(w, http.StatusForbidden, &Error{Msg: why})
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			writeJSON(w, http.StatusMethodNotAllowed, &Error{Msg: "the console only shows; write GET"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}
