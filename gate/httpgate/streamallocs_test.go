package httpgate

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"weir/internal/testkit/needs"
)

// TestStreamsUseExchangesAgain: a request of HTTP/2 uses the memory of the one before it, as one of HTTP/1 does.
func TestStreamsUseExchangesAgain(t *testing.T) {
	needs.Unwatched(t) // the race detector makes pools forget
	g := start(t, Options{Upstream: to("http://127.0.0.1:1")}, newThrottle(overLimit))
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(withConn(r.Context(), newConn(g.Gate, pipeSocket{ours}, peerOf(pipeSocket{ours}))))
	w := &forgetful{header: http.Header{}}
	allocations := func(major int) float64 {
		r.ProtoMajor = major
		return testing.AllocsPerRun(200, func() {
			clear(w.header)
			g.ServeHTTP(w, r)
		})
	}
	one, two := allocations(1), allocations(2)
	if w.status != http.StatusTooManyRequests {
		t.Errorf("%d", w.status)
	}
	if two > one+1 {
		t.Errorf("%v allocations for a request of HTTP/2, %v for one of HTTP/1", two, one)
	}
}

// forgetful is an answer of which only the status is kept.
type forgetful struct {
	header http.Header
	status int
}

func (w *forgetful) Header() http.Header         { return w.header }
func (w *forgetful) WriteHeader(status int)      { w.status = status }
func (w *forgetful) Write(p []byte) (int, error) { return len(p), nil }
