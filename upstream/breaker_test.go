package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// fickle is a server whose answers the test chooses.
type fickle struct {
	status atomic.Int32
	asked  atomic.Int32
	holds  atomic.Bool
	held   chan chan bool // a request that is held, and what lets it go on
}

func newFickle(t testing.TB) (*fickle, string) {
	f := &fickle{held: make(chan chan bool, 100)}
	f.status.Store(200)
	return f, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		f.asked.Add(1)
		if f.holds.Load() {
			goOn := make(chan bool)
			f.held <- goOn
			select {
			case <-goOn:
			case <-r.Context().Done():
				return
			}
		}
		w.WriteHeader(int(f.status.Load()))
		_, _ = io.WriteString(w, "fickle")
	}).URL
}

// TestStatusesAreFailures: answers that the operator names count as failures in a row, and no others.
func TestStatusesAreFailures(t *testing.T) {
	f, url := newFickle(t)
	p := start(t, Options{Servers: []string{url, named(t, "good")}, Balance: First,
		Health: Health{Statuses: []int{500, 503}}})
	ask := func(status int32, well bool) {
		t.Helper()
		f.status.Store(status)
		if res, _, err := p.get("/"); err != nil || res.StatusCode != int(status) {
			t.Fatal(res, err)
		}
		if p.Stats()[0].Well != well {
			t.Fatalf("after %d: %+v", status, p.Stats()[0])
		}
	}
	for _, status := range []int32{404, 408, 429, 502, 404, 500, 503, 404, 503, 500, 200} {
		ask(status, true) // no three in a row
	}
	ask(500, true)
	ask(503, true)
	ask(500, false)
	if _, body, _ := p.get("/"); body != "good" {
		t.Error(body)
	}
	if got, n := p.seen.String(), p.Stats()[0].Failures; n != 7 || strings.Count(got, "failed status") != 7 ||
		strings.Count(got, "well false") != 1 {
		t.Errorf("%d: %s", n, got)
	}
}

// TestOneTryAtATime: a server that was out is tried by one request, while the others go elsewhere.
func TestOneTryAtATime(t *testing.T) {
	f, url := newFickle(t)
	p := start(t, Options{Servers: []string{url, named(t, "good")}, Balance: First,
		Health: Health{Statuses: []int{500}, Unhealthy: 1, Every: weir.Duration(10 * time.Second)}})
	f.status.Store(500)
	_, _, _ = p.get("/")
	f.holds.Store(true)
	p.clock.Advance(10 * time.Second)
	var all sync.WaitGroup
	var elsewhere, tried atomic.Int32
	ask := func(n int) {
		for range n {
			all.Go(func() {
				switch _, body, err := p.get("/"); {
				case err != nil:
					t.Error(err)
				case body == "good":
					elsewhere.Add(1)
				default:
					tried.Add(1)
				}
			})
		}
	}
	ask(50)
	goOn := receive(t, f.held)
	needs.Wait(t, "the others have gone elsewhere", func() bool { return elsewhere.Load() == 49 })
	// The one that tries may take long; a client must not keep the server out by that.
	p.clock.Advance(10 * time.Second)
	ask(50)
	second := receive(t, f.held)
	needs.Wait(t, "the others have gone elsewhere", func() bool { return elsewhere.Load() == 98 })
	f.status.Store(200)
	close(goOn)
	needs.Wait(t, "it is back", func() bool { return p.Stats()[0].Well && tried.Load() == 1 })
	close(second)
	all.Wait()
	f.holds.Store(false)
	if _, body, err := p.get("/"); body != "fickle" || err != nil || f.asked.Load() != 4 {
		t.Errorf("%q %v, asked %d times", body, err, f.asked.Load())
	}
}

// TestTryThatSaysNothing: if the client of the one try leaves, the next request tries the server.
func TestTryThatSaysNothing(t *testing.T) {
	f, url := newFickle(t)
	p := start(t, Options{Servers: []string{url, named(t, "good")}, Balance: First,
		Health: Health{Statuses: []int{500}, Unhealthy: 1, Every: weir.Duration(10 * time.Second)}})
	f.status.Store(500)
	_, _, _ = p.get("/")
	f.status.Store(200)
	p.clock.Advance(10 * time.Second)
	f.holds.Store(true)
	for range 3 {
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := p.RoundTrip(request(t, "GET", "/", nil).WithContext(ctx))
			done <- err
		}()
		receive(t, f.held)
		if _, body, _ := p.get("/"); body != "good" {
			t.Errorf("two at a time: %q", body)
		}
		leave()
		if err := receive(t, done); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	f.holds.Store(false)
	if _, body, err := p.get("/"); body != "fickle" || err != nil {
		t.Errorf("%q %v", body, err)
	}
}

// TestFailFast: with no healthy server a request is refused at once, and says when it is worth another try.
func TestFailFast(t *testing.T) {
	f, url := newFickle(t)
	for _, others := range [][]string{nil, {dead()}} {
		f.status.Store(500)
		f.asked.Store(0)
		p := start(t, Options{Servers: append([]string{url}, others...), Balance: First,
			Health:  Health{Statuses: []int{500}, Unhealthy: 1, Every: weir.Duration(10 * time.Second), FailFast: true},
			Retries: Retries{On: []string{"connect", "500"}}})
		for _, s := range p.servers()[1:] {
			s.failed(p.Pool, FailConnect)
		}
		_, _, _ = p.get("/")
		for range 20 {
			p.clock.Advance(time.Second / 4)
			_, _, err := p.get("/")
			if none, ok := errors.AsType[*UnavailableError](err); !ok || none.Why != NoneHealthy ||
				none.After > 10*time.Second || none.After < 5*time.Second {
				t.Fatalf("%#v", err)
			}
		}
		if f.asked.Load() != 1 {
			t.Errorf("asked %d times", f.asked.Load())
		}
		f.status.Store(200)
		p.clock.Advance(5 * time.Second)
		if _, body, err := p.get("/"); body != "fickle" || err != nil || !p.Stats()[0].Well {
			t.Errorf("%q %v", body, err)
		}
	}
	// With checks it is not known when.
	p := start(t, Options{Servers: []string{url}, Health: Health{Path: "/", Statuses: []int{500}, Unhealthy: 1,
		FailFast: true}})
	f.status.Store(500)
	_, _, _ = p.get("/")
	_, _, err := p.get("/")
	if none, ok := errors.AsType[*UnavailableError](err); !ok || none.After != 5*time.Second {
		t.Errorf("%#v", err)
	}
	f.status.Store(200)
	for range 2 {
		pending := p.clock.Pending()
		p.clock.Advance(5 * time.Second)
		needs.Wait(t, "the next check", func() bool { return p.clock.Pending() == pending })
	}
	if _, body, err := p.get("/"); body != "fickle" || err != nil {
		t.Errorf("%q %v", body, err)
	}
}

// TestConcurrentBound: a server gets as many requests at once as it may. One more goes to the next, and then to none.
func TestConcurrentBound(t *testing.T) {
	a, first := newFickle(t)
	b, second := newFickle(t)
	a.holds.Store(true)
	b.holds.Store(true)
	for _, scheme := range []string{"http:", "h2c:"} {
		p := start(t, Options{Servers: []string{strings.Replace(first, "http:", scheme, 1),
			strings.Replace(second, "http:", scheme, 1)}, Balance: First, Concurrent: 3})
		var all sync.WaitGroup
		ask := func() {
			all.Go(func() {
				if _, body, err := p.get("/"); body != "fickle" || err != nil {
					t.Errorf("%q %v", body, err)
				}
			})
		}
		var held []chan bool
		for i := range 6 {
			ask()
			from := a.held
			if i >= 3 {
				from = b.held
			}
			held = append(held, receive(t, from))
		}
		_, _, err := p.get("/")
		if none, ok := errors.AsType[*UnavailableError](err); !ok || none.Why != NoneFree || none.After != time.Second {
			t.Errorf("one more: %v", err)
		}
		if got := p.seen.String(); got != "bound "+BoundConcurrent {
			t.Error(got)
		}
		close(held[5])
		needs.Wait(t, "one is done", func() bool { return p.Stats()[1].Active == 2 })
		ask()
		held[5] = receive(t, b.held)
		for _, goOn := range held {
			close(goOn)
		}
		all.Wait()
		p.idle()
	}
}

// TestConcurrentRace: the bound holds for requests that come at the same moment.
func TestConcurrentRace(t *testing.T) {
	var now, most atomic.Int32
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		now.Add(-1)
	}).URL
	p := start(t, Options{Servers: []string{url}, Concurrent: 2})
	s := p.servers()[0]
	var entered int64
	for range 4 { // all were given the server while it had room
		if _, ok := s.enter(p.Pool, true); ok {
			entered++
		}
	}
	if entered != 2 {
		t.Errorf("%d of four at once", entered)
	}
	s.active.Add(-entered)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				_, _, err := p.get("/")
				if _, full := errors.AsType[*UnavailableError](err); err != nil && !full {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most.Load() > 2 || p.idle() < 0 {
		t.Errorf("%d at once", most.Load())
	}
}

// A blamed caller says what of the request has come.
type blamed struct {
	caller
	received bool
}

func (b *blamed) Received() bool { return b.received }

// TestClientsDoNotBreak: what a client causes never counts against a server: it leaves, breaks its body off, sends it
// so slowly that the server hangs up, reads so slowly that the server hangs up, or asks for an answer that is too
// large.
func TestClientsDoNotBreak(t *testing.T) {
	noneLeft(t)
	hangsUp := script(t, func(_ net.Conn, br *bufio.Reader) {
		if r, err := http.ReadRequest(br); err == nil {
			_, _ = io.ReadFull(r.Body, make([]byte, 1))
		}
	})
	broken := errors.New("the client broke its body off")
	f, url := newFickle(t)
	f.holds.Store(true)
	for name, c := range map[string]struct {
		server string
		act    func(p *rig)
		counts bool
	}{
		"leaves": {url, func(p *rig) {
			ctx, leave := context.WithCancel(t.Context())
			go func() { <-f.held; leave() }()
			_, _ = p.RoundTrip(request(t, "GET", "/", nil).WithContext(ctx))
		}, false},
		"breaks its body off": {url, func(p *rig) {
			body := &trickle{pieces: make(chan string, 1), ends: broken}
			body.pieces <- "x"
			close(body.pieces)
			r := request(t, "POST", "/", body)
			r.ContentLength = 100
			if _, _, err := p.do(r); err != broken {
				t.Error(err)
			}
		}, false},
		"sends slowly": {hangsUp, func(p *rig) {
			body := &trickle{pieces: make(chan string, 1), ends: broken}
			defer close(body.pieces)
			body.pieces <- "x"
			r := request(t, "POST", "/", body)
			r.ContentLength = 100
			if _, err := p.Do(r, &blamed{received: false}); err == nil {
				t.Error("answered")
			}
		}, false},
		"has sent all": {hangsUp, func(p *rig) {
			if _, err := p.Do(request(t, "POST", "/", strings.NewReader("x")), &blamed{received: true}); err == nil {
				t.Error("answered")
			}
		}, true},
		"reads slowly": {says(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", 1), func(p *rig) {
			if _, _, err := p.get("/"); err == nil {
				t.Error("half an answer")
			}
		}, false},
		"asks for a large answer": {says(t, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", maxHead)+"\r\n\r\n", 1), func(p *rig) {
			if _, _, err := p.get("/"); err == nil {
				t.Error("taken")
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, To(c.server))
			for range 5 {
				c.act(p)
			}
			if well := p.Stats()[0].Well; well == c.counts {
				t.Errorf("%+v, %s", p.Stats()[0], p.seen)
			}
		})
	}
}

// TestGoodAnswersBetweenChecks: with checks, too, only failures in a row count. Good answers do not make up for a check
// that failed.
func TestGoodAnswersBetweenChecks(t *testing.T) {
	var fails atomic.Bool
	url := script(t, func(c net.Conn, br *bufio.Reader) {
		if r, err := http.ReadRequest(br); err == nil && !(fails.Load() || r.URL.Path == "/healthz") {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngood")
		}
	})
	p := start(t, Options{Servers: []string{url}, Health: Health{Path: "/healthz", Unhealthy: 2}})
	for range 5 {
		fails.Store(true)
		_, _, _ = p.get("/")
		fails.Store(false)
		if _, body, err := p.get("/"); body != "good" || err != nil || !p.Stats()[0].Well {
			t.Fatalf("%q %v %+v", body, err, p.Stats())
		}
	}
	s := p.servers()[0]
	p.check(s)
	if _, body, err := p.get("/"); body != "good" || err != nil {
		t.Fatal(body, err)
	}
	if p.check(s); p.Stats()[0].Well {
		t.Error("two checks failed in a row")
	}
}

// TestHealthOptions: mistakes have a path and a hint.
func TestHealthOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"health.statuses[0]": {Health: Health{Statuses: []int{499}}},
		"health.statuses[1]": {Health: Health{Statuses: []int{500, 600}}},
		"health.statuses[2]": {Health: Health{Statuses: []int{500, 503, 500}}},
		"concurrent":         {Concurrent: MaxConcurrent + 1},
	} {
		o.Servers = []string{"http://a"}
		all := weir.FieldErrors(o.Validate())
		if len(all) != 1 || all[0].Path != want || all[0].Hint == "" {
			t.Errorf("%s: %v", want, all)
		}
	}
}
