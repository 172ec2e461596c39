package upstream

import (
	"bufio"
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

func named(t testing.TB, name string) string {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }).URL
}

// dead is an address where nobody listens, nor anybody will while the tests run.
func dead() string { return "http://" + needs.FreeAddress() }

func TestOptions(t *testing.T) {
	for servers, ok := range map[string]bool{"": false, "http://": false, "ftp://a": false, "http://u@a": false,
		"http://a?b": false, "://": false, "http://a#b": false,
		"http://a?": false, "127.0.0.1:80": false, "unix:": false, "unix:s": false, "unix://a/b": false,
		"https://a/base": true, "h2c://a:80": true,
		"http://[::1]:80": true, "unix:/run/s": true} {
		if err := To(servers).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", servers, err)
		}
	}
	if err := To("http://a", "unix:/b").WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	many := make([]string, MaxServers+1)
	for i := range many {
		many[i] = fmt.Sprintf("http://10.0.0.%d", i)
	}
	if To(many[:MaxServers]...).Validate() != nil || To(many...).Validate() == nil {
		t.Error("the bound on servers")
	}
	bad := Options{Servers: []string{"http://a", "http://a", "h2c://b"}, Balance: "best", ProxyProtocol: "v3",
		Health:  Health{Path: "healthz", Every: -1, Timeout: -1, Healthy: -1, Unhealthy: MaxChecks + 1},
		Retries: Retries{Budget: new(weir.Share(2)), Servers: -1}, Idle: MaxIdle + 1, IdleTime: -1,
		Timeouts: Timeouts{Connect: -1, Response: -1}}
	var paths []string
	for _, fe := range weir.FieldErrors(bad.Validate()) {
		paths = append(paths, fe.Path)
		if fe.Msg == "" || fe.Hint == "" {
			t.Errorf("%v has no hint", fe)
		}
	}
	want := "servers[1] servers[2] balance proxy_protocol health.path health.every health.timeout health.healthy " +
		"health.unhealthy " +
		"retries.budget retries.servers idle idle_time timeouts.connect timeouts.response"
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if _, err := New(bad, Env{}); err == nil {
		t.Error("a pool with mistakes")
	}
}

func TestSchemes(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", r.Proto, r.RequestURI) })
	p := start(t, To(strings.Replace(up.URL, "http:", "h2c:", 1)+"/base"))
	if _, body, err := p.get("/a%2Fb?x"); err != nil || body != "HTTP/2.0 /base/a%2Fb?x" || p.idle() != 0 {
		t.Errorf("%q %v", body, err)
	}
	p = start(t, To(strings.Replace(dead(), "http:", "https:", 1)))
	_, _, err := p.get("/")
	if failure, ok := errors.AsType[*Error](err); !ok || failure.Reached || failure.Why != FailConnect {
		t.Errorf("%v", err)
	}
}

func TestLeastConnections(t *testing.T) {
	release := make(chan bool)
	var urls []string
	for i := range 3 {
		urls = append(urls, serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				w.(http.Flusher).Flush()
				<-release
			}
			fmt.Fprint(w, i)
		}).URL)
	}
	p := start(t, To(urls...))
	var held []*http.Response
	for range 3 {
		res, err := p.RoundTrip(request(t, "GET", "/hold", nil))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, res)
	}
	for _, s := range p.Stats() {
		if s.Active != 1 {
			t.Errorf("%+v", s)
		}
	}
	_ = held[1].Body.Close()
	free := -1
	for i, s := range p.Stats() {
		if s.Active == 0 {
			free = i
		}
	}
	for range 5 { // the one without a request under way gets them all
		if _, body, err := p.get("/"); err != nil || body != fmt.Sprint(free) {
			t.Errorf("%q %v, want %d", body, err, free)
		}
	}
	close(release)
	for _, res := range held {
		_ = res.Body.Close()
	}

	p = start(t, Options{Servers: urls, Balance: InTurn})
	var order string
	for range 6 {
		_, body, _ := p.get("/")
		order += body
	}
	if !strings.Contains("012012012", order) {
		t.Error(order)
	}
	p = start(t, Options{Servers: urls, Balance: First})
	for range 4 {
		if _, body, _ := p.get("/"); body != "0" {
			t.Error(body)
		}
	}
}

// An idle connection that the server closes, or speaks on without being asked, is not used.
func TestStale(t *testing.T) {
	for name, late := range map[string]string{"closed": "",
		"unasked": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int32
			hangUp, hungUp := make(chan bool), make(chan bool)
			url := script(t, func(c net.Conn, br *bufio.Reader) {
				first := conns.Add(1) == 1
				for {
					if _, err := http.ReadRequest(br); err != nil {
						return
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					if first {
						<-hangUp
						_, _ = io.WriteString(c, late)
						_ = c.Close()
						hungUp <- true
						return
					}
				}
			})
			p := start(t, To(url))
			if _, _, err := p.get("/"); err != nil || p.idle() != 1 {
				t.Fatal(err)
			}
			hangUp <- true
			<-hungUp
			needs.Wait(t, "noticed", func() bool {
				s := p.servers()[0]
				s.mu.Lock()
				defer s.mu.Unlock()
				return !s.idle[0].quiet()
			})
			// Not even a request that must not come twice is hurt.
			if res, body, err := p.do(request(t, "POST", "/", strings.NewReader("x"))); err != nil || body != "ok" ||
				res.StatusCode != 200 {
				t.Errorf("%q %v", body, err)
			}
			if p.Stats()[0].Failures != 0 || conns.Load() != 2 {
				t.Errorf("%+v", p.Stats())
			}
		})
	}
}

// A connection that is closed at the very moment it is used: what does no harm is tried again on a new one, once.
func TestStaleInUse(t *testing.T) {
	var conns, requests atomic.Int32
	url := script(t, func(c net.Conn, br *bufio.Reader) {
		first := conns.Add(1) == 1
		for n := 0; ; n++ {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			if requests.Add(1); first && n == 1 {
				return // read, and not answered
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	for method, want := range map[string]int32{"GET": 3, "POST": 2} {
		conns.Store(0)
		requests.Store(0)
		p := start(t, To(url))
		if _, _, err := p.get("/"); err != nil || p.idle() != 1 {
			t.Fatal(err)
		}
		_, body, err := p.do(request(t, method, "/", nil))
		if method == "GET" && (err != nil || body != "ok") {
			t.Errorf("GET: %q %v", body, err)
		}
		if failure, ok := errors.AsType[*Error](err); method == "POST" &&
			(!ok || failure.Why != FailBroken || !failure.Reached) {
			t.Errorf("POST: %v", err)
		}
		if requests.Load() != want {
			t.Errorf("%s: %d requests", method, requests.Load())
		}
	}
}

func TestRetries(t *testing.T) {
	noneLeft(t)
	var asked atomic.Int32
	broken := script(t, func(_ net.Conn, br *bufio.Reader) {
		asked.Add(1)
		if r, err := http.ReadRequest(br); err == nil {
			_, _ = io.Copy(io.Discard, r.Body) // so that the body is gone
		}
	})
	good := named(t, "good")
	half := says(t, "HTTP/1.1 200 OK\r\nContent-Le", 1)
	none := weir.Share(0)
	for name, c := range map[string]struct {
		o      Options
		method string
		body   string
		ok     bool
	}{
		"cannot be reached":                {To(dead(), good), "GET", "", true},
		"cannot be reached, POST":          {To(dead(), good), "POST", "hello", true},
		"breaks":                           {To(broken, good), "GET", "", true},
		"breaks, PUT":                      {To(broken, good), "PUT", "", true},
		"breaks, POST":                     {To(broken, good), "POST", "", false},
		"breaks, the body is gone":         {To(broken, good), "PUT", "hello", false},
		"breaks in the middle of its head": {To(half, good), "GET", "", false},
		"no budget": {Options{Servers: []string{broken, good}, Retries: Retries{Budget: &none}},
			"GET", "", false},
		"nobody else":    {To(broken), "GET", "", false},
		"all break":      {To(broken, dead()), "GET", "", false},
		"only one other": {To(broken, dead(), good), "GET", "", false},
		"two others": {Options{Servers: []string{broken, dead(), good}, Retries: Retries{Servers: 2}}, "GET", "",
			true},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Balance = First
			p := start(t, c.o)
			var src io.Reader
			if c.body != "" {
				src = strings.NewReader(c.body)
			}
			_, body, err := p.do(request(t, c.method, "/", src))
			if (err == nil) != c.ok || c.ok && body != "good" {
				t.Errorf("%q %v (%s)", body, err, p.seen)
			}
			if c.ok != strings.Contains(p.seen.String(), "retried") && len(c.o.Servers) == 2 && name != "all break" {
				t.Error(p.seen)
			}
		})
	}
}

// A request that is tried again at the next server does not use up that server's turn: else each new request would go
// to the broken one first.
func TestTurnsBesideABrokenServer(t *testing.T) {
	broken := script(t, func(_ net.Conn, br *bufio.Reader) { _, _ = http.ReadRequest(br) })
	whole := weir.Share(1)
	p := start(t, Options{Servers: []string{broken, named(t, "good")}, Balance: InTurn,
		Health:  Health{Unhealthy: MaxChecks},
		Retries: Retries{Budget: &whole}})
	for range 20 {
		if _, body, err := p.get("/"); body != "good" || err != nil {
			t.Fatalf("%q %v", body, err)
		}
	}
	if n := p.Stats()[0].Requests; n != 10 {
		t.Errorf("%d of 20 requests went to the broken server first", n)
	}
}

func TestBudget(t *testing.T) {
	broken := script(t, func(_ net.Conn, br *bufio.Reader) { _, _ = http.ReadRequest(br) })
	share := weir.Share(0.25)
	// It never counts as unwell, so that each request goes there first.
	p := start(t, Options{Servers: []string{broken, named(t, "good")}, Balance: First,
		Health:  Health{Unhealthy: MaxChecks},
		Retries: Retries{Budget: &share}})
	good := 0
	for range 110 {
		if _, _, err := p.get("/"); err == nil {
			good++
		}
	}
	// those at the beginning, and a quarter of the rest
	if want := budgetMost/budgetOne + 25; good < want || good > want+3 {
		t.Errorf("%d went through, want %d", good, want)
	}
}

func TestPassiveHealth(t *testing.T) {
	var fails atomic.Bool
	fails.Store(true)
	sick := script(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil && !fails.Load() {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nsick")
		}
	})
	p := start(t, Options{Servers: []string{sick, named(t, "good")}, Balance: First,
		Health: Health{Every: weir.Duration(10 * time.Second)}})
	for range 5 {
		if _, body, err := p.get("/"); body != "good" || err != nil {
			t.Errorf("%q %v", body, err)
		}
	}
	if s := p.Stats()[0]; s.Well || s.Requests != 3 || s.Failures != 3 {
		t.Errorf("%+v", s)
	}
	p.clock.Advance(10 * time.Second) // one more try
	if _, body, _ := p.get("/"); body != "good" || p.Stats()[0].Requests != 4 || p.Stats()[0].Well {
		t.Errorf("%q %+v", body, p.Stats())
	}
	fails.Store(false)
	if _, body, _ := p.get("/"); body != "good" {
		t.Error(body)
	}
	p.clock.Advance(10 * time.Second)
	if _, body, _ := p.get("/"); body != "sick" || !p.Stats()[0].Well {
		t.Errorf("%q %+v", body, p.Stats())
	}
	if got := p.seen.String(); strings.Count(got, "well false") != 1 || strings.Count(got, "well true") != 1 {
		t.Error(got)
	}
	// When nobody is well, all are tried.
	p = start(t, To(dead()))
	for range 5 {
		_, _, err := p.get("/")
		if failure, ok := errors.AsType[*Error](err); !ok || failure.Reached {
			t.Error(err)
		}
	}
}

func TestActiveHealth(t *testing.T) {
	noneLeft(t)
	var status atomic.Int32
	status.Store(503)
	checked := make(chan string, 100)
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			checked <- r.URL.RawQuery
			w.WriteHeader(int(status.Load()))
			return
		}
		_, _ = io.WriteString(w, "first")
	})
	for _, scheme := range []string{"http:", "h2c:"} {
		status.Store(503)
		p := start(t, Options{Servers: []string{strings.Replace(up.URL, "http:", scheme, 1), named(t, "second")},
			Balance: First,
			Health:  Health{Path: "/healthz?x", Every: weir.Duration(time.Second), Unhealthy: 2, Healthy: 3}})
		round := func() {
			pending := p.clock.Pending()
			p.clock.Advance(time.Second)
			if q := receive(t, checked); q != "x" {
				t.Errorf("asked with %q", q)
			}
			needs.Wait(t, "the next check is planned", func() bool { return p.clock.Pending() == pending })
		}
		check := func(want string) {
			t.Helper()
			if _, body, err := p.get("/"); body != want || err != nil {
				t.Errorf("%q %v, want %s", body, err, want)
			}
		}
		check("first")
		round()
		check("first") // which counts for nothing: what it says of itself does
		round()
		check("second")
		status.Store(302)
		round()
		round()
		check("second")
		round()
		check("first")
		p.Close()
		if p.clock.Pending() != 0 {
			t.Error("checks go on")
		}
	}
}

func TestConfigure(t *testing.T) {
	a, b := named(t, "a"), named(t, "b")
	p := start(t, To(a))
	if _, body, _ := p.get("/"); body != "a" || p.idle() != 1 {
		t.Fatal(body)
	}
	if _, err := p.Configure(To("ftp://x")); err == nil {
		t.Error("taken")
	}
	next, err := p.Configure(To(b, a))
	if err != nil {
		t.Fatal(err)
	}
	if s := next.Stats(); s[1].Idle != 1 || s[1].Requests != 1 {
		t.Errorf("nothing is shared: %+v", s)
	}
	p.Close()
	p.Close() // does nothing
	if s := next.Stats(); s[1].Idle != 1 {
		t.Errorf("closed with the old one: %+v", s)
	}
	// What began with the old one goes on.
	if _, body, err := p.get("/"); body != "a" || err != nil || p.idle() != 1 {
		t.Errorf("%q %v", body, err)
	}
	next.Close()
	if p.Stats()[0].Idle != 0 {
		t.Error("left open")
	}
	if other, err := p.Configure(To(a)); err != nil || other.Stats()[0].Requests != 0 {
		t.Errorf("a server that was given up is shared: %v", err)
	} else {
		other.Close()
	}
}

func TestIdleBounds(t *testing.T) {
	release := make(chan bool)
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			w.(http.Flusher).Flush()
			<-release
		}
	})
	p := start(t, Options{Servers: []string{up.URL}, Idle: 2})
	var held []*http.Response
	for range 3 {
		res, err := p.RoundTrip(request(t, "GET", "/hold", nil))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, res)
	}
	close(release)
	for _, res := range held {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	if n := p.idle(); n != 2 {
		t.Errorf("%d idle", n)
	}
	p = start(t, Options{Servers: []string{up.URL}, IdleTime: weir.Duration(time.Millisecond)})
	if _, _, err := p.get("/"); err != nil {
		t.Fatal(err)
	}
	needs.Wait(t, "swept", func() bool { return p.idle() == 0 })
}

// Many at once, with servers that come and go: every answer is whole and belongs to its request.
func TestMany(t *testing.T) {
	noneLeft(t)
	echo := func(t testing.TB, hangUpAfter int32) string {
		return script(t, func(c net.Conn, br *bufio.Reader) {
			for n := int32(0); n < hangUpAfter; n++ {
				r, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				body, _ := io.ReadAll(r.Body)
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(r.RequestURI)+len(body),
					r.RequestURI, body)
			}
		})
	}
	p := start(t, To(echo(t, 1000), echo(t, 7)))
	done := make(chan error, 16)
	for i := range 16 {
		go func() {
			for n := range 100 {
				path, method, text := fmt.Sprintf("/%d/%d", i, n), "GET", ""
				var src io.Reader
				if n%3 == 0 {
					method, text = "PUT", strings.Repeat("x", n*100)
					src = strings.NewReader(text)
				}
				_, body, err := p.do(request(t, method, path, src))
				if err == nil && body != path+text {
					err = fmt.Errorf("%s got %.40q", path, body)
				}
				// A body that has been sent to a server which hangs up is not sent again.
				if failure, ok := errors.AsType[*Error](err); ok && method == "PUT" && failure.Why == FailBroken {
					err = nil
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 16 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	p.idle()
}
