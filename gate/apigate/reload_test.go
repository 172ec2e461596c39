package apigate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir"
)

func (r *rig) reload(o Options, chains policies) {
	r.t.Helper()
	commit, _, err := r.Prepare(options(o, chains), chains)
	if err != nil {
		r.t.Fatal(err)
	}
	commit()
}

// A hold stays open over a reload, and keeps the chain that it was taken under.
func TestReloadKeepsHolds(t *testing.T) {
	c := newClock()
	old, next := newQuota(t, c, delayed(perMinute(2))), newQuota(t, c, perMinute(5))
	r := start(t, Options{}, c, policies{"web": chainOf(t, old)})
	held := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	r.decide(`{"account":"acme"}`, weir.Admit)
	wait := r.decide(`{"account":"acme"}`, weir.Wait)
	waiting := r.awaiting(context.Background(), wait.Hold, 29*time.Second)

	r.reload(Options{Holds: Holds{Max: 1}}, policies{"site": chainOf(t, next)})
	if a := r.decide(`{"account":"acme"}`, weir.Admit); *a.Limit != 5 {
		t.Error("still under the old policy:", a.body)
	}
	if a := r.post("/v1/decide", `{"policy":"web"}`); a.status != 400 {
		t.Error(a.status, a.body)
	}
	r.settle(held.Hold, `,"done":false`, 200)
	if a := receive(t, waiting); a.Verdict != weir.Admit { // it got what was given back
		t.Error(a.status, a.body)
	}
	if r.left(old, "acme") != 0 || r.left(next, "acme") != 4 || r.seen.open() != 0 {
		t.Error(r.left(old, "acme"), r.left(next, "acme"), r.seen.open())
	}
}

func TestReloadChangesTokens(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(10))
	r.decide(`{"account":"acme"}`, weir.Admit)
	chains := policies{"web": chainOf(t)}
	r.reload(Options{Tokens: []string{strings.Repeat("n", 20)}}, chains)
	if a := r.post("/v1/decide", `{}`); a.status != 401 {
		t.Error(a.status, a.body)
	}
	r.reload(Options{}, chains)
	r.decide(`{}`, weir.Admit)
}

func TestReloadFails(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(10))
	chains := policies{"web": chainOf(t)}
	if _, _, err := r.Prepare(options(Options{Holds: Holds{Max: -1}}, chains), chains); err == nil {
		t.Error("taken")
	}
	if _, _, err := r.Prepare(options(Options{}, chains), nil); err == nil ||
		weir.FieldErrors(err)[0].Path != "policies.web" {
		t.Error("a policy without a chain:", err)
	}
	commit, abort, err := r.Prepare(options(Options{}, chains), chains)
	if err != nil {
		t.Fatal(err)
	}
	abort()
	commit() // too late
	if a := r.decide(`{"account":"acme"}`, weir.Admit); a.Limit == nil {
		t.Error("the aborted options are in effect")
	}
}

// Timeouts that net/http takes once and for all change as well: the socket stays, and requests under way go on.
func TestReloadServer(t *testing.T) {
	turns := make(chan *weir.Turn, 1)
	r := start(t, Options{}, newClock(), policies{"web": chainOf(t, lineOf(turns))})
	wait := r.decide(`{}`, weir.Wait)
	waiting := r.awaiting(context.Background(), wait.Hold, 29*time.Second)
	fresh := r.dial() // connected, and in the middle of its request
	_, _ = io.WriteString(fresh, "GET / HT")
	idle := r.dial()
	_, _ = io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	br := bufio.NewReader(idle)
	if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}

	r.reload(Options{Timeouts: Timeouts{Header: weir.Duration(9 * time.Second), Idle: weir.Duration(time.Second)}},
		policies{"web": chainOf(t)})
	if _, err := io.Copy(io.Discard, br); err != nil { // until it is closed
		t.Error("the same server:", err)
	}
	_, _ = io.WriteString(fresh, "TP/1.1\r\nHost: a\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(fresh), nil); err != nil || res.StatusCode != 200 {
		t.Error(res, err)
	}
	r.decide(`{}`, weir.Admit)
	receive(t, turns).Grant()
	if a := receive(t, waiting); a.Verdict != weir.Admit {
		t.Error(a.status, a.body)
	}
}

func TestLifeCycle(t *testing.T) {
	chains := policies{"web": chainOf(t)}
	g, err := New(options(Options{}, chains), chains, Env{})
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
	taken, err := New(options(Options{Listen: g.Addr().String()}, chains), chains, Env{})
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

// A stop that runs out of patience cuts off what is under way, and settles all the same.
func TestStopWithoutPatience(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	stuck := newProbe(func(*weir.Event, *weir.Answer) { close(arrived); <-release })
	r := start(t, Options{}, newClock(), policies{"web": chainOf(t, stuck)})
	failed := make(chan error, 1)
	req := r.request(context.Background(), http.MethodPost, "/v1/decide", `{"hold":true}`)
	go func() { _, err := r.try(req); failed <- err }()
	receive(t, arrived)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(ctx) }()
	if receive(t, failed) == nil {
		t.Error("answered")
	}
	close(release)
	if err := receive(t, stopped); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	receive(t, stuck.settled)
}
