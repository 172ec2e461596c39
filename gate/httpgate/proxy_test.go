package httpgate

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// h2c returns a client that speaks HTTP/2 without TLS.
func h2c() *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

// script is an upstream that says the same to everybody who has sent a head, and hangs up.
func script(t testing.TB, say string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, say)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestFailingUpstream(t *testing.T) {
	silent := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	for name, c := range map[string]struct {
		upstream string
		timeouts Timeouts
		status   int
		charged  bool
	}{
		"refused":              {"http://127.0.0.1:1", Timeouts{}, 502, false},
		"no such host":         {"http://nowhere.invalid", Timeouts{}, 502, false},
		"closed before header": {script(t, ""), Timeouts{}, 502, true},
		"half a header":        {script(t, "HTTP/1.1 200 O"), Timeouts{}, 502, true},
		"nonsense":             {script(t, "220 smtp.example.com ESMTP\r\n"), Timeouts{}, 502, true},
		"never answers":        {silent.URL, Timeouts{Response: weir.Duration(50 * time.Millisecond)}, 504, true},
	} {
		t.Run(name, func(t *testing.T) {
			admit := newThrottle(nil)
			g := start(t, Options{Upstream: to(c.upstream), Timeouts: c.timeouts}, admit)
			for _, body := range []io.Reader{nil, strings.NewReader("hello")} {
				res, text := g.do(g.request("POST", "/", body))
				doc := problemOf(t, text)
				if res.StatusCode != c.status || doc["request_id"] != res.Header.Get("X-Request-Id") {
					t.Errorf("%v %s", res.Status, text)
				}
				if o := receive(t, admit.Settled); o.Done != c.charged {
					t.Errorf("charged %v", o.Done)
				}
				if line := g.accessLine(doc["request_id"].(string)); line["status"] != float64(c.status) {
					t.Errorf("%v", line)
				}
			}
		})
	}
}

func TestUpstreamDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			admit := newThrottle(nil)
			g := start(t, Options{Upstream: to(script(t, say))}, admit)
			for _, c := range []*http.Client{client(), h2c()} {
				res, err := c.Do(g.request("GET", "/", nil))
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(res.Body); err == nil {
					t.Errorf("a clean end after %q", body)
				}
				res.Body.Close()
				if o := receive(t, admit.Settled); !o.Done {
					t.Error("given back")
				}
			}
			needs.Wait(t, "a line in the log", func() bool { return strings.Contains(g.log.String(), "broke off") })
		})
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s %s", r.Proto, r.Host) })
	for _, c := range []struct{ upstream, want string }{
		{up.URL, "HTTP/1.1 "},
		{strings.Replace(up.URL, "http:", "h2c:", 1), "HTTP/2.0 "},
	} {
		g := start(t, Options{Upstream: to(c.upstream)})
		res, err := h2c().Get(g.url + "/x")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.ProtoMajor != 2 || string(body) != c.want+g.addr {
			t.Errorf("%s: %q", res.Proto, body)
		}
	}
}

func TestHTTP2Leaving(t *testing.T) {
	t.Parallel()
	l := newLine()
	g := start(t, Options{Upstream: to(echo(t).URL)}, l)
	c := h2c()
	pr, pw := io.Pipe()
	defer pw.Close()
	go func() {
		receive(t, l.Turns)
		c.CloseIdleConnections()
	}()
	req := g.request("POST", "/", pr)
	ctx, cancel := contextWithCancel(req)
	failed := make(chan error, 1)
	go func() { _, err := c.Do(ctx); failed <- err }()
	needs.Wait(t, "waiting", func() bool { return g.waiting.Len() == 1 })
	cancel()
	receive(t, failed)
	if o := receive(t, l.Settled); o.Done {
		t.Error("charged")
	}
}

func TestHTTP2HeaderBound(t *testing.T) {
	t.Parallel()
	g := start(t, Options{Upstream: to(echo(t).URL), Bounds: Bounds{Header: 1024}})
	res, err := h2c().Do(g.request("GET", "/", nil, "X-Big", strings.Repeat("y", 1024)))
	if err != nil {
		return // net/http may close the stream by itself
	}
	defer res.Body.Close()
	if res.StatusCode != 431 {
		t.Error(res.Status)
	}
}

func TestTrailers(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http:", "h2c:"} {
		up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s", body)
			w.Header().Set("X-Sum", "got "+r.Trailer.Get("X-Digest"))
			w.Header().Set(http.TrailerPrefix+"X-Late", "late")
		})
		g := start(t, Options{Upstream: to(strings.Replace(up.URL, "http:", scheme, 1))})
		for name, c := range map[string]*http.Client{"HTTP/1.1": client(), "HTTP/2": h2c()} {
			req := g.request("POST", "/", nil)
			req.Body, req.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("hello"))), -1
			req.Trailer = http.Header{"X-Digest": {"abc"}}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if string(body) != "hello" || res.Trailer.Get("X-Sum") != "got abc" || res.Trailer.Get("X-Late") != "late" {
				t.Errorf("%s to %s: %q %v", name, scheme, body, res.Trailer)
			}
		}
	}
}

// What the upstream sends is passed on as it comes, whether its length is known or not: first the head, then piece by
// piece.
func TestStreaming(t *testing.T) {
	for name, header := range map[string]string{"events": "Content-Type: text/event-stream",
		"unknown length": "X-Other: x", "known length": "Content-Length: 22"} {
		t.Run(name, func(t *testing.T) {
			next := make(chan bool)
			up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				key, value, _ := strings.Cut(header, ": ")
				w.Header().Set(key, value)
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				<-next
				_, _ = io.WriteString(w, "data: one\n\n")
				w.(http.Flusher).Flush()
				<-next
				_, _ = io.WriteString(w, "data: two\n\n")
			})
			g := start(t, Options{Upstream: to(up.URL)})
			res, err := client().Get(g.url) // returns when the head has come
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			next <- true
			br := bufio.NewReader(res.Body)
			if line, err := br.ReadString('\n'); line != "data: one\n" {
				t.Fatalf("%q %v", line, err)
			}
			next <- true
			if rest, err := io.ReadAll(br); string(rest) != "\ndata: two\n\n" || err != nil {
				t.Errorf("%q %v", rest, err)
			}
		})
	}
}

// Throttles are told how the upstream answered, and not how the gate did.
func TestOutcomeHasTheStatusOfTheUpstream(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		switch status {
		case 0: // no answer at all
			panic(http.ErrAbortHandler)
		case 103:
			w.WriteHeader(103)
			status = 404
		}
		w.WriteHeader(status)
		if status == 206 { // half an answer
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: to(up.URL)}, admit)
	for path, want := range map[string]weir.Outcome{
		"/200": {Done: true, Status: 200},
		"/204": {Done: true, Status: 204},
		"/206": {Done: true, Status: 206},
		"/302": {Done: true, Status: 302},
		"/401": {Done: true, Status: 401},
		"/403": {Done: true, Status: 403},
		"/103": {Done: true, Status: 404},
		"/500": {Done: true, Status: 500},
		"/0":   {Done: true}, // what the client is told, 502, is the gate's word
	} {
		c := g.dial()
		g.send(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
		if o := receive(t, admit.Settled); o.Done != want.Done || o.Status != want.Status {
			t.Errorf("%s: %+v, want %+v", path, o, want)
		}
	}
	up.Close()
	c := g.dial()
	g.send(c, "GET /200 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	_, _ = io.Copy(io.Discard, c)
	if o := receive(t, admit.Settled); o.Done || o.Status != 0 {
		t.Errorf("nobody is there: %+v", o)
	}
}

func TestUpgrade(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, _ := http.NewResponseController(w).Hijack()
		defer c.Close()
		_,
			_ = io.WriteString(c,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, rw)
	})
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: to(up.URL)}, admit)
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 101 || res.Header.Get("X-Request-Id") == "" {
		t.Fatalf("%v %v", res, err)
	}
	const noHTTP = "\x00\n\r\x81no HTTP\n"
	g.send(c, noHTTP)
	got := make([]byte, len(noHTTP))
	if _, err := io.ReadFull(br, got); err != nil || string(got) != noHTTP {
		t.Errorf("%q %v", got, err)
	}
	if g.UnderWay.Load() != 1 || admit.Held.Load() != 1 {
		t.Errorf("%d requests, %d held", g.UnderWay.Load(), admit.Held.Load())
	}
	_ = c.Close()
	if o := receive(t, admit.Settled); !o.Done || o.Status != 101 {
		t.Errorf("%+v", o)
	}
	line := g.accessLine(res.Header.Get("X-Request-Id"))
	if line["status"] != 101.0 || line["in"] != float64(len(noHTTP)) || line["out"] != float64(len(noHTTP)) {
		t.Errorf("%v", line)
	}
}

func TestForwardHeaders(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		for _, k := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded",
			"X-Request-Id"} {
			fmt.Fprintf(w, "%s=%s\n", k, strings.Join(r.Header[k], "|"))
		}
	})
	spoof := []string{"X-Forwarded-For", "1.1.1.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop",
		"X-Request-Id", "mine"}
	for _, c := range []struct {
		name    string
		listen  string
		trusted []netip.Prefix
		header  []string
		source  string
		want    []string
	}{
		{"stranger", "127.0.0.1:0", nil, append(spoof, "Forwarded", "for=1.1.1.1"), "127.0.0.1",
			[]string{"X-Forwarded-For=127.0.0.1\n", "X-Forwarded-Proto=http\n", "X-Forwarded-Host=HOST\n",
				"Forwarded=for=127.0.0.1;host=\"HOST\";proto=http\n"}},
		{"proxy", "127.0.0.1:0", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			append(spoof, "Forwarded", `for=9.9.9.9`), "1.1.1.1",
			[]string{"X-Forwarded-For=1.1.1.1, 127.0.0.1\n", "X-Forwarded-Proto=https\n", "X-Forwarded-Host=shop\n",
				"Forwarded=for=127.0.0.1;host=\"HOST\";proto=http\n", "X-Request-Id=mine\n"}},
		{"proxy v6", "[::1]:0", []netip.Prefix{netip.MustParsePrefix("::1/128")},
			[]string{"X-Forwarded-For", `[2001:db8::7]:80`}, "2001:db8::7",
			[]string{"X-Forwarded-For=[2001:db8::7]:80, ::1\n", "Forwarded=for=\"[::1]\";host=\"HOST\";proto=http\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if l, err := net.Listen("tcp", c.listen); err == nil {
				_ = l.Close()
			} else {
				needs.Skip(t, err)
			}
			var source string
			g := start(t, Options{Listen: c.listen, Upstream: to(up.URL), TrustedProxies: c.trusted},
				newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
					source = ev.Source.String()
					return nil
				}))
			_, body := g.do(g.request("GET", "/", nil, c.header...))
			if source != c.source {
				t.Errorf("source %s", source)
			}
			for _, want := range c.want {
				if want = strings.ReplaceAll(want, "HOST", g.addr); !strings.Contains(body, want) {
					t.Errorf("no %q in\n%s", want, body)
				}
			}
			if c.trusted == nil && strings.Contains(body, "mine") {
				t.Error("a stranger's id was taken")
			}
		})
	}
}

func TestQueryGoesThrough(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) })
	for _, c := range []struct {
		account []string
		target  string
		want    string
	}{
		{nil, "/a%2Fb//c?x=%zz;y&&z=1", "/base/a%2Fb//c?x=%zz;y&&z=1"},
		{[]string{"query:key"}, "/?x=%zz&a=1;b&key=mine&&", "/base/?x=%zz&a=1;b&key=mine&&"},
	} {
		g := start(t, Options{Upstream: to(up.URL + "/base"), Account: c.account})
		conn := g.dial()
		g.send(conn, "GET "+c.target+" HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, body := g.answer(bufio.NewReader(conn)); body != c.want {
			t.Errorf("%s, want %s", body, c.want)
		}
	}
}

// TestPathGoesAsSent: no byte of a path is written otherwise than the client did, whatever else is in it, over HTTP/1
// and HTTP/2 alike.
func TestPathGoesAsSent(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) })
	for _, scheme := range []string{"http", "h2c"} {
		g := start(t, Options{Upstream: to(strings.Replace(up.URL, "http", scheme, 1) + "/base")})
		for sent, want := range map[string]string{
			"/a%2Fb|c": "", "/%2e%2e%2fx/\xc3\xbc": "", `/a%2Fb"{}^<>\c`: "", "/%7Euser/a+b;v=1": "", "//a/../b": "",
			"/a%2Fb?x=|": "",
			"/a%2Fb#c":   "/a%2Fb%23c",
		} {
			if want == "" {
				want = sent
			}
			conn := g.dial()
			g.send(conn, "GET "+sent+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, body := g.answer(bufio.NewReader(conn)); body != "/base"+want {
				t.Errorf("%s: %q, want %q", scheme, body, "/base"+want)
			}
		}
	}
}

func TestConnectIsRefused(t *testing.T) {
	g := start(t, Options{Upstream: to(echo(t).URL)})
	c := g.dial()
	g.send(c, "CONNECT internal:22 HTTP/1.1\r\nHost: internal:22\r\n\r\n")
	if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != 405 {
		t.Error(res.Status)
	}
}

// TestWhatNetHTTPReads: requests that net/http has read, over HTTP/2 and where a gate is embedded, need a host and a
// target as strict as those of a session.
func TestWhatNetHTTPReads(t *testing.T) {
	g := start(t, Options{Upstream: to(echo(t).URL)})
	for name, c := range map[string]struct {
		major, minor int
		host, target string
		status       int
	}{
		"a host in HTTP/2":       {2, 0, "a", "/x", 200},
		"no host in HTTP/2":      {2, 0, "", "/x", 400},
		"a host that is none":    {2, 0, "a:99999x", "/x", 400},
		"no host in HTTP/1.1":    {1, 1, "", "/x", 400},
		"no host in HTTP/1.0":    {1, 0, "", "/x", 200},
		"a URL":                  {1, 1, "a", "http://a/x", 200},
		"a URL of a file":        {1, 1, "a", "file:///x", 400},
		"a URL without a host":   {1, 1, "a", "http:///x", 400},
		"a URL that names users": {1, 1, "a", "http://u:p@a/x", 400},
	} {
		u, err := url.ParseRequestURI(c.target)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Method: "GET", URL: u, RequestURI: c.target, Host: c.host, ProtoMajor: c.major,
			ProtoMinor: c.minor,
			Header:     http.Header{}, RemoteAddr: "192.0.2.1:1", Body: http.NoBody}
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}
