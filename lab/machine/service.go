package machine

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// A Service is a web service of fixed capacity: it works on so many requests at a time, for the same time on each,
// after it has read the body. A request that finds every place taken waits in line, first in, first out. One that finds
// the line full gets 503. It is safe for concurrent use.
type Service struct {
	page    string
	work    time.Duration
	inside  chan struct{} // one for each request, at work or in line
	places  chan struct{} // one for each request at work
	done    atomic.Int64
	notices bool
}

// NewService returns one that answers with a page. notices says whether it notices that a client in line has left; most
// services do not.
func NewService(page string, places, line int, work time.Duration, notices bool) *Service {
	return &Service{page: page, work: work, inside: make(chan struct{}, places+line),
		places: make(chan struct{}, places), notices: notices}
}

// Done is how many requests it has worked on.
func (s *Service) Done() int64 { return s.done.Load() }

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.do(r) {
		http.Error(w, "the service is overrun", http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, s.page)
}

// do works on a request and reports whether it could. The place is free again before the client is answered, so that a
// gate that counts requests under way never counts fewer than there are.
func (s *Service) do(r *http.Request) bool {
	select {
	case s.inside <- struct{}{}:
	default:
		return false
	}
	defer func() { <-s.inside }()
	var left <-chan struct{}
	if s.notices {
		left = r.Context().Done()
	}
	select {
	case s.places <- struct{}{}: // those who wait to send are served in order
	case <-left:
		return false
	}
	defer func() { <-s.places }()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return false // nobody will read the answer
	}
	time.Sleep(s.work)
	s.done.Add(1)
	return true
}

// Serve serves a handler on a free port of the loopback until stop is called.
func Serve(h http.Handler) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go server.Serve(l)
	return l.Addr().String(), func() { server.Close() }, nil
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// Ask sends a request and reads the answer, so that its connection can be used again.
func Ask(send func(*http.Request) (*http.Response, error), req *http.Request) (status int, h http.Header, body []byte,
	err error) {
	resp, err := send(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, resp.Header, body, err
}

// Sleep waits for a while. It reports false if ctx ended before.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
