package httpgate

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/dnstest"
	"weir/internal/testkit/needs"
	behind "weir/upstream"
)

// TestRetriedRequestsAreChargedOnce: a request that two servers got, with its body, is one request: one place, one
// charge, its bytes counted once, one line in the log. Nothing of the first answer is passed on. Over HTTP/1 and HTTP/2
// on both sides.
func TestRetriedRequestsAreChargedOnce(t *testing.T) {
	var busy atomic.Int32
	first := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		busy.Add(1)
		w.Header().Set("X-First", "yes")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "come later")
	}).URL
	second := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.Method, body)
	}).URL
	const size = 10_000
	text := strings.Repeat("x", size)
	for _, outside := range []string{"http:", "h2c:"} {
		for _, inside := range []bool{false, true} {
			t.Run(fmt.Sprint(outside, inside), func(t *testing.T) {
				busy.Store(0)
				var bytes, judged atomic.Int64
				m := &meter{newThrottle(func(*weir.Event, *weir.Answer) error {
					judged.Add(1)
					return nil
				}), func(n int64, _ time.Time) time.Time {
					bytes.Add(n)
					return time.Time{}
				}}
				g := start(t, Options{Upstream: behind.Options{Servers: []string{strings.Replace(first, "http:", outside, 1),
					strings.Replace(second, "http:", outside, 1)}, Balance: behind.First,
					Retries: behind.Retries{On: []string{"connect", "503"}, Methods: []string{"POST"}, Body: size}}}, m)
				tr := &http.Transport{Protocols: new(http.Protocols)}
				tr.Protocols.SetHTTP1(!inside)
				tr.Protocols.SetUnencryptedHTTP2(inside)
				defer tr.CloseIdleConnections()
				for _, method := range []string{"POST", "PUT", "GET"} {
					var src io.Reader
					want := method + " "
					if method != "GET" {
						src, want = strings.NewReader(text), method+" "+text
					}
					bytes.Store(0)
					res, body := do(t, tr, g.request(method, "/", src))
					if res.StatusCode != 200 || body != want || res.Header.Get("X-First") != "" {
						t.Fatalf("%d %.40q", res.StatusCode, body)
					}
					if o := receive(t, m.Settled); !o.Done || o.Status != 200 {
						t.Errorf("%+v", o)
					}
					if want := int64(len(body)) + int64(len(want)-len(method)-1); bytes.Load() != want {
						t.Errorf("%s: %d bytes are charged, want %d", method, bytes.Load(), want)
					}
					if line := g.accessLine(res.Header.Get("X-Request-Id")); line["status"] != 200. {
						t.Errorf("%v", line)
					}
				}
				if busy.Load() != 3 || judged.Load() != 3 || len(m.Settled) != 0 || m.Held.Load() != 0 {
					t.Errorf("asked %d times, judged %d times", busy.Load(), judged.Load())
				}
				// One byte more is not kept: the answer of the first server is the answer.
				if res, body := do(t, tr, g.request("PUT", "/", strings.NewReader(text+"x"))); res.StatusCode != 503 ||
					body != "come later" || res.Header.Get("X-First") != "yes" {
					t.Errorf("%d %.40q", res.StatusCode, body)
				}
				needs.Wait(t, "nothing is kept", func() bool { return g.KeptBodies() == 0 })
			})
		}
	}
}

// TestBreakerAtTheGate: servers that answer with errors are left alone. With none left, clients are told at once when
// to come again, and are not charged. One request tries whether a server is back.
func TestBreakerAtTheGate(t *testing.T) {
	var status, asked atomic.Int32
	status.Store(500)
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
	}).URL
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: behind.Options{Servers: []string{url}, Health: behind.Health{Statuses: []int{500},
		FailFast: true, Every: weir.Duration(10 * time.Second)}}}, admit)
	ask := func(want int) (*http.Response, string) {
		t.Helper()
		res, body := g.do(g.request("GET", "/", nil))
		if res.StatusCode != want {
			t.Fatalf("%d, want %d: %s", res.StatusCode, want, body)
		}
		return res, body
	}
	for range 3 {
		ask(500)
		if o := receive(t, admit.Settled); !o.Done || o.Status != 500 {
			t.Errorf("%+v", o)
		}
	}
	g.clock.Advance(4 * time.Second)
	for range 20 {
		res, body := ask(503)
		if doc := problemOf(t, body); res.Header.Get("Retry-After") != "6" || doc["retry_after"] != 6. ||
			doc["detail"] != "The service behind the gate is not available right now." {
			t.Fatalf("%v %s", res.Header, body)
		}
		if o := receive(t, admit.Settled); o.Done {
			t.Errorf("charged: %+v", o)
		}
	}
	if asked.Load() != 3 || g.Servers()[0].Well {
		t.Errorf("asked %d times, %+v", asked.Load(), g.Servers())
	}
	g.clock.Advance(6 * time.Second)
	status.Store(200)
	ask(200)
	if !g.Servers()[0].Well {
		t.Errorf("%+v", g.Servers())
	}
}

// TestConcurrentAtTheGate: a server gets as many requests at once as it may. One more is refused quickly, is not
// charged, and is not a failure of the server.
func TestConcurrentAtTheGate(t *testing.T) {
	held, goOn := make(chan bool, 10), make(chan bool)
	var came atomic.Int32
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		if came.Add(1) > 2 {
			return
		}
		held <- true
		<-goOn
	}).URL
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: behind.Options{Servers: []string{url}, Concurrent: 2}}, admit)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if res, _ := g.do(g.request("GET", "/", nil)); res.StatusCode != 200 {
				t.Error(res.Status)
			}
		})
		receive(t, held)
	}
	res, body := g.do(g.request("GET", "/", nil))
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || !strings.Contains(body, "as many requests as it can") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if o := receive(t, admit.Settled); o.Done {
		t.Errorf("charged: %+v", o)
	}
	close(goOn)
	all.Wait()
	if s := g.Servers()[0]; !s.Well || s.Failures != 0 || s.Requests != 2 {
		t.Errorf("%+v", s)
	}
}

// TestClientsCannotTurnABreaker: clients that leave, break their body off, or send it so slowly that the server answers
// 408 or hangs up, do not make the server unhealthy for others.
func TestClientsCannotTurnABreaker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	arrived := make(chan string, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				arrived <- r.URL.Path
				one := make([]byte, 1)
				switch r.URL.Path {
				case "/wait":
					_, _ = c.Read(one) // until the gate hangs up
				case "/hang-up": // in the middle of a body
					_, _ = io.ReadFull(r.Body, one)
				case "/408":
					_, _ = io.ReadFull(r.Body, one)
					_, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				case "/broken":
				default:
					_, _ = io.Copy(io.Discard, r.Body)
				}
			}()
		}
	}()
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: behind.Options{Servers: []string{"http://" + l.Addr().String()},
		Health: behind.Health{Unhealthy: 2, Statuses: []int{500, 502, 503}}}}, admit)
	const half, chunks = "Content-Length: 100\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
	leaves := func(c net.Conn, _ *bufio.Reader) { _ = c.Close() }
	for say, act := range map[string]func(c net.Conn, br *bufio.Reader){
		"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n":         leaves,
		"POST /body HTTP/1.1\r\nHost: a\r\n" + half:     leaves,
		"POST /chunks HTTP/1.1\r\nHost: a\r\n" + chunks: leaves,
		"POST /wrong HTTP/1.1\r\nHost: a\r\n" + chunks: func(c net.Conn, br *bufio.Reader) {
			g.send(c, "no size\r\n")
			if res, _ := g.answer(br); res.StatusCode != 400 {
				t.Error(res.Status)
			}
		},
		"POST /hang-up HTTP/1.1\r\nHost: a\r\n" + half: func(_ net.Conn, br *bufio.Reader) {
			if res, _ := g.answer(br); res.StatusCode != 502 {
				t.Error(res.Status)
			}
		},
		"POST /408 HTTP/1.1\r\nHost: a\r\n" + half: func(_ net.Conn, br *bufio.Reader) {
			if res, _ := g.answer(br); res.StatusCode != 408 {
				t.Error(res.Status)
			}
		},
	} {
		for range 4 {
			c := g.dial()
			g.send(c, say)
			receive(t, arrived)
			act(c, bufio.NewReader(c))
			receive(t, admit.Settled)
			_ = c.Close()
		}
		if s := g.Servers()[0]; !s.Well {
			t.Errorf("%.20s: %+v", say, s)
		}
	}
	// The server's own failures count.
	for range 2 {
		if res, _ := g.do(g.request("GET", "/broken", nil)); res.StatusCode != 502 {
			t.Error(res.Status)
		}
	}
	if s := g.Servers()[0]; s.Well {
		t.Errorf("%+v", s)
	}
}

// TestNamesAtTheGate: a service whose name is not known yet gets 503; then its addresses share the requests, as the
// name server says.
func TestNamesAtTheGate(t *testing.T) {
	dns := dnstest.Start(t)
	_, port, _ := net.SplitHostPort(needs.FreeAddress())
	for i, address := range []string{"127.0.0.1:", "127.0.0.2:"} {
		l, err := net.Listen("tcp", address+port)
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%d %s", i+1, r.Host)
		})}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
	}
	o := Options{Upstream: behind.Options{Servers: []string{fmt.Sprintf("http://app.example:%s", port)},
		Balance: behind.InTurn, Resolve: weir.Duration(10 * time.Second)}}
	g := startIn(t, Env{Resolver: dns.Resolver()}, o)
	res, body := g.do(g.request("GET", "/", nil))
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	who := func() map[string]int {
		all := map[string]int{}
		for range 4 {
			_, body := g.do(g.request("GET", "/", nil))
			all[body]++
		}
		return all
	}
	for _, c := range []struct {
		addrs []string
		want  string
	}{
		{[]string{"127.0.0.1"}, fmt.Sprintf("map[1 %s:4]", g.addr)},
		{[]string{"127.0.0.1", "127.0.0.2"}, fmt.Sprintf("map[1 %s:2 2 %s:2]", g.addr, g.addr)},
		{[]string{"127.0.0.2"}, fmt.Sprintf("map[2 %s:4]", g.addr)},
		{nil, fmt.Sprintf("map[2 %s:4]", g.addr)},
	} {
		dns.Set("app.example", c.addrs...)
		before := dns.Asked()
		g.clock.Advance(10 * time.Second)
		needs.Wait(t, "asked", func() bool { return dns.Asked() >= before+2 })
		needs.Wait(t, c.want, func() bool { return fmt.Sprint(who()) == c.want })
	}
	// A reload with the same names keeps the addresses.
	o.Upstream.Concurrent = 100
	g.reload(o)
	if got := fmt.Sprint(who()); got != fmt.Sprintf("map[2 %s:4]", g.addr) {
		t.Error(got)
	}
}

// TestTLSOutwardsAtTheGate: a service with a certificate of an own authority demands one of the gate, over HTTP/1.1 and
// HTTP/2. A reload reads the files again; if they are of no use, nothing changes.
func TestTLSOutwardsAtTheGate(t *testing.T) {
	ours, clients := newAuthority(t, "ours"), newAuthority(t, "clients")
	files := ours.server("app.example")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s", r.Proto, r.TLS.PeerCertificates[0].Subject.CommonName)
		}))
		s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients.Pool,
			ClientAuth: tls.RequireAndVerifyClientCert}
		s.EnableHTTP2, s.Config.ErrorLog = http2, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		defer s.Close()
		shown := clients.server("first.example")
		o := Options{Upstream: behind.Options{Servers: []string{s.URL}, TLS: &behind.TLS{CA: ours.File,
			Cert: shown.Cert, Key: shown.Key, ServerName: "app.example"}}}
		g := start(t, o)
		proto := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[http2]
		ask := func(want string) {
			t.Helper()
			if res, body := g.do(g.request("GET", "/", nil)); res.StatusCode != 200 || body != proto+" "+want {
				t.Fatalf("%d %q, want %s", res.StatusCode, body, want)
			}
		}
		ask("first.example")
		kept := g.Setup.Load().servers
		g.reload(o)
		if g.Setup.Load().servers != kept {
			t.Error("nothing changed, and the connections are lost")
		}
		another := clients.server("second.example")
		for from, to := range map[string]string{another.Cert: shown.Cert, another.Key: shown.Key} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			clients.Write(to, text)
		}
		ask("first.example")
		g.reload(o)
		ask("second.example")
		secret, err := os.ReadFile(shown.Key)
		if err != nil {
			t.Fatal(err)
		}
		clients.Write(shown.Key, secret[:len(secret)/2])
		_, _, err = g.Prepare(o, nil, chainOf(t))
		if fe, ok := errors.AsType[*weir.FieldError](err); !ok || fe.Path != "upstream.tls.cert" || fe.Hint == "" {
			t.Errorf("%v", err)
		}
		ask("second.example")
		// Without a certificate the service does not answer.
		o.Upstream.TLS = &behind.TLS{CA: ours.File, ServerName: "app.example"}
		g.reload(o)
		if res, _ := g.do(g.request("GET", "/", nil)); res.StatusCode != 502 {
			t.Error(res.Status)
		}
		if line := strings.Split(string(secret), "\n")[1]; strings.Contains(g.log.String(), line) {
			t.Error("the key is in the log")
		}
	}
}
