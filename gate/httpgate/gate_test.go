package httpgate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"weir/gate"
	"weir/gate/gatetest"
	"weir/gate/httpgate/accesslog"

	"weir"
	"weir/internal/testkit/needs"
)

func TestAdmit(t *testing.T) {
	admit := newThrottle(func(ev *weir.Event, a *weir.Answer) error {
		if ev.Account != "acme" || ev.Route.Path != "/a/b" || ev.Route.Host != "127.0.0.1" || ev.Kind != "http" ||
			!ev.Time.Equal(epoch) {
			t.Errorf("event %+v", ev)
		}
		a.Figures = append(a.Figures,
			weir.Figure{Rule: "per-second", Unit: "requests", Limit: 5, Remaining: 4, Window: weir.Window(time.Second),
				Reset: epoch.Add(time.Second)},
			weir.Figure{Rule: "at-once", Unit: "at once", Limit: 10, Remaining: 9},
			weir.Figure{Rule: `odd"one`, Unit: "bytes", Limit: 10, Remaining: 9,
				Window: weir.Window(200 * time.Millisecond), Reset: epoch.Add(1)})
		return nil
	})
	g := start(t, Options{Upstream: to(echo(t).URL), Account: []string{"header:X-Api-Key"}}, admit)
	res, body := g.do(g.request("POST", "//a/./b?secret=1", strings.NewReader("hello"), "X-Api-Key", "acme"))
	if res.StatusCode != 200 || body != "hello" {
		t.Fatalf("%v %q", res.Status, body)
	}
	if got, want := res.Header.Get("RateLimit-Policy"),
		`"per-second";q=5;w=1, "at-once";q=10;qu="concurrent-requests", "odd\"one";q=10;w=1;qu="content-bytes"`; got != want {
		t.Errorf("RateLimit-Policy\n got %s\nwant %s", got, want)
	}
	if got, want := res.Header.Get("RateLimit"),
		`"per-second";r=4;t=1, "at-once";r=9, "odd\"one";r=9;t=1`; got != want {
		t.Errorf("RateLimit %s", got)
	}
	if o := receive(t, admit.Settled); !o.Done || admit.Held.Load() != 0 {
		t.Errorf("settled %+v, held %d", o, admit.Held.Load())
	}
	line := g.accessLine(res.Header.Get("X-Request-Id"))
	if line["verdict"] != "admit" || line["status"] != 200.0 || line["in"] != 5.0 || line["out"] != 5.0 {
		t.Errorf("%v", line)
	}
	if log := g.log.String(); strings.Contains(log, "secret") || strings.Contains(log, "acme") {
		t.Errorf("secrets in the log: %s", log)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		judge  func(*weir.Event, *weir.Answer) error
		opts   Options
		status int
		header map[string]string
		doc    map[string]any
	}{
		"over limit": {overLimit, Options{}, 429,
			map[string]string{"Retry-After": "1", "RateLimit": `"per-second";r=0;t=1`,
				"RateLimit-Policy": `"per-second";q=5;w=1`},
			map[string]any{"type": "urn:weir:over-limit", "policy": "per-second", "throttle": "t0",
				"reason": "over-limit", "limit": 5.0,
				"remaining": 0.0, "retry_after": 1.0, "detail": "The limit of 5 requests per second is used up.",
				"title": "Too Many Requests"}},
		"no account": {func(_ *weir.Event, a *weir.Answer) error {
			a.Verdict, a.Reason = weir.Refuse, weir.NoAccount
			return nil
		}, Options{Account: []string{"bearer", "query:key"}}, 401,
			map[string]string{"Www-Authenticate": `Bearer realm="weir"`, "Retry-After": ""}, nil},
		"failure": {func(*weir.Event, *weir.Answer) error { return errors.New("broken") }, Options{}, 503,
			map[string]string{"Retry-After": "1"}, map[string]any{"reason": "failure"}},
		"challenge": {func(_ *weir.Event, a *weir.Answer) error { a.Verdict = weir.Challenge; return nil }, Options{},
			503, nil, nil},
		"too costly": {func(_ *weir.Event, a *weir.Answer) error {
			a.Verdict, a.Reason = weir.Refuse, weir.TooCostly
			return nil
		}, Options{}, 429, map[string]string{"Retry-After": ""}, nil},
		"far reset": {func(ev *weir.Event, a *weir.Answer) error {
			a.Verdict, a.Reason, a.Until, a.Reset = weir.Refuse, weir.LineFull, ev.Time.Add(time.Second),
				ev.Time.Add(90500*time.Millisecond)
			return nil
		}, Options{}, 429, map[string]string{"Retry-After": "91"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.Upstream = to("http://127.0.0.1:1")
			g := start(t, c.opts, newThrottle(c.judge))
			res, body := g.do(g.request("GET", "/", nil))
			doc := problemOf(t, body)
			if res.StatusCode != c.status || doc["status"] != float64(c.status) ||
				res.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%v %v", res.Status, body)
			}
			for k, v := range c.header {
				if got := res.Header.Get(k); got != v {
					t.Errorf("%s: %q, want %q", k, got, v)
				}
			}
			for k, v := range c.doc {
				if doc[k] != v {
					t.Errorf("%s: %v, want %v", k, doc[k], v)
				}
			}
			if doc["request_id"] != res.Header.Get("X-Request-Id") {
				t.Errorf("ids differ")
			}
			if line := g.accessLine(doc["request_id"].(string)); line["status"] != float64(c.status) {
				t.Errorf("%v", line)
			}
		})
	}
}

func TestProblemGolden(t *testing.T) {
	g := start(t, Options{Upstream: to("http://127.0.0.1:1")}, newThrottle(overLimit))
	res, body := g.do(g.request("GET", "/", nil))
	want := `{"type":"urn:weir:over-limit","title":"Too Many Requests","status":429,"detail":"The limit of 5 requests per second is used up.",` +
		`"policy":"per-second","throttle":"t0","reason":"over-limit","limit":5,"unit":"requests","remaining":0,"retry_after":1,"request_id":"ID"}` + "\n"
	if got := strings.Replace(body, res.Header.Get("X-Request-Id"), "ID", 1); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestAccessLevels(t *testing.T) {
	for level, want := range map[accesslog.Requests]string{accesslog.All: "200 429 400", accesslog.Refused: "429 400",
		accesslog.Off: ""} {
		var log gatetest.Log
		g, err := New(Options{Listen: "127.0.0.1:0", Upstream: to(echo(t).URL), Account: []string{"path:2"}}, nil,
			chainOf(t, newThrottle(func(ev *weir.Event, a *weir.Answer) error {
				if ev.Account == "secret" {
					return overLimit(ev, a)
				}
				return nil
			})), Env{Env: gate.Env{Log: slog.New(slog.NewJSONHandler(&log, nil))},
				Access: accesslog.Log{Requests: level}})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/v1/fine", "/v1/secret", "/v1/source:x"} {
			g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
		}
		var got []string
		for line := range strings.Lines(log.String()) {
			got = append(got, regexp.MustCompile(`"status":(\d+)`).FindStringSubmatch(line)[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", level, got)
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("an account in clear: %s", log.String())
		}
	}
}

func TestPage(t *testing.T) {
	g := start(t, Options{Upstream: to("http://127.0.0.1:1")}, newThrottle(overLimit))
	for _, c := range []struct {
		header []string
		page   bool
	}{
		{[]string{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, true},
		{[]string{"Accept", "text/html", "Sec-Fetch-Mode", "cors"}, false},
		{[]string{"Accept", "*/*", "Sec-Fetch-Mode", "navigate"}, true},
		{[]string{"Accept", "application/json, text/html;q=0.5"}, false},
		{[]string{"Accept", "*/*"}, false},
		{nil, false},
	} {
		res, body := g.do(g.request("GET", "/", nil, c.header...))
		if is := strings.HasPrefix(res.Header.Get("Content-Type"), "text/html"); is != c.page || res.StatusCode != 429 {
			t.Errorf("%v: page %v", c.header, is)
		}
		if !c.page {
			continue
		}
		for _, want := range []string{`<html lang="en">`, "color-scheme: light dark",
			"The limit of 5 requests per second is used up.",
			"try again in 1 second.", "per-second of t0", "<dd>5 requests, 0 left</dd>",
			res.Header.Get("X-Request-Id")} {
			if !strings.Contains(body, want) {
				t.Errorf("no %q in %s", want, body)
			}
		}
		if strings.Contains(body, "http:") || strings.Contains(body, "src=") ||
			res.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("the page reaches outside: %s", body)
		}
	}
	res, body := g.do(g.request("HEAD", "/", nil))
	if res.StatusCode != 429 || body != "" {
		t.Errorf("HEAD: %v %q", res.Status, body)
	}
}

func TestBadAccount(t *testing.T) {
	g := start(t, Options{Upstream: to("http://127.0.0.1:1"), Account: []string{"query:key"}})
	res, body := g.do(g.request("GET", "/?key=a%00b", nil))
	if res.StatusCode != 400 || !strings.Contains(body, "control characters") {
		t.Errorf("%v %s", res.Status, body)
	}
	g.accessLine(res.Header.Get("X-Request-Id"))
}

func TestWaitAndGo(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: to(echo(t).URL)}, l)
	answers := make(chan string, 2)
	for _, body := range []string{"one", "two"} {
		go func() {
			_, got := g.do(g.request("POST", "/", strings.NewReader(body)))
			answers <- got
		}()
	}
	first, second := receive(t, l.Turns), receive(t, l.Turns)
	needs.Wait(t, "two waiting", func() bool { return g.waiting.Len() == 2 })
	first.Grant()
	receive(t, answers)
	if g.waiting.Len() != 1 {
		t.Errorf("%d waiting", g.waiting.Len())
	}
	second.Refuse(weir.WaitTooLong)
	if doc := problemOf(t, receive(t, answers)); doc["reason"] != "wait-too-long" || doc["status"] != 429.0 {
		t.Errorf("%v", doc)
	}
	receive(t, l.Settled)
	receive(t, l.Settled)
	if l.Done.Load() != 1 || l.Undone.Load() != 1 {
		t.Errorf("done %d, undone %d", l.Done.Load(), l.Undone.Load())
	}
}

func TestLeavingWhileWaiting(t *testing.T) {
	for name, head := range map[string]string{
		"get":            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"get pipelined":  "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"post":           "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"post partly":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\nhello",
		"post chunked":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"post expecting": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine()
			g := start(t, Options{Upstream: to(echo(t).URL)}, l)
			c := g.dial()
			g.send(c, head)
			receive(t, l.Turns)
			needs.Wait(t, "waiting", func() bool { return g.waiting.Len() == 1 })
			_ = c.Close()
			if o := receive(t, l.Settled); o.Done {
				t.Error("charged for nothing")
			}
			needs.Wait(t, "gone", func() bool { return g.UnderWay.Load() == 0 && g.Open.Load() == 0 })
		})
	}
}

func TestExpectContinueAfterWait(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: to(echo(t).URL)}, l)
	c := g.dial()
	g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	receive(t, l.Turns).Grant()
	br := bufio.NewReader(c)
	if line, _ := br.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q", line)
	}
	_, _ = br.ReadString('\n')
	g.send(c, "hello")
	if res, body := g.answer(br); res.StatusCode != 200 || body != "hello" || res.Header.Get("X-Request-Id") == "" {
		t.Errorf("%v %q", res.Status, body)
	}
}

func TestPanicInThrottle(t *testing.T) {
	calm := newThrottle(nil)
	wild := newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
		if ev.Route.Path == "/wild" {
			panic("wild")
		}
		return nil
	})
	g := start(t, Options{Upstream: to(echo(t).URL)}, calm, wild)
	if _, err := client().Do(g.request("GET", "/wild", nil)); err == nil {
		t.Error("answered")
	}
	if o := receive(t, calm.Settled); o.Done {
		t.Error("not given back")
	}
	needs.Wait(t, "a line in the log", func() bool { return strings.Contains(g.log.String(), "ended in a panic") })
	if res, _ := g.do(g.request("GET", "/", nil)); res.StatusCode != 200 {
		t.Errorf("%v", res.Status)
	}
}

func TestStop(t *testing.T) {
	l := newLine()
	begun, finish := make(chan bool, 1), make(chan bool)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-finish
		_, _ = io.WriteString(w, "done")
	})
	g := start(t, Options{Upstream: to(up.URL)}, l)
	answers := make(chan string, 1)
	go func() { _, body := g.do(g.request("GET", "/", nil)); answers <- body }()
	turn := receive(t, l.Turns)
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(context.Background()) }()
	needs.Wait(t, "refused connections", func() bool {
		c, err := net.Dial("tcp", g.addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	turn.Grant()
	receive(t, begun)
	close(finish)
	if body := receive(t, answers); body != "done" {
		t.Errorf("%q", body)
	}
	if err := receive(t, stopped); err != nil {
		t.Error(err)
	}
	if err := g.Stop(context.Background()); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

func TestStopWithoutPatience(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: to("http://127.0.0.1:1")}, l)
	for _, head := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"} {
		g.send(g.dial(), head)
		receive(t, l.Turns)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := g.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if l.Held.Load() != 0 || l.Undone.Load() != 2 {
		t.Errorf("held %d, undone %d", l.Held.Load(), l.Undone.Load())
	}
}
