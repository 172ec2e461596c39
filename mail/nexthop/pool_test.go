package nexthop

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/clock"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A sink takes every mail, and answers as pipelining wants it: when there is nothing left to read.
type sink struct {
	address  string
	open     atomic.Int64
	most     atomic.Int64
	mails    atomic.Int64
	sessions atomic.Int64
	rcpts    sync.Map
}

func newSink(t testing.TB) *sink {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{address: ln.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return s
}

func (s *sink) serve(c net.Conn) {
	defer c.Close()
	s.sessions.Add(1)
	n := s.open.Add(1)
	defer s.open.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriter(c)
	w.WriteString("220 sink\r\n")
	for {
		if r.Buffered() == 0 {
			w.Flush()
		}
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		switch string(line[:4]) {
		case "EHLO":
			w.WriteString("250-sink\r\n250-PIPELINING\r\n250-DSN\r\n250 8BITMIME\r\n")
		case "DATA":
			w.WriteString("354 go\r\n")
			w.Flush()
			for line, err = r.ReadSlice('\n'); err == nil && string(line) != ".\r\n"; line, err = r.ReadSlice('\n') {
			}
			s.mails.Add(1)
			w.WriteString("250 2.0.0 taken\r\n")
		case "QUIT":
			w.WriteString("221 bye\r\n")
			w.Flush()
			return
		case "RCPT":
			s.rcpts.Store(string(line), true)
			w.WriteString("250 2.1.5 ok\r\n")
		default:
			w.WriteString("250 ok\r\n")
		}
	}
}

// TestManyOverFew: many deliveries share few connections, and none gets lost.
func TestManyOverFew(t *testing.T) {
	s := newSink(t)
	client := newClient(t, Env{}, func(o *Options) { o.Connections, o.Reuse = 3, 7 }, s.address)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			for n := range 20 {
				want(t, client.Deliver(soon(t), job(fmt.Sprintf("bob%d.%d@example.net", i, n))), "done 2.0.0 taken")
			}
		})
	}
	wg.Wait()
	if s.mails.Load() != 600 {
		t.Errorf("%d mails", s.mails.Load())
	}
	got := client.Stats()
	if got.Mails != 600 || got.Connections > 3 || got.Idle != got.Connections || got.Waiting != 0 || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
	if got.Dials < 600/7 || got.Dials+got.Reused != 600 {
		t.Errorf("%d connections, %d times reused, at 7 mails each", got.Dials, got.Reused)
	}
}

// TestReuse: mails follow each other on a connection, after RSET where the one before was not sent.
func TestReuse(t *testing.T) {
	s := newScripted(t, script(hello,
		oneMail, goodDot,
		"< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 550 5.1.1 unknown", "> 354 go", "< .", "> 554 nobody",
		"< RSET", oneMail[:3], "> 250 reset", oneMail[3:], "text", "> 451 4.3.0 later",
		oneMail, goodDot,
		"< QUIT", "> 221-good\r\n221 bye"),
		script(hello, oneMail, goodDot, "hang"))
	client := newClient(t, Env{}, func(o *Options) { o.Reuse = 4 }, s.address)
	for _, wanted := range []string{"done 2.0.0", "failed 5.1.1", "later 4.3.0", "done 2.0.0", "done 2.0.0"} {
		want(t, client.Deliver(soon(t), job(bob)), wanted)
	}
	if got := client.Stats(); got.Dials != 2 || got.Reused != 3 || got.Mails != 5 {
		t.Errorf("%+v", got)
	}
}

// TestResetRefused: a server that cannot start anew gets another connection.
func TestResetRefused(t *testing.T) {
	s := newScripted(t,
		script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 550 5.1.1 unknown", "> 554 nobody", "< RSET",
			"> 500 what?", "hang"),
		script(hello, oneMail, goodDot, "hang"))
	client := newClient(t, Env{}, nil, s.address)
	want(t, client.Deliver(soon(t), job(bob)), "failed 5.1.1")
	want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
}

// TestDeadIdle: a connection that has died meanwhile costs nothing but another connection, once.
func TestDeadIdle(t *testing.T) {
	for name, end := range map[string][]string{
		"hangs up": {}, "resets": {"< MAIL", "reset"}, "says so": {"> 421 4.4.2 timeout"},
		"says so when asked": {"< MAIL", "> 421 4.4.2 timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, script(hello, oneMail, goodDot, end), script(hello, oneMail, goodDot, "hang"))
			client := newClient(t, Env{}, nil, s.address)
			want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
			want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
			if got := client.Stats(); got.Dials != 2 || got.Lost != 0 || !got.Servers[0].Up {
				t.Errorf("%+v", got)
			}
		})
	}
	t.Run("dies for good", func(t *testing.T) {
		s := newScripted(t, script(hello, oneMail, goodDot), script(hello, "< MAIL"))
		client := newClient(t, Env{}, nil, s.address)
		want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
		want(t, client.Deliver(soon(t), job(bob)), "later 4.4.2 MAIL")
		if got := client.Stats(); got.Restarts != 1 || got.Servers[0].Up {
			t.Errorf("%+v", got)
		}
	})
	t.Run("later than MAIL", func(t *testing.T) {
		s := newScripted(t, script(hello, oneMail, goodDot, "< MAIL", "< RCPT", "< DATA", "> 250 ok"))
		client := newClient(t, Env{}, nil, s.address)
		want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
		want(t, client.Deliver(soon(t), job(bob)), "later 4.4.2 RCPT")
	})
}

// TestIdle: a connection that nobody uses is closed.
func TestIdle(t *testing.T) {
	s := newSink(t)
	c := clock.NewFake(start)
	client := newClient(t, Env{Clock: c}, nil, s.address)
	want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
	c.Advance(20 * time.Second)
	want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
	c.Advance(20 * time.Second)
	if got := client.Stats(); got.Idle != 1 || got.Dials != 1 {
		t.Errorf("%+v", got)
	}
	c.Advance(10 * time.Second)
	if got := client.Stats(); got.Idle != 0 || got.Connections != 0 || c.Pending() != 0 {
		t.Errorf("%+v, %d timers", got, c.Pending())
	}
	want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
	if got := client.Stats(); got.Dials != 2 {
		t.Errorf("%+v", got)
	}
}

// TestRude: a server that does not answer to QUIT, or talks without end, keeps nobody.
func TestRude(t *testing.T) {
	for _, end := range []string{"hangs", "> 500 " + strings.Repeat("x", 100_000), ">221 by"} {
		synctest.Test(t, func(t *testing.T) {
			rest := []string{end, "wait"}
			if end == "hangs" {
				rest = []string{"wait"}
			}
			s := &scripted{t: t, scripts: [][]string{script(hello, oneMail, goodDot, "< QUIT", rest)}}
			client := newClient(t, Env{Dial: s.dialBuffered}, nil, "127.0.0.1:25")
			want(t, client.Deliver(t.Context(), job(bob)), "done 2.0.0")
			began := time.Now()
			client.Close(t.Context())
			if took := time.Since(began); took > lastWords {
				t.Errorf("took %s", took)
			}
			time.Sleep(time.Minute) // of made-up time, for the server
		})
	}
}

// TestWaiting: who waits for a connection can be told to stop.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{t: t, scripts: [][]string{script(hello, oneMail, "text", "wait", "> 250 ok", "hang")}}
		client := newClient(t, Env{Dial: s.dial}, func(o *Options) { o.Connections = 1 }, "127.0.0.1:25")
		first := make(chan []Result)
		go func() { first <- client.Deliver(t.Context(), job(bob)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := make(chan []Result)
		go func() { second <- client.Deliver(ctx, job(bob)) }()
		synctest.Wait()
		if got := client.Stats(); got.Waiting != 1 || got.Connections != 1 {
			t.Errorf("%+v", got)
		}
		want(t, <-second, "later 4.3.2 stopped")
		want(t, <-first, "done 2.0.0 ok")
		if got := client.Stats(); got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestFailOver: what one server does not take before the final dot, the next one gets.
func TestFailOver(t *testing.T) {
	for name, bad := range map[string][]string{
		"greeting":  script("> 554 no"),
		"busy":      script("> 421 busy"),
		"nonsense":  script("> hello"),
		"MAIL":      script(hello, "< MAIL"),
		"RCPT":      script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 421 closing"),
		"DATA":      script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 550 5.1.1 half of it"),
		"said dot":  script(hello, oneMail, "text", "> 421 4.3.2 closing"),
		"nobody":    nil,
		"lone dot":  script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 250 ok", "> 250 what?"),
		"plaintext": script(">-"),
	} {
		t.Run(name, func(t *testing.T) {
			first := "127.0.0.1:1" // where nobody listens
			if bad != nil {
				first = newScripted(t, bad).address
			}
			good := newSink(t)
			client := newClient(t, Env{}, nil, first, good.address)
			got := client.Deliver(soon(t), job(bob))
			want(t, got, "done 2.0.0 taken")
			if got[0].Server != good.address {
				t.Errorf("taken by %s", got[0].Server)
			}
			// The first is left alone for a while.
			want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0 taken")
			if s := client.Stats(); s.Dials != 2 || s.Reused != 1 || s.Servers[0].Up || !s.Servers[1].Up ||
				s.Lost != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestNoFailOver: what a server has said is its word, and what it may have taken is not given to another.
func TestNoFailOver(t *testing.T) {
	for wanted, s := range map[string][]string{
		"later 4.2.0": script(hello, "< MAIL", "< RCPT", "< DATA", "> 450 4.2.0 no", "> 503 no", "> 503 no",
			"hang"),
		"failed 5.1.1": script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 550 5.1.1 no", "> 503 no",
			"hang"),
		"failed 5.7.1":    script(hello, oneMail, "text", "> 550 5.7.1 no", "hang"),
		"ambiguous 4.4.2": script(hello, oneMail, "text"),
	} {
		first, second := newScripted(t, s), newScripted(t)
		client := newClient(t, Env{}, nil, first.address, second.address)
		want(t, client.Deliver(soon(t), job(bob)), wanted)
	}
}

// TestPause: a server that cannot be used is tried again after longer and longer times, by one delivery.
func TestPause(t *testing.T) {
	c := clock.NewFake(start)
	dials := 0
	var fails error = errTest
	s := newSink(t)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		if fails != nil {
			return nil, fails
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	client := newClient(t, Env{Clock: c, Dial: dial}, nil, s.address)
	for n, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second,
		time.Minute, time.Minute} {
		for range 3 {
			want(t, client.Deliver(soon(t), job(bob)), "later 4.4.1 no connection: the disk is full")
		}
		if dials != n+1 {
			t.Fatalf("%d dials in round %d", dials, n)
		}
		if got := client.Stats().Servers[0]; got.Up || !got.Retry.Equal(c.Now().Add(pause)) ||
			!strings.Contains(got.Reason, "full") {
			t.Errorf("%+v", got)
		}
		c.Advance(pause - time.Nanosecond)
		want(t, client.Deliver(soon(t), job(bob)), "later 4.4.1")
		c.Advance(time.Nanosecond)
	}
	fails = nil
	want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
	if got := client.Stats().Servers[0]; !got.Up || got.Reason != "" {
		t.Errorf("%+v", got)
	}
}

// TestPausedIsNotAmbiguous: a server that hangs up after the dot is left alone for a while; what is not sent to it
// meanwhile is in no doubt.
func TestPausedIsNotAmbiguous(t *testing.T) {
	c := clock.NewFake(start)
	s := newScripted(t, script(hello, oneMail, "text"), script(hello, oneMail, goodDot, "hang"))
	client := newClient(t, Env{Clock: c}, nil, s.address)
	want(t, client.Deliver(soon(t), job(bob)), "ambiguous 4.4.2 no answer after the end of the text")
	next := job(bob)
	next.Committed = func() error {
		t.Error("came to the dot")
		return nil
	}
	want(t, client.Deliver(soon(t), next), "later 4.4.2 no answer after the end of the text")
	c.Advance(firstPause)
	want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
}

// TestProbe: when the pause is over, one delivery finds out, and where there is no other server the others wait for
// what it finds.
func TestProbe(t *testing.T) {
	for _, good := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{t: t}
			for range 20 {
				s.scripts = append(s.scripts, script(hello, oneMail, goodDot, "hang"))
			}
			dials, works := atomic.Int32{}, atomic.Bool{}
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				time.Sleep(10 * time.Second)
				if !works.Load() {
					return nil, errTest
				}
				return s.dial(ctx, network, address)
			}
			client := newClient(t, Env{Dial: dial}, nil, "127.0.0.1:25")
			want(t, client.Deliver(t.Context(), job(bob)), "later 4.4.1")
			time.Sleep(time.Minute)
			works.Store(good)
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					wanted := "done 2.0.0"
					if !good {
						wanted = "later 4.4.1"
					}
					want(t, client.Deliver(t.Context(), job(bob)), wanted)
				})
			}
			synctest.Wait()
			if n := dials.Load(); n != 2 {
				t.Errorf("%d dials", n)
			}
			wg.Wait()
			if n := dials.Load(); !good && n != 2 {
				t.Errorf("%d dials", n)
			}
		})
	}
}

// TestBusy: a server that takes no more connections is not down while it has others.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{t: t, scripts: [][]string{script(hello, oneMail, "text", "wait", "> 250 ok", "hang"),
			script("> 421 4.7.0 too many connections")}}
		client := newClient(t, Env{Dial: s.dial}, nil, "127.0.0.1:25")
		first := make(chan []Result)
		go func() { first <- client.Deliver(t.Context(), job(bob)) }()
		synctest.Wait()
		want(t, client.Deliver(t.Context(), job(bob)), "later 4.7.0 too many connections")
		if got := client.Stats(); !got.Servers[0].Up {
			t.Errorf("%+v", got)
		}
		want(t, <-first, "done 2.0.0")
	})
}

// TestRoom: connections to several servers together are bounded.
func TestRoom(t *testing.T) {
	a, b := newSink(t), newSink(t)
	c := clock.NewFake(start)
	refuse := true
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == a.address && refuse {
			return nil, errTest
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	client := newClient(t, Env{Clock: c, Dial: dial}, func(o *Options) { o.Connections = 1 }, a.address, b.address)
	want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
	c.Advance(firstPause)
	refuse = false
	got := client.Deliver(soon(t), job(bob))
	want(t, got, "done 2.0.0")
	if got[0].Server != a.address {
		t.Errorf("taken by %s", got[0].Server)
	}
	if s := client.Stats(); s.Connections != 1 || s.Idle != 1 || len(client.servers[1].idle) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestGoodbyes: few connections wait for the answer to QUIT; one more is closed at once.
func TestGoodbyes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, Env{}, func(o *Options) { o.Connections = 2 }, "127.0.0.1:25")
		began := time.Now()
		for n := range 3 {
			ours, theirs := net.Pipe()
			client.goodbye(newConn(ours, client.servers[0], &client.opts.Timeouts))
			r := bufio.NewReader(theirs)
			if line, err := r.ReadString('\n'); (err == nil) != (n < 2) || err == nil && line != "QUIT\r\n" {
				t.Errorf("connection %d: %q, %v", n, line, err)
			}
		}
		client.bye.Wait()
		if took := time.Since(began); took != lastWords {
			t.Errorf("took %s", took)
		}
	})
}
