package apigate

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
)

// Holds that nobody settles are settled by the gate, as it is told to.
func TestExpiry(t *testing.T) {
	for expired, left := range map[Expired]int64{"": 1, ExpiredDone: 1, ExpiredUndone: 2} {
		t.Run(string(expired), func(t *testing.T) {
			r, q := startQuota(t, Options{Holds: Holds{Expired: expired}}, perHour(2))
			held := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
			r.clock.Advance(time.Minute - 1)
			if r.seen.open() != 1 || r.seen.expired != 0 {
				t.Fatal("expired too early")
			}
			r.clock.Advance(1)
			if r.seen.open() != 0 || r.seen.expired != 1 {
				t.Fatal("not expired")
			}
			if n := r.left(q, "acme"); n != left {
				t.Errorf("%d left, want %d", n, left)
			}
			r.settle(held.Hold, ``, 404)
		})
	}
}

// A wait lives from its expected turn on. A turn that nobody came for is settled like any hold.
func TestExpiryOfAWait(t *testing.T) {
	for expired, left := range map[Expired]int64{ExpiredDone: 0, ExpiredUndone: 1} {
		t.Run(string(expired), func(t *testing.T) {
			r, q := startQuota(t, Options{Holds: Holds{Expired: expired}}, delayed(perHour(1)))
			r.decide(`{"account":"acme"}`, weir.Admit)
			r.decide(`{"account":"acme"}`, weir.Wait)
			r.clock.Advance(time.Hour + time.Minute - 1)
			if r.seen.open() != 1 || r.left(q, "acme") != 0 {
				t.Fatal("its turn did not come", r.seen.open(), r.left(q, "acme"))
			}
			r.clock.Advance(1)
			if n := r.left(q, "acme"); n != left || r.seen.open() != 0 {
				t.Errorf("%d left, want %d", n, left)
			}
		})
	}
}

// A hold stays as long as its client awaits it, also where nobody knows when a place will be free.
func TestAwaitKeepsAlive(t *testing.T) {
	r, _ := startQuota(t, Options{Holds: Holds{TTL: weir.Duration(10 * time.Second)}}, delayed(atOnce(1)))
	other := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	wait := r.decide(`{"account":"acme"}`, weir.Wait)
	if !wait.Expires.Equal(noon.Add(10 * time.Second)) {
		t.Error(wait.body)
	}
	for range 3 { // each waits longer than the hold would live by itself
		if a := r.post("/v1/await", `{"hold":"`+other.Hold+`"}`); a.status != 200 {
			t.Fatal(a.status, a.body)
		}
		waiting := r.awaiting(context.Background(), wait.Hold, 20*time.Second)
		r.clock.Advance(20 * time.Second)
		if a := receive(t, waiting); a.Verdict != weir.Wait || !a.Expires.Equal(r.clock.Now().Add(10*time.Second)) {
			t.Fatal(a.status, a.body)
		}
	}
	r.clock.Advance(10 * time.Second)
	r.settle(wait.Hold, ``, 404)
}

// One timer serves all holds, and each expires at its own time.
func TestOneTimer(t *testing.T) {
	r, _ := startQuota(t, Options{}, perHour(1000))
	var held []answer
	for range 10 {
		held = append(held, r.decide(`{"account":"acme","hold":true}`, weir.Admit))
		r.clock.Advance(time.Second)
	}
	if n := r.clock.Pending(); n != 1 {
		t.Fatalf("%d timers", n)
	}
	r.settle(held[0].Hold, ``, 200)
	r.settle(held[3].Hold, ``, 200)
	r.clock.Advance(50 * time.Second) // the timer for the first fires, for nothing
	for i, want := range []int{8, 7, 6, 6, 5, 4, 3, 2, 1, 0} {
		if n := r.seen.open(); n != want {
			t.Errorf("%d open after the %d. second, want %d", n, i, want)
		}
		r.clock.Advance(time.Second)
	}
	if n := r.clock.Pending(); n != 0 || r.seen.expired != 8 {
		t.Errorf("%d timers, %d expired", n, r.seen.expired)
	}
}

// A stop answers those who await and settles what is left.
func TestStopSettles(t *testing.T) {
	for expired, left := range map[Expired]int64{ExpiredDone: 1, ExpiredUndone: 2} {
		t.Run(string(expired), func(t *testing.T) {
			turns := make(chan *weir.Turn, 1)
			c := newClock()
			q, line := newQuota(t, c, perHour(2)), lineOf(turns)
			r := start(t, Options{Holds: Holds{Expired: expired}}, c,
				policies{"web": chainOf(t, q), "line": chainOf(t, line)})
			r.decide(`{"policy":"web","account":"acme","hold":true}`, weir.Admit)
			wait := r.decide(`{"policy":"line"}`, weir.Wait)
			waiting := r.awaiting(context.Background(), wait.Hold, time.Second)
			r.end()
			if a := receive(t, waiting); a.status != 503 || a.Type != "urn:weir:stopping" ||
				a.header.Get("Retry-After") == "" {
				t.Error(a.status, a.body)
			}
			if n := r.left(q, "acme"); n != left || r.seen.open() != 0 {
				t.Errorf("%d left, want %d", n, left)
			}
			if receive(t, line.settled).Done {
				t.Error("what waited is settled as done")
			}
			if n := r.clock.Pending(); n != 0 {
				t.Errorf("%d timers", n)
			}
			// What comes too late, on a connection of somebody else's, takes nothing.
			w := httptest.NewRecorder()
			r.ServeHTTP(w, r.request(context.Background(), http.MethodPost, "/v1/decide",
				`{"policy":"web","account":"acme","hold":true}`))
			if w.Code != 503 || r.left(q, "acme") != left {
				t.Error(w.Code, w.Body)
			}
		})
	}
}

// Whatever meets at a hold, it is settled once.
func TestHoldsAreSettledOnce(t *testing.T) {
	turns := make(chan *weir.Turn, 1)
	line := lineOf(turns)
	r := start(t, Options{}, newClock(), policies{"web": chainOf(t, line)})
	for round := range 300 {
		wait := r.decide(fmt.Sprintf(`{"hold":%v}`, round%2 == 0), weir.Wait)
		turn := receive(t, turns)
		ctx, leave := context.WithCancel(context.Background())
		var settled atomic.Int64
		call := func(path, more string) func() {
			req := r.request(ctx, http.MethodPost, path, `{"hold":"`+wait.Hold+`"`+more+`}`)
			return func() {
				w := httptest.NewRecorder()
				r.ServeHTTP(w, req)
				if strings.Contains(w.Body.String(), `"settled":true`) {
					settled.Add(1)
				}
			}
		}
		var awaits, others sync.WaitGroup
		awaits.Go(call("/v1/await", `,"for":"1s"`))
		awaits.Go(call("/v1/await", `,"for":"10s"`))
		meet := []func(){turn.Grant, func() { r.clock.Advance(2 * time.Minute) }, call("/v1/settle", `,"bytes":7`),
			call("/v1/settle", `,"done":false`)}
		for i := range len(meet) - round%3 { // now and then without the one or the other to settle it
			others.Go(meet[(i+round)%len(meet)])
		}
		others.Wait()
		leave() // who began to await after the clock was moved
		awaits.Wait()
		r.clock.Advance(10 * time.Minute)
		receive(t, line.settled)
		if n := settled.Load(); n > 1 || len(line.settled) != 0 || r.seen.open() != 0 {
			t.Fatalf("settled %d times by clients, %d times more in all; %d open", n, len(line.settled), r.seen.open())
		}
	}
}

// Register and heap agree under load.
func TestManyHolds(t *testing.T) {
	r, q := startQuota(t, Options{Holds: Holds{Expired: ExpiredUndone}}, perHour(1000))
	var all sync.WaitGroup
	call := func(path, body string) string {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, r.request(context.Background(), http.MethodPost, path, body))
		return w.Body.String()
	}
	for worker := range 8 {
		all.Go(func() {
			for i := range 50 {
				_, hold, _ := strings.Cut(call("/v1/decide", `{"account":"acme","hold":true}`), `"hold":"`)
				hold, _, _ = strings.Cut(hold, `"`)
				if i%2 == 0 {
					call("/v1/settle", `{"hold":"`+hold+`","done":false}`)
				}
				if worker == 0 { // the clock is in one hand
					r.clock.Advance(4 * time.Second)
				}
			}
		})
	}
	all.Wait()
	r.clock.Advance(2 * time.Minute)
	if n := r.left(q, "acme"); n != 1000 || r.seen.open() != 0 {
		t.Errorf("%d left, %d open", n, r.seen.open())
	}
}
