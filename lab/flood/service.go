package flood

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A service is a web service of fixed capacity: it works on so many requests at a time, for the same time on each. A
// request that finds every place taken waits in line, first in, first out; one that finds the line full gets 503. Like
// most services, it does not notice that whoever asked has left. Safe for concurrent use.
type service struct {
	work   time.Duration
	inside chan struct{} // one for each request, at work or in line
	places chan struct{} // one for each request at work
	done   atomic.Int64  // requests that were worked on

	listener net.Listener
	server   *http.Server
}

func newService(o Options) *service {
	return &service{work: o.Work, inside: make(chan struct{}, o.Concurrent+o.Queue),
		places: make(chan struct{}, o.Concurrent)}
}

func startService(o Options) (*service, error) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		return nil, err
	}
	s := newService(o)
	s.listener = l
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go s.server.Serve(l)
	return s, nil
}

func (s *service) address() string { return s.listener.Addr().String() }

// stop closes the service. Nobody is there any more who waits for an answer.
func (s *service) stop() { s.server.Close() }

func (s *service) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	select {
	case s.inside <- struct{}{}:
	default:
		http.Error(w, "the service is overrun", http.StatusServiceUnavailable)
		return
	}
	s.places <- struct{}{} // who waits to send is served in order
	time.Sleep(s.work)
	s.done.Add(1)
	// The place is free before anybody is answered, so that a front that counts requests under way never counts fewer
	// than there are.
	<-s.places
	<-s.inside
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	io.WriteString(w, "<!doctype html><title>The service</title><p>Hello from the service.\n")
}
