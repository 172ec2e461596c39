package gate_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/gate"
	"weir/gate/gatetest"
	"weir/internal/clock"
	"weir/internal/logs"
	"weir/internal/testkit/needs"
)

// options of the gate of these tests, which are its setup too.
type options struct {
	word    string
	bound   int
	timeout time.Duration
}

// An echo says its word to each connection, and then what it is told.
type echo struct {
	*gate.Skeleton[options]
	log     gatetest.Log
	bounded atomic.Int64
	dropped atomic.Int64
	ended   atomic.Int64
}

func newEcho(o options) *echo {
	g := &echo{}
	g.Skeleton = gate.New(gate.Env{Log: g.log.Text(slog.LevelInfo)}, &o, gate.Hooks[options]{
		What: "echoes",
		Open: func(*options) (gate.Listener, error) { return gate.Listen("127.0.0.1:0", gate.Socket{}) },
		Take: func(c net.Conn) {
			s := g.Setup.Load()
			if s.word == "take panics" {
				panic("take")
			}
			if counted := g.Counted(c, s.bound, func() { g.bounded.Add(1) }); counted != nil {
				g.Go(func() { g.serve(counted, s) })
			}
		},
		Dropped: func(*options) { g.dropped.Add(1) },
		End:     func() { g.ended.Add(1) },
	})
	return g
}

func (g *echo) serve(c net.Conn, s *options) {
	defer c.Close()
	defer context.AfterFunc(g.Base, func() { _ = c.Close() })()
	_, _ = io.WriteString(c, s.word+"\n")
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if lines.Text() == "panic" {
			panic("as told")
		}
		_, _ = io.WriteString(c, lines.Text()+"\n")
	}
}

// A talk is a connection to an echo.
type talk struct {
	t testing.TB
	net.Conn
	lines *bufio.Reader
}

func (g *echo) talk(t testing.TB) *talk {
	t.Helper()
	c := gatetest.Dial(t, g.Addr())
	return &talk{t, c, bufio.NewReader(c)}
}

// talkFrom is talk from another address.
func (g *echo) talkFrom(t testing.TB, host byte) *talk {
	t.Helper()
	c := gatetest.DialFrom(t, host, g.Addr())
	return &talk{t, c, bufio.NewReader(c)}
}

// says checks the next line.
func (c *talk) says(want string) {
	c.t.Helper()
	if got, err := c.lines.ReadString('\n'); err != nil || got != want+"\n" {
		c.t.Fatalf("%q, %v, want %q", got, err, want)
	}
}

func (c *talk) isClosed() {
	c.t.Helper()
	if got, err := c.lines.ReadString('\n'); err == nil {
		c.t.Fatalf("%q, want an end", got)
	}
}

// At the bound the source with the most connections loses its newest to another one, and a source does not make room
// for itself.
func TestCountedMakesRoom(t *testing.T) {
	g := newEcho(options{word: "hello", bound: 4})
	gatetest.Run(t, g)
	var greedy, others []*talk
	for range 4 {
		c := g.talkFrom(t, 2)
		c.says("hello")
		greedy = append(greedy, c)
	}
	g.talkFrom(t, 2).isClosed()
	for i := range 2 {
		c := g.talkFrom(t, 3)
		c.says("hello")
		greedy[3-i].isClosed()
		others = append(others, c)
	}
	g.talkFrom(t, 3).isClosed() // both have two
	for _, c := range append(others, greedy[:2]...) {
		_, _ = io.WriteString(c, "still here\n")
		c.says("still here")
	}
	if needs.Wait(t, "four", func() bool { return g.Open.Load() == 4 }); g.bounded.Load() != 4 {
		t.Errorf("%d counted", g.bounded.Load())
	}
}

func TestStopBeforeListen(t *testing.T) {
	g := newEcho(options{})
	if g.Start(); g.Addr() != nil {
		t.Error("it listens before Listen")
	}
	for range 2 {
		if err := g.Stop(gatetest.Ended()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if err := g.Listen(); !errors.Is(err, net.ErrClosed) {
		t.Error("it listens after the stop:", err)
	}
	if g.Start(); g.Addr() != nil || !g.Stopping() || g.ended.Load() != 1 {
		t.Error("it goes on after the stop")
	}
}

func TestListenTwice(t *testing.T) {
	g := newEcho(options{})
	if err := errors.Join(g.Listen(), g.Listen()); err == nil || !strings.Contains(err.Error(), "already") {
		t.Error(err)
	}
	addr := g.Addr()
	gatetest.Stop(t, g) // without Start
	if c, err := net.Dial("tcp", addr.String()); err == nil {
		c.Close()
		t.Error("it listens after the stop")
	}
}

// The address is free after Unlisten, while a connection is under way, for which the stop waits.
func TestUnlisten(t *testing.T) {
	g := newEcho(options{word: "hello", bound: 2})
	gatetest.Run(t, g)
	c := g.talk(t)
	c.says("hello")
	g.Unlisten()
	l, err := net.Listen("tcp", g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, _ = io.WriteString(c, "still here\n")
	c.says("still here")
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(context.Background()) }()
	c.Close()
	if err := gatetest.Receive(t, stopped); err != nil || g.ended.Load() != 1 {
		t.Error(err, g.ended.Load())
	}
	g.Unlisten() // does nothing
}

// A stop waits for what is under way, and a second one for the first.
func TestStopDrains(t *testing.T) {
	g := newEcho(options{word: "hello", bound: 2})
	gatetest.Run(t, g)
	g.Start() // does nothing
	c := g.talk(t)
	c.says("hello")
	stopped := make(chan error, 2)
	go func() { stopped <- g.Stop(context.Background()) }()
	<-g.Serving.Done()
	if err := g.Stop(gatetest.Ended()); !errors.Is(err, context.Canceled) {
		t.Error("a second stop does not wait:", err)
	}
	go func() { stopped <- g.Stop(context.Background()) }()
	_, _ = io.WriteString(c, "still here\n")
	c.says("still here")
	if g.ended.Load() != 0 {
		t.Error("the stop is over while a connection is open")
	}
	c.Close()
	for range 2 {
		if err := gatetest.Receive(t, stopped); err != nil {
			t.Error(err)
		}
	}
	if g.Open.Load() != 0 || g.UnderWay.Load() != 0 || g.ended.Load() != 1 {
		t.Errorf("%d open, %d under way, %d ends", g.Open.Load(), g.UnderWay.Load(), g.ended.Load())
	}
}

func TestStopCuts(t *testing.T) {
	g := newEcho(options{word: "hello", bound: 2})
	gatetest.Run(t, g)
	c := g.talk(t)
	c.says("hello")
	err := g.Stop(gatetest.Ended())
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 echoes were cut off") {
		t.Error(err)
	}
	c.isClosed()
	if g.Base.Err() == nil || g.UnderWay.Load() != 0 {
		t.Error("it is still under way")
	}
}

// What cannot be cut is waited for, a while, and told.
func TestLastWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newEcho(options{})
		release := make(chan struct{})
		g.Go(func() { <-release })
		at := time.Now()
		if err := g.Stop(gatetest.Ended()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if waited := time.Since(at); waited != 5*time.Second {
			t.Errorf("waited %s", waited)
		}
		if !strings.Contains(g.log.String(), `"echoes are still under way after the stop" echoes=1`) {
			t.Error(g.log.String())
		}
		close(release)
	})
}

func TestReplace(t *testing.T) {
	wrong := errors.New("wrong")
	g := newEcho(options{word: "one", bound: 10})
	gatetest.Run(t, g)
	defer gatetest.Stop(t, g)
	old := g.talk(t)
	defer old.Close()
	old.says("one")
	commit, abort, _ := g.Replace(&options{word: "two", bound: 10}, nil)
	abort()
	commit() // too late
	if g.dropped.Load() != 1 || g.Setup.Load().word != "one" {
		t.Error("an aborted change took place")
	}
	commit, abort, _ = g.Replace(&options{word: "three", bound: 10}, nil)
	commit()
	abort() // too late
	c := g.talk(t)
	defer c.Close()
	c.says("three")
	_, _ = io.WriteString(old, "still here\n")
	old.says("still here")
	if _, _, err := g.Replace(nil, wrong); err != wrong || g.dropped.Load() != 1 {
		t.Errorf("%v, and %d changes dropped", err, g.dropped.Load())
	}
}

func TestBound(t *testing.T) {
	g := newEcho(options{word: "hello", bound: 2})
	gatetest.Run(t, g)
	defer gatetest.Stop(t, g)
	first, second := g.talk(t), g.talk(t)
	defer second.Close()
	first.says("hello")
	second.says("hello")
	g.talk(t).isClosed()
	if g.bounded.Load() != 1 || g.Open.Load() != 2 {
		t.Errorf("%d turned away, %d open", g.bounded.Load(), g.Open.Load())
	}
	first.Close()
	needs.Wait(t, "a place is free", func() bool { return g.Open.Load() == 1 })
	third := g.talk(t)
	defer third.Close()
	third.says("hello")
}

// A panic ends one connection, and no other.
func TestPanic(t *testing.T) {
	g := newEcho(options{word: "hello", bound: 10})
	gatetest.Run(t, g)
	defer gatetest.Stop(t, g)
	neighbour, c := g.talk(t), g.talk(t)
	defer neighbour.Close()
	neighbour.says("hello")
	c.says("hello")
	_, _ = io.WriteString(c, "panic\n")
	c.isClosed()
	needs.Wait(t, "the log tells", func() bool {
		return strings.Contains(g.log.String(), "a bug in weir") && strings.Contains(g.log.String(), "as told") &&
			strings.Contains(g.log.String(), "skeleton_test.go")
	})
	commit, _, _ := g.Replace(&options{word: "take panics"}, nil)
	commit()
	g.talk(t).isClosed()
	commit, _, _ = g.Replace(&options{word: "back", bound: 10}, nil)
	commit()
	after := g.talk(t)
	defer after.Close()
	after.says("back")
	_, _ = io.WriteString(neighbour, "still here\n")
	neighbour.says("still here")
}

func TestPanicsAreLimited(t *testing.T) {
	var log gatetest.Log
	c := clock.NewFake(gatetest.Noon)
	g := gate.New(gate.Env{Clock: c, Log: log.Text(slog.LevelInfo)}, &options{}, gate.Hooks[options]{})
	panics := func(n int) {
		for range n {
			g.Panicked("failed", "why")
		}
	}
	panics(11)
	if n := strings.Count(log.String(), "msg=failed"); n != 10 {
		t.Errorf("%d lines in a second", n)
	}
	c.Advance(time.Second)
	panics(1)
	if n := strings.Count(log.String(), "msg=failed"); n != 11 || !strings.Contains(log.String(), "unlogged_before=1") {
		t.Error(log.String())
	}
	var line logs.Line
	g.Warn(&line, "beware")
	g.Warn(&line, "beware")
	if n := strings.Count(log.String(), "msg=beware"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// newWeb returns a gate whose connections go to an http.Server, which answers with its word.
func newWeb(o options) *gate.Skeleton[options] {
	var g *gate.Skeleton[options]
	g = gate.New(gate.Env{}, &o, gate.Hooks[options]{
		What: "requests",
		Open: func(*options) (gate.Listener, error) { return gate.Listen("127.0.0.1:0", gate.Socket{}) },
		Take: func(c net.Conn) { g.Hand(g.Counted(c, 100, nil)) },
		Server: func(s *options) gate.Server {
			return g.HTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				g.UnderWay.Add(1)
				defer g.UnderWay.Add(-1)
				_, _ = io.WriteString(w, s.word)
				if r.URL.Path == "/wait" {
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}
			}), gate.HTTPOptions{Header: s.timeout})
		},
		Same: func(old, next *options) bool { return old.timeout == next.timeout },
	})
	return g
}

// get asks on a connection of its own, and returns the word.
func get(t *testing.T, g *gate.Skeleton[options]) string {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: gatetest.Patience}
	res, err := c.Get("http://" + g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	word, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(word)
}

// A reload replaces the server only where that has to be.
func TestServerReplaced(t *testing.T) {
	g := newWeb(options{word: "one", timeout: time.Minute})
	gatetest.Run(t, g)
	for _, step := range []struct {
		next options
		want string
	}{
		{options{word: "two", timeout: time.Minute}, "one"},
		{options{word: "three", timeout: time.Hour}, "three"},
	} {
		commit, _, _ := g.Replace(&step.next, nil)
		commit()
		if got := get(t, g); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
	gatetest.Stop(t, g)
	if n := g.Open.Load(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}

func TestServerCut(t *testing.T) {
	g := newWeb(options{word: "one"})
	gatetest.Run(t, g)
	res, err := http.Get("http://" + g.Addr().String() + "/wait")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := g.Stop(gatetest.Ended()); err == nil || !strings.Contains(err.Error(), "1 requests were cut off") {
		t.Error(err)
	}
	if g.UnderWay.Load() != 0 || g.Open.Load() != 0 {
		t.Errorf("%d under way, %d open", g.UnderWay.Load(), g.Open.Load())
	}
}

// packets are a listener that is no net.Listener.
type packets struct {
	net.PacketConn
	served chan struct{}
}

func (p packets) Addr() net.Addr { return p.LocalAddr() }
func (p packets) Serve() {
	defer close(p.served)
	_, _, _ = p.ReadFrom(make([]byte, 10))
}

func TestPackets(t *testing.T) {
	served := make(chan struct{})
	g := gate.New(gate.Env{}, &options{}, gate.Hooks[options]{What: "packets",
		Open: func(*options) (gate.Listener, error) {
			c, err := net.ListenPacket("udp", "127.0.0.1:0")
			return packets{c, served}, err
		}})
	gatetest.Run(t, g)
	gatetest.Stop(t, g)
	gatetest.Receive(t, served)
}

func TestReadProxyHeader(t *testing.T) {
	h, err := gate.ReadProxyHeader(strings.NewReader("PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\r\nrest"))
	if err != nil || h.From.String() != "192.0.2.1:1000" || h.To.String() != "192.0.2.2:80" ||
		string(h.Ahead) != "rest" {
		t.Errorf("%+v, %v", h, err)
	}
	// A proxy that speaks for itself: LOCAL, with addresses that must not be believed (version 2, command 0).
	local := "\r\n\r\n\x00\r\nQUIT\n\x20\x11\x00\x0c\xc0\x00\x02\x01\xc0\x00\x02\x02\x03\xe8\x00\x50"
	if h, err = gate.ReadProxyHeader(strings.NewReader(local)); err != nil || h.From != nil || h.Ahead != nil {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := gate.ReadProxyHeader(strings.NewReader("GET / HTTP/1.1\r\n")); err == nil {
		t.Error("no header is taken for one")
	}
}
