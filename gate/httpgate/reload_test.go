package httpgate

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

func (r *rig) reload(o Options, throttles ...weir.Throttle) {
	r.t.Helper()
	commit, _, err := r.Prepare(o, nil, chainOf(r.t, throttles...))
	if err != nil {
		r.t.Fatal(err)
	}
	commit()
}

func named(t testing.TB, name string) string {
	return upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }).URL
}

// A request that waits keeps the chain and the upstream that it began with.
func TestReloadKeepsRequests(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: to(named(t, "old"))}, l)
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	turn := receive(t, l.Turns)
	g.reload(Options{Upstream: to(named(t, "new"))})
	if _, body := g.do(g.request("GET", "/", nil)); body != "new" {
		t.Errorf("a new request got %q", body)
	}
	turn.Grant()
	br := bufio.NewReader(c)
	if _, body := g.answer(br); body != "old" {
		t.Errorf("the old request got %q", body)
	}
	// Nothing that net/http must know has changed: the connection is kept.
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, body := g.answer(br); body != "new" {
		t.Errorf("the next request got %q", body)
	}
}

func TestReloadFails(t *testing.T) {
	g := start(t, Options{Upstream: to(named(t, "old"))})
	if _, _, err := g.Prepare(Options{Upstream: to("ftp://x")}, nil, nil); err == nil {
		t.Error("taken")
	}
	_, abort, err := g.Prepare(Options{Upstream: to(named(t, "new"))}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	abort()
	if _, body := g.do(g.request("GET", "/", nil)); body != "old" {
		t.Errorf("%q", body)
	}
}

// Options of net/http's server change under load: no request fails, and those under way go on.
func TestReloadServer(t *testing.T) {
	l := newLine()
	up := named(t, "ok")
	g := start(t, Options{Upstream: to(up)}, l)
	held := g.dial()
	g.send(held, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
	turn := receive(t, l.Turns)
	fresh := g.dial() // connected, and silent so far
	g.send(fresh, "GET / HT")
	needs.Wait(t, "two connections", func() bool { return g.Open.Load() == 2 })

	var load sync.WaitGroup
	stop := make(chan bool)
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := client().Get(g.url + "/load")
				if err != nil {
					t.Errorf("under load: %v", err)
					return
				}
				res.Body.Close()
			}
		})
	}
	go func() {
		for turn := range l.Turns {
			turn.Grant()
		}
	}()
	for i := range 5 {
		g.reload(Options{Upstream: to(up), Bounds: Bounds{Header: weir.Size(2048 + i)},
			Timeouts: Timeouts{Idle: weir.Duration(time.Minute)}}, l)
	}
	close(stop)
	load.Wait()
	g.send(fresh, "TP/1.1\r\nHost: a\r\n\r\n")
	if res, _ := g.answer(bufio.NewReader(fresh)); res.StatusCode != 200 {
		t.Errorf("the fresh connection: %v", res.Status)
	}
	turn.Grant()
	g.send(held, "llo")
	if res, _ := g.answer(bufio.NewReader(held)); res.StatusCode != 200 {
		t.Errorf("the held request: %v", res.Status)
	}
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("y", 2100)+"\r\n\r\n")
	if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != 431 {
		t.Errorf("the new bound: %v", res.Status)
	}
	if err := g.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	close(l.Turns)
}

func TestListenErrors(t *testing.T) {
	g := start(t, Options{Upstream: to("http://127.0.0.1:1")})
	if err := g.Listen(); err == nil {
		t.Error("listens twice")
	}
	other, err := New(Options{Listen: g.addr, Upstream: to("http://127.0.0.1:1")}, nil, nil, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Listen(); err == nil {
		t.Error("listens on a taken address")
	}
	other.Start() // does nothing
	if err := other.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
