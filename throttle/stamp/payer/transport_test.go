package payer

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/throttle/stamp"
)

// TestPays: what is asked is paid once, and the stamp is good for what follows.
func TestPays(t *testing.T) {
	for _, ids := range []bool{false, true} {
		t.Run(fmt.Sprintf("ids %v", ids), func(t *testing.T) {
			g := newGate(t)
			g.ids = ids
			url, p := g.serve(t), &purse{}
			tr := p.of(t)
			for i := range 5 {
				path := fmt.Sprintf("/%d", i)
				if code, body := get(t, tr, url+path); code != 200 || body != "GET "+path+" " {
					t.Fatalf("%d %q", code, body)
				}
			}
			if g.asked.Load() != 1 || len(p.paid) != 1 || p.faults != nil {
				t.Errorf("asked %d times, paid %v, %v", g.asked.Load(), p.paid, p.faults)
			}
			if paid := p.paid[0]; paid.Work != 256 || paid.Algorithm != stamp.SHA256K || paid.Operations == 0 ||
				paid.Stamp == "" {
				t.Errorf("%+v", paid)
			}
		})
	}
}

// TestUsedUp: a stamp that is used up is followed by another, and that does not count as refused.
func TestUsedUp(t *testing.T) {
	g := newGate(t)
	g.covers, g.ids = 3, true
	url, p := g.serve(t), &purse{}
	tr := p.of(t)
	tr.MaxTries = 1
	for range 10 {
		if code, _ := get(t, tr, url); code != 200 {
			t.Fatal(code)
		}
	}
	if len(p.paid) != 4 || g.clients.Load() != 1 {
		t.Errorf("%d stamps by %d clients", len(p.paid), g.clients.Load())
	}
}

// TestTooManyRequests: a limit that one may pay to exceed answers 429.
func TestTooManyRequests(t *testing.T) {
	g := newGate(t)
	g.status = http.StatusTooManyRequests
	if code, _ := get(t, (&purse{}).of(t), g.serve(t)); code != 200 {
		t.Error(code)
	}
}

// TestSingle: a stamp that pays for one message pays for no other, and is not sent along with one.
func TestSingle(t *testing.T) {
	g := newGate(t)
	g.single, g.covers, g.ids = true, 1, true
	url, p := g.serve(t), &purse{}
	tr := p.of(t)
	for _, path := range []string{"/a", "/a", "/b"} {
		if code, body := get(t, tr, url+path); code != 200 || body != "GET "+path+" " {
			t.Fatalf("%d %q", code, body)
		}
	}
	if len(p.paid) != 3 || g.asked.Load() != 3 || len(g.verdicts) != 3 || errors.Join(g.verdicts...) != nil ||
		g.clients.Load() != 1 {
		t.Errorf("paid %d, asked %d, verdicts %v, clients %d", len(p.paid), g.asked.Load(), g.verdicts,
			g.clients.Load())
	}
}

// onlyReader hides what a body is, so that it cannot be had again.
type onlyReader struct {
	io.Reader
	closed atomic.Int64
}

func (r *onlyReader) Close() error { r.closed.Add(1); return nil }

// TestBodies: what can be sent again is; of the rest the answer is returned as it came.
func TestBodies(t *testing.T) {
	largest := strings.Repeat("x", MaxBody)
	for name, c := range map[string]struct {
		body   string
		length int64
		again  bool
	}{
		"of known length": {"hello", 5, true},
		"the largest":     {largest, MaxBody, true},
		"too large":       {largest + "x", MaxBody + 1, false},
		"unknown length":  {"hello", -1, false},
		"nothing said":    {"hello", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			p, body := &purse{}, &onlyReader{Reader: strings.NewReader(c.body)}
			r, _ := http.NewRequestWithContext(t.Context(), "POST", g.serve(t)+"/form", nil)
			r.Body, r.ContentLength = body, c.length
			code, answer := do(t, p.of(t), r)
			switch {
			case c.again && (code != 200 || answer != "POST /form "+c.body || len(p.paid) != 1 || p.faults != nil):
				t.Errorf("%d %.50q, paid %d, %v", code, answer, len(p.paid), p.faults)
			case !c.again && (code != 503 || answer != g.page || len(p.paid) != 0 ||
				!slices.Equal(p.faults, []error{ErrBody})):
				t.Errorf("%d %.50q, paid %d, %v", code, answer, len(p.paid), p.faults)
			}
			if body.closed.Load() == 0 {
				t.Error("the body was not closed")
			}
		})
	}
	t.Run("GetBody", func(t *testing.T) {
		g := newGate(t)
		large := strings.Repeat("y", 3*MaxBody)
		r, _ := http.NewRequestWithContext(t.Context(), "PUT", g.serve(t)+"/file", strings.NewReader(large))
		if code, answer := do(t, (&purse{}).of(t), r); code != 200 || answer != "PUT /file "+large {
			t.Errorf("%d, %d bytes", code, len(answer))
		}
	})
	t.Run("fails", func(t *testing.T) {
		g := newGate(t)
		r, _ := http.NewRequestWithContext(t.Context(), "POST", g.serve(t), nil)
		body := &onlyReader{Reader: io.MultiReader(strings.NewReader("ab"), iotestErr{})}
		r.Body, r.ContentLength = body, 5
		if _, err := (&purse{}).of(t).RoundTrip(r); err != io.ErrClosedPipe || body.closed.Load() == 0 {
			t.Errorf("%v, closed %d times", err, body.closed.Load())
		}
		r.Body, r.ContentLength = &onlyReader{Reader: strings.NewReader("ab")}, 5
		if _, err := (&purse{}).of(t).RoundTrip(r); err == nil {
			t.Error("a length that is wrong is passed over")
		}
	})
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestUnchanged: the caller's request stays as it was, and the answer says it was that one.
func TestUnchanged(t *testing.T) {
	g := newGate(t)
	g.ids = true
	tr, url := (&purse{}).of(t), g.serve(t)
	for range 2 {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader("hello"))
		r.Header.Set("Cookie", "a=b; odd value; "+ClientCookie+"x=1")
		before, body := maps.Clone(r.Header), r.Body
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || resp.Request != r || r.Body != body ||
			!maps.EqualFunc(before, r.Header, slices.Equal[[]string]) {
			t.Errorf("%d, %v", resp.StatusCode, r.Header)
		}
	}
}

// TestConnection: the answer that asks is read, so that its connection is used again.
func TestConnection(t *testing.T) {
	g := newGate(t)
	g.page = strings.Repeat("z", maxAside)
	s := httptest.NewUnstartedServer(g)
	var conns atomic.Int64
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	tr := (&purse{}).of(t)
	for range 3 {
		if code, _ := get(t, tr, s.URL); code != 200 {
			t.Error(code)
		}
	}
	tr.CloseIdleConnections()
	if conns.Load() != 1 {
		t.Errorf("%d connections", conns.Load())
	}
}

// TestAsItCame: what is no challenge, or cannot be read, is returned at once and whole.
func TestAsItCame(t *testing.T) {
	g := newGate(t)
	good, err := g.issuer.Issue(g.issuer.Parts().Since, g.ask)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := base64.RawURLEncoding.DecodeString(good)
	raw[1] = 99
	unknown := base64.RawURLEncoding.EncodeToString(raw)
	dlog, err := g.issuer.Issue(g.issuer.Parts().Since, stamp.Ask{Algorithm: stamp.DLog, Work: 64, Lifetime: 60e9})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ = base64.RawURLEncoding.DecodeString(dlog)
	copy(raw[len(raw)-16-96:], bytes.Repeat([]byte{255}, 96))
	outside := base64.RawURLEncoding.EncodeToString(raw)
	for name, c := range map[string]struct {
		status    int
		challenge string
		page      int
		fault     error
	}{
		"overloaded":       {503, "", 10, nil},
		"another answer":   {200, good, 10, nil},
		"refused":          {403, good, 10, nil},
		"nonsense":         {503, "nonsense", 10, stamp.ErrMalformed},
		"a new algorithm":  {503, unknown, 10, stamp.ErrMalformed},
		"not solvable":     {503, outside, 10, stamp.ErrMalformed},
		"at the bound":     {503, outside, maxAside, stamp.ErrMalformed},
		"beyond the bound": {503, outside, maxAside + 1, stamp.ErrMalformed},
		"huge":             {503, outside, 10 * maxAside, stamp.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			page := strings.Repeat("p", c.page)
			var requests atomic.Int64
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				if c.challenge != "" {
					w.Header().Set(ChallengeHeader, c.challenge)
				}
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(c.status)
				io.WriteString(w, page)
			}))
			p := &purse{}
			code, body := get(t, p.of(t), url)
			if code != c.status || body != page || requests.Load() != 1 {
				t.Errorf("%d, %d bytes, %d requests", code, len(body), requests.Load())
			}
			if err := errors.Join(p.faults...); !errors.Is(err, c.fault) {
				t.Errorf("told %v", p.faults)
			}
		})
	}
}

// TestRefused: when no stamp is good enough, a few are tried, and then the answer is returned.
func TestRefused(t *testing.T) {
	for tries, want := range map[int]int64{0: 2, -1: 2, 1: 1, 4: 4} {
		g := newGate(t)
		g.never = true
		p := &purse{}
		tr := p.of(t)
		tr.MaxTries = tries
		if code, body := get(t, tr, g.serve(t)); code != 503 || body != g.page {
			t.Errorf("%d %q", code, body)
		}
		if int64(len(p.paid)) != want || g.requests.Load() != want+1 {
			t.Errorf("tries %d: paid %d, %d requests", tries, len(p.paid), g.requests.Load())
		}
	}
}

// TestTooDear: what no machine could do in time is not begun.
func TestTooDear(t *testing.T) {
	for alg, work := range map[stamp.Algorithm]stamp.Work{stamp.SHA256K: stamp.MaxWork, stamp.EQS60: stamp.MaxWork,
		stamp.DLog: 1 << 33} {
		g := newGate(t)
		g.ask.Algorithm, g.ask.Work = alg, work
		p := &purse{}
		_, err := (&http.Client{Transport: p.of(t)}).Get(g.serve(t))
		dear, ok := errors.AsType[*TooDearError](err)
		if !ok || !errors.Is(err, ErrTooDear) || dear.Work != work || dear.Algorithm != alg {
			t.Errorf("%s: %v", alg, err)
		}
		if len(p.paid) != 0 || g.requests.Load() != 1 {
			t.Errorf("%s: %d requests", alg, g.requests.Load())
		}
	}
}

// TestOwnStamp: who sends a stamp is left alone.
func TestOwnStamp(t *testing.T) {
	g := newGate(t)
	p := &purse{}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", g.serve(t), nil)
	r.Header.Set(StampHeader, "mine")
	if code, _ := do(t, p.of(t), r); code != 503 || len(p.paid) != 0 || len(g.verdicts) != 1 {
		t.Errorf("%d, paid %d, %v", code, len(p.paid), g.verdicts)
	}
}

// TestOwnID: a caller with an id of its own pays for that one, and stamps of different ids are not mixed up.
func TestOwnID(t *testing.T) {
	g := newGate(t)
	g.ids = true
	url, p := g.serve(t), &purse{}
	tr := p.of(t)
	for _, id := range []string{"me", "you", "me", "you", "me"} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		r.AddCookie(&http.Cookie{Name: ClientCookie, Value: id})
		if code, _ := do(t, tr, r); code != 200 {
			t.Fatal(code)
		}
	}
	if len(p.paid) != 2 || errors.Join(g.verdicts...) != nil {
		t.Errorf("paid %d, %v", len(p.paid), g.verdicts)
	}
}

// TestHosts: a stamp goes to the host that asked for it, and to no other.
func TestHosts(t *testing.T) {
	a, b := newGate(t), newGate(t)
	tr := (&purse{}).of(t)
	for _, url := range []string{a.serve(t), b.serve(t)} {
		for range 2 {
			if code, _ := get(t, tr, url); code != 200 {
				t.Error(code)
			}
		}
	}
	for _, g := range []*gate{a, b} {
		if len(g.verdicts) != 2 || errors.Join(g.verdicts...) != nil || g.requests.Load() != 3 {
			t.Errorf("%v, %d requests", g.verdicts, g.requests.Load())
		}
	}
}

// TestShared: many that are asked at the same time share the work, also where each was given an id of its own.
func TestShared(t *testing.T) {
	const n = 20
	for _, covers := range []int{n, 7} {
		g := newGate(t)
		g.ids, g.covers = true, covers
		var all sync.WaitGroup
		all.Add(n)
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(StampHeader) == "" {
				all.Done()
				all.Wait() // all are on their way before the first is asked
			}
			g.ServeHTTP(w, r)
		}))
		p := &purse{}
		tr := p.of(t)
		tr.MaxTries = n
		var done sync.WaitGroup
		for i := range n {
			done.Go(func() {
				path := fmt.Sprintf("/%d", i)
				if code, body := get(t, tr, url+path); code != 200 || body != "GET "+path+" " {
					t.Errorf("%d %q", code, body)
				}
			})
		}
		done.Wait()
		if want := (n + covers - 1) / covers; len(p.paid) != want || g.served.Load() != n {
			t.Errorf("each covers %d: paid %d, served %d", covers, len(p.paid), g.served.Load())
		}
	}
}

// TestRounds: a request whose stamps others use up each time is not sent for ever.
func TestRounds(t *testing.T) {
	g, p := newGate(t), &purse{}
	g.ask.Work = 16
	tr := p.of(t)
	var unlucky atomic.Int64
	var url string
	url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/unlucky" {
			unlucky.Add(1)
			if r.Header.Get(StampHeader) != "" {
				if code, _ := get(t, tr, url+"/lucky"); code != 200 {
					t.Error(code)
				}
			}
			r.Header.Del(StampHeader)
		}
		g.ServeHTTP(w, r)
	}))
	if code, _ := get(t, tr, url+"/unlucky"); code != 503 {
		t.Error(code)
	}
	if unlucky.Load() != maxRounds+1 || len(p.paid) != maxRounds {
		t.Errorf("sent %d times, paid %d", unlucky.Load(), len(p.paid))
	}
}

// TestWallets: no more hosts are remembered than the bound.
func TestWallets(t *testing.T) {
	var s wallets
	for i := range maxWallets + 1 {
		k := key{address: fmt.Sprint(i)}
		if s.find(k) != nil || s.open(k) == nil || s.find(k) == nil || s.open(k) != s.find(k) {
			t.Fatal(i)
		}
	}
	if len(s.all) != maxWallets {
		t.Errorf("%d hosts", len(s.all))
	}
}

// TestNoRequest: what is no request is told so by the transport below.
func TestNoRequest(t *testing.T) {
	if _, err := (&Transport{}).RoundTrip((&http.Request{}).WithContext(context.Background())); err == nil {
		t.Error("a request to nowhere")
	}
}
