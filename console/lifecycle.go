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

// lifecycle is what the servers of this package share. New, Listen, Start and Stop are called in this order, by one
// goroutine.
type lifecycle struct {
	http     *http.Server
	listener net.Listener // set by Listen
	served   sync.WaitGroup
}

// newHTTPServer returns a server with bounds that suit small questions and short answers.
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

// Stop closes the address and waits for answers under way, until ctx ends. It may be called without Start.
func (l *lifecycle) Stop(ctx context.Context) error {
	if l.listener != nil {
		l.listener.Close() // the server does not know it before it serves
	}
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
