package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// TestConditions: which ends of a try are followed by another one.
func TestConditions(t *testing.T) {
	usual := newConditions(new(Options{}.WithDefaults().Retries))
	all := newConditions(&Retries{Budget: new(weir.Share(1)), On: []string{"connect", "broken", "timeout", "500", "502",
		"503", "504"}})
	none := newConditions(&Retries{Budget: new(weir.Share(0)), On: []string{"connect", "503"}})
	for name, c := range map[string]struct {
		end        end
		usual, all bool
	}{
		"no connection":              {end{why: FailConnect}, true, true},
		"no connection, comes twice": {end{why: FailConnect, twice: true}, true, true},
		"broken":                     {end{why: FailBroken, reached: true, twice: true}, true, true},
		"broken, must not twice":     {end{why: FailBroken, reached: true}, false, false},
		"broken, body gone":          {end{why: FailBroken, reached: true, twice: true, consumed: true}, false, false},
		"broken in an answer":        {end{why: FailBroken, reached: true, twice: true, seen: true}, false, false},
		"too late":                   {end{why: FailTimeout, reached: true, twice: true}, true, true},
		"malformed":                  {end{why: FailMalformed, reached: true, twice: true}, false, false},
		"503":                        {end{why: FailStatus, status: 503, reached: true, twice: true}, false, true},
		"503, must not twice":        {end{why: FailStatus, status: 503, reached: true}, false, false},
		"503, body gone":             {end{why: FailStatus, status: 503, reached: true, twice: true, consumed: true}, false, false},
		"501":                        {end{why: FailStatus, status: 501, reached: true, twice: true}, false, false},
		"404":                        {end{why: FailStatus, status: 404, reached: true, twice: true}, false, false},
		"999":                        {end{why: FailStatus, status: 999, reached: true, twice: true}, false, false},
	} {
		if usual.allow(c.end) != c.usual || all.allow(c.end) != c.all || none.allow(c.end) {
			t.Errorf("%s: %t, %t, %t", name, usual.allow(c.end), all.allow(c.end), none.allow(c.end))
		}
	}
}

// answers is a server that answers with a status, and counts.
func answers(t testing.TB, status int, asked *atomic.Int32, header ...string) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked.Add(1)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "an answer of the first")
	}).URL
}

// echoes is a server that answers with what it was asked.
func echoes(t testing.TB) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q %s", r.Method, body, r.Trailer.Get("X-Sum"))
	}).URL
}

// TestRetryOnStatus: an answer that the operator names is asked for elsewhere, and nothing of it is passed on.
func TestRetryOnStatus(t *testing.T) {
	noneLeft(t)
	var asked atomic.Int32
	for name, c := range map[string]struct {
		status       int
		retries      Retries
		method, body string
		want         string // empty: the answer of the first
	}{
		"not asked for":       {503, Retries{}, "GET", "", ""},
		"503":                 {503, Retries{On: []string{"503"}}, "GET", "", `GET ""`},
		"502":                 {502, Retries{On: []string{"connect", "502"}}, "GET", "", `GET ""`},
		"another status":      {503, Retries{On: []string{"502"}}, "GET", "", ""},
		"POST":                {503, Retries{On: []string{"503"}}, "POST", "", ""},
		"POST, allowed":       {503, Retries{On: []string{"503"}, Methods: []string{"POST"}}, "POST", "", `POST ""`},
		"a body":              {503, Retries{On: []string{"503"}}, "PUT", "hello", ""},
		"a body that is kept": {503, Retries{On: []string{"503"}, Body: 5}, "PUT", "hello", `PUT "hello"`},
		"a body too large":    {503, Retries{On: []string{"503"}, Body: 4}, "PUT", "hello", ""},
		"POST with a body": {503, Retries{On: []string{"503"}, Methods: []string{"POST"}, Body: 100}, "POST", "hello",
			`POST "hello"`},
		"no budget": {503, Retries{On: []string{"503"}, Budget: new(weir.Share(0))}, "GET", "", ""},
	} {
		for _, scheme := range []string{"http:", "h2c:"} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				first, second := answers(t, c.status, &asked), echoes(t)
				p := start(t, Options{Servers: []string{strings.Replace(first, "http:", scheme, 1),
					strings.Replace(second, "http:", scheme, 1)}, Balance: First, Retries: c.retries})
				asked.Store(0)
				var src io.Reader
				if c.body != "" {
					src = strings.NewReader(c.body)
				}
				res, body, err := p.do(request(t, c.method, "/", src))
				switch {
				case err != nil || asked.Load() != 1:
					t.Fatalf("%v, asked %d times", err, asked.Load())
				case c.want == "" && (res.StatusCode != c.status || body != "an answer of the first"):
					t.Errorf("%d %q", res.StatusCode, body)
				case c.want != "" && (res.StatusCode != 200 || strings.TrimSpace(body) != c.want):
					t.Errorf("%d %q", res.StatusCode, body)
				}
				if retried := c.want != ""; strings.Contains(p.seen.String(), "retried") != retried {
					t.Error(p.seen)
				}
				p.idle()
				if p.Kept() != 0 || !p.Stats()[0].Well || p.Stats()[0].Failures != 0 {
					t.Errorf("%d kept, %+v", p.Kept(), p.Stats())
				}
			})
		}
	}
}

// TestRetryOnStatusOfAll: if the others say the same, or cannot be asked, the last answer counts.
func TestRetryOnStatusOfAll(t *testing.T) {
	var asked atomic.Int32
	p := start(t, Options{Servers: []string{answers(t, 503, &asked), answers(t, 502, &asked), answers(t, 503, &asked)},
		Balance: First, Retries: Retries{On: []string{"502", "503"}, Servers: 5}})
	if res, body, err := p.get("/"); err != nil || res.StatusCode != 503 || body != "an answer of the first" || asked.Load() != 3 {
		t.Errorf("%v %q %v, asked %d times", res, body, err, asked.Load())
	}
	// Only healthy servers are asked after an answer: one that is out would give a worse one.
	p = start(t, Options{Servers: []string{answers(t, 503, &asked), dead()}, Balance: First,
		Health: Health{Unhealthy: 1}, Retries: Retries{On: []string{"503"}}})
	p.servers()[1].failed(p.Pool, FailConnect)
	asked.Store(0)
	if res, _, err := p.get("/"); err != nil || res.StatusCode != 503 || asked.Load() != 1 {
		t.Errorf("%v %v", res, err)
	}
}

// TestRetryAfter: a server that says when to come again is not asked sooner by another try. Other requests go there:
// what one client is told does not concern them.
func TestRetryAfter(t *testing.T) {
	var busy, broke atomic.Int32
	broken := script(t, func(_ net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			broke.Add(1)
		}
	})
	for after, rests := range map[string]time.Duration{"7": 7 * time.Second, "0": 0, "-1": 0, "soon": 0,
		"99999999999999": 0, "4294967295": maxRest, "Thu, 01 Jan 2026 00:00:09 GMT": 9 * time.Second,
		"Wed, 31 Dec 2025 00:00:09 GMT": 0} {
		p := start(t, Options{Servers: []string{answers(t, 503, &busy, "Retry-After", after), broken}, Balance: InTurn,
			Health: Health{Unhealthy: MaxChecks}, Retries: Retries{On: []string{"broken", "503"}, Budget: new(weir.Share(1))}})
		s := p.servers()[0]
		for range 2 { // one of them begins with the first server, which rests from then on
			_, _, _ = p.get("/")
		}
		now := p.clock.Now()
		if s.rests(now) != (rests > 0) || rests > 0 && (!s.rests(now.Add(rests-1)) || s.rests(now.Add(rests))) {
			t.Errorf("%q: rests until %v", after, time.Unix(0, s.resting.Load()))
		}
		busy.Store(0)
		broke.Store(0)
		for range 10 {
			_, _, _ = p.get("/")
		}
		want := int32(10)
		if rests > 0 {
			want = 5 // the first tries
		}
		if busy.Load() != want || broke.Load() != 10 {
			t.Errorf("%q: asked %d and %d times, want %d", after, busy.Load(), broke.Load(), want)
		}
	}
}

// TestRetrySame: a lonely server is asked again if the operator says so, a while later, and never sooner than it says.
func TestRetrySame(t *testing.T) {
	noneLeft(t)
	var asked atomic.Int32
	ask := func(o Options, header ...string) (*rig, int) {
		asked.Store(0)
		o.Servers = []string{answers(t, 503, &asked, header...)}
		o.Retries.On = []string{"503"}
		p := start(t, o)
		done := make(chan int)
		go func() {
			res, _, err := p.get("/")
			if err != nil {
				t.Error(err)
				done <- 0
				return
			}
			done <- res.StatusCode
		}()
		for {
			select {
			case status := <-done:
				return p, status
			case <-p.clock.Set():
				p.clock.Advance(2 * samePause) // what the second pause takes at most
			}
		}
	}
	if _, status := ask(Options{}); status != 503 || asked.Load() != 1 {
		t.Errorf("not allowed: %d, asked %d times", status, asked.Load())
	}
	p, status := ask(Options{Retries: Retries{Same: true, Servers: 2}})
	if status != 503 || asked.Load() != 3 || p.budget.Load() > budgetMost-2*budgetOne+budgetOne/10 {
		t.Errorf("%d, asked %d times, %d left", status, asked.Load(), p.budget.Load())
	}
	if _, status := ask(Options{Retries: Retries{Same: true, Servers: 2}}, "Retry-After", "60"); status != 503 || asked.Load() != 1 {
		t.Errorf("it said when: %d, asked %d times", status, asked.Load())
	}

	// A client that leaves during the pause is not waited for.
	asked.Store(0)
	p = start(t, Options{Servers: []string{answers(t, 503, &asked)}, Retries: Retries{On: []string{"503"}, Same: true}})
	ctx, leave := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	failed := make(chan error)
	go func() {
		_, err := p.RoundTrip(request(t, "GET", "/", nil).WithContext(ctx))
		failed <- err
	}()
	needs.Wait(t, "the pause", func() bool { return p.clock.Pending() == 1 })
	leave(gone)
	if err := receive(t, failed); err != gone || asked.Load() != 1 || p.clock.Pending() != 0 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
	p.idle()
}

// TestRetryStorm: clients cannot make us ask much more than they do, whatever servers answer.
func TestRetryStorm(t *testing.T) {
	var asked atomic.Int32
	p := start(t, Options{Servers: []string{answers(t, 503, &asked), answers(t, 503, &asked), answers(t, 503, &asked)},
		Retries: Retries{On: []string{"connect", "broken", "timeout", "500", "502", "503", "504"}, Servers: 2, Same: true}})
	const n = 400
	for range n {
		if res, _, err := p.get("/"); err != nil || res.StatusCode != 503 {
			t.Fatal(res, err)
		}
	}
	if most := int32(n + n/10 + budgetMost/budgetOne); asked.Load() > most || asked.Load() < n+n/10 {
		t.Errorf("%d requests became %d, at most %d", n, asked.Load(), most)
	}
}

// TestReachedOnce: if one server may have worked on a request and the next cannot be reached, it has arrived: it is
// charged.
func TestReachedOnce(t *testing.T) {
	broken := script(t, func(_ net.Conn, br *bufio.Reader) { _, _ = http.ReadRequest(br) })
	p := start(t, Options{Servers: []string{broken, dead()}, Balance: First})
	_, _, err := p.get("/")
	if failure, ok := errors.AsType[*Error](err); !ok || failure.Why != FailConnect || !failure.Reached {
		t.Errorf("%v", err)
	}
}

// TestUsualRequestsCostNothing: without any of the keys, what is decided about a request takes no memory.
func TestUsualRequestsCostNothing(t *testing.T) {
	for _, servers := range [][]string{{"http://127.0.0.1:1"}, {"http://127.0.0.1:1", "http://127.0.0.1:2"}} {
		p := start(t, To(servers...))
		r := request(t, "PUT", "/", strings.NewReader("hello"))
		k := Call{Request: r}
		if n := testing.AllocsPerRun(100, func() {
			tr := tries{pool: p.Pool, all: p.servers()}
			s, err := tr.enter(r.Context(), nil)
			if tr.renew(&k); err != nil || k.Request != r || !tr.passes(503) {
				t.Fatal(err)
			}
			tr.release()
			s.active.Add(-1)
		}); n != 0 {
			t.Errorf("%d servers: %v allocations", len(servers), n)
		}
	}
}

// TestRetryOptions: mistakes have a path and a hint.
func TestRetryOptions(t *testing.T) {
	for want, o := range map[string]Retries{
		"retries.on":         {On: []string{}},
		"retries.on[1]":      {On: []string{"connect", "501"}},
		"retries.on[2]":      {On: []string{"connect", "503", "503"}},
		"retries.methods[0]": {Methods: []string{"P ST"}},
		"retries.methods[1]": {Methods: []string{"POST", "CONNECT"}},
		"retries.methods":    {Methods: make([]string, MaxMethods+1)},
		"retries.body":       {Body: MaxBody + 1},
		"retries.bodies":     {Bodies: MaxBodies + 1},
	} {
		all := weir.FieldErrors(Options{Servers: []string{"http://a"}, Retries: o}.Validate())
		if len(all) != 1 || all[0].Path != want || all[0].Hint == "" {
			t.Errorf("%s: %v", want, all)
		}
	}
	fine := Retries{On: []string{"connect", "500", "502", "503", "504"}, Methods: make([]string, 0, MaxMethods), Body: MaxBody,
		Bodies: MaxBodies}
	for range MaxMethods {
		fine.Methods = append(fine.Methods, "POST")
	}
	if err := (Options{Servers: []string{"http://a"}, Retries: fine}).Validate(); err != nil {
		t.Error(err)
	}
}
