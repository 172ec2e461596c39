package payer

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/throttle/stamp"
)

// A gate asks for stamps, with a real issuer, and echoes what was paid for.
type gate struct {
	issuer *stamp.Issuer
	ask    stamp.Ask
	covers int
	single bool // a stamp pays for one message
	ids    bool // clients are given an id
	status int  // 0: 503
	page   string
	never  bool // no stamp is good enough

	requests, asked, served, clients atomic.Int64

	mu       sync.Mutex
	verdicts []error
}

func newGate(tb testing.TB) *gate {
	tb.Helper()
	issuer, err := stamp.New(stamp.Options{}, time.Now().Add(-time.Minute))
	if err != nil {
		tb.Fatal(err)
	}
	return &gate{issuer: issuer, ask: stamp.Ask{Work: 256, Lifetime: time.Minute}, covers: 50, page: "pay first"}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.requests.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	ask, client := g.ask, ""
	if c, err := r.Cookie(ClientCookie); err == nil {
		client = c.Value
	}
	if g.single {
		ask.Message = stamp.ID(r.Method, r.URL.RequestURI(), string(body))
	}
	if s := r.Header.Get(StampHeader); s != "" {
		_, err := g.issuer.Verify(r.Context(), time.Now(), s,
			stamp.Demand{Client: client, Message: ask.Message, Covers: g.covers})
		g.mu.Lock()
		g.verdicts = append(g.verdicts, err)
		g.mu.Unlock()
		if err == nil && !g.never {
			g.served.Add(1)
			fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
			return
		}
	}
	if client == "" && g.ids {
		client = fmt.Sprint("c", g.clients.Add(1))
		http.SetCookie(w, &http.Cookie{Name: ClientCookie, Value: client, Path: "/"})
	}
	ask.Client = client
	text, err := g.issuer.Issue(time.Now(), ask)
	if err != nil {
		panic(err)
	}
	g.asked.Add(1)
	w.Header().Set(ChallengeHeader, text)
	w.Header().Set("Retry-After", "3600")
	w.WriteHeader(cmp.Or(g.status, http.StatusServiceUnavailable))
	io.WriteString(w, g.page)
}

// serve lets the gate listen, and returns its URL.
func (g *gate) serve(tb testing.TB) string { return serve(tb, g) }

func serve(tb testing.TB, h http.Handler) string {
	tb.Helper()
	s := httptest.NewServer(h)
	tb.Cleanup(s.Close)
	return s.URL
}

// direct calls a handler without a connection, for tests in which time is made up.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	d.ServeHTTP(rec, in)
	in.Body.Close()
	return rec.Result(), nil
}

// purse counts what is paid.
type purse struct {
	mu     sync.Mutex
	paid   []Payment
	faults []error
}

// of makes a transport that pays from the purse, over connections of its own.
func (p *purse) of(tb testing.TB) *Transport {
	tb.Helper()
	base := &http.Transport{}
	tb.Cleanup(base.CloseIdleConnections)
	return &Transport{
		Base: base,
		Paid: func(_ string, pay Payment) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.paid = append(p.paid, pay)
		},
		Fault: func(_ *http.Request, err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.faults = append(p.faults, err)
		},
	}
}

func get(tb testing.TB, t http.RoundTripper, url string) (int, string) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), "GET", url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return do(tb, t, r)
}

func do(tb testing.TB, t http.RoundTripper, r *http.Request) (int, string) {
	tb.Helper()
	resp, err := t.RoundTrip(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
