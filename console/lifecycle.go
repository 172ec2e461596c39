package console

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

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
