package demo

import (
	"io"
	"net/http"
	"time"
)

// A service is a web service of fixed capacity. A request that finds every place taken stands in line; one that finds
// the line full gets 503, as from any service that is overrun. Safe for concurrent use.
type service struct {
	work   time.Duration
	inside chan struct{} // one for each request, working or in line
	places chan struct{} // one for each request at work
}

func newService(places, line int, work time.Duration) *service {
	return &service{work: work, inside: make(chan struct{}, places+line), places: make(chan struct{}, places)}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.do(r) {
		http.Error(w, "the service is overrun", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, "Hello from the service behind the gate.\n")
}

// do works on a request and reports whether it could. The place is free again before anybody is answered, so that a
// gate that counts requests under way never counts fewer than there are.
func (s *service) do(r *http.Request) bool {
	select {
	case s.inside <- struct{}{}:
	default:
		return false
	}
	defer func() { <-s.inside }()
	select {
	case s.places <- struct{}{}:
	case <-r.Context().Done():
		return false
	}
	defer func() { <-s.places }()
	time.Sleep(s.work)
	return true
}
