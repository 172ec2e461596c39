package authgate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/internal/clock"
	"weir/throttle/quota"
)

func (r *rig) reload(o Options, rules ...quota.Policy) {
	r.t.Helper()
	commit, _, err := r.Prepare(o, chainOf(r.t, gatetest.Quota(r.t, r.clock, quota.Options{Policies: rules})))
	if err != nil {
		r.t.Fatal(err)
	}
	commit()
}

func TestReload(t *testing.T) {
	turns := make(chan *weir.Turn, 1)
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, lineOf(turns, time.Time{})))
	waiting := r.asking(t.Context(), byNginx()...)
	r.untilWaiting(1)
	idle := r.dial()
	br := bufio.NewReader(idle)
	_, _ = io.WriteString(idle, wire(nil, ""))
	if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != 400 {
		t.Fatal(res, err)
	} else {
		_, _ = io.Copy(io.Discard, res.Body)
	}
	// Options that cannot be taken change nothing, nor do those that are given up.
	if _, _, err := r.Prepare(Options{MaxWait: -1}, nil); err == nil {
		t.Error("taken")
	}
	commit, abort, err := r.Prepare(Options{For: Traefik}, nil)
	if err != nil {
		t.Fatal(err)
	}
	abort()
	commit() // too late
	// The server is replaced where it has to be: idle connections end, who waits goes on, and the listener stays.
	r.reload(Options{Listen: "127.0.0.1:1", Timeouts: Timeouts{Idle: weir.Duration(patience)}}, perMinute(1))
	_, _ = io.Copy(io.Discard, br) // until it is closed
	if a := r.ask(byNginx()...); a.status != 200 || a.header.Get("RateLimit") == "" {
		t.Error(a.status, a.header)
	}
	receive(t, turns).Grant()
	if a := receive(t, waiting); a.status != 200 || a.header.Get("RateLimit") != "" {
		t.Error(a.status, a.body)
	}
	// And kept where it need not.
	before := r.dial()
	_ = exchange(t, before, wire(byNginx(), ""))
	r.reload(Options{For: Traefik, Timeouts: Timeouts{Idle: weir.Duration(patience)}}, perMinute(1))
	if res := exchange(t, before, wire(byNginx(), "")); res.StatusCode != 400 {
		t.Error(res.Status)
	}
}

func TestLifeCycle(t *testing.T) {
	g, err := New(Options{Listen: "127.0.0.1:0"}, nil, Env{})
	if err != nil {
		t.Fatal(err)
	}
	g.Start() // without Listen: nothing
	if g.Addr() != nil {
		t.Error("an address before Listen")
	}
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	if g.Listen() == nil {
		t.Error("listens twice")
	}
	taken, err := New(Options{Listen: g.Addr().String()}, nil, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if taken.Listen() == nil {
		t.Error("listens where another one does")
	}
	g.Start()
	g.Start()
	for range 2 {
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if err := taken.Stop(context.Background()); err != nil {
		t.Error("stopped without having started:", err)
	}
	if err := taken.Listen(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A stop waits for those who wait; when it has no more patience they are cut off, and what they held is given back.
func TestStop(t *testing.T) {
	turns := make(chan *weir.Turn, 2)
	line := lineOf(turns, time.Time{})
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, line))
	waiting := r.asking(t.Context(), byNginx()...)
	r.untilWaiting(1)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(ctx) }()
	receive(t, r.Serving.Done())
	cancel()
	if err := receive(t, stopped); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if a := receive(t, waiting); a.status != 0 {
		t.Error(a.status, a.body)
	}
	if o := receive(t, line.settled); o.Done {
		t.Error("charged")
	}
	r = start(t, Options{}, clock.NewFake(noon), chainOf(t, lineOf(turns, time.Time{})))
	waiting = r.asking(t.Context(), byNginx()...)
	r.untilWaiting(1)
	go func() { stopped <- r.Stop(context.Background()) }()
	receive(t, r.Serving.Done())
	receive(t, turns) // of the one that was cut off
	receive(t, turns).Grant()
	if a := receive(t, waiting); a.status != 200 {
		t.Error(a.status, a.body)
	}
	if err := receive(t, stopped); err != nil {
		t.Error(err)
	}
}
