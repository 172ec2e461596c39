package apigate

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir"
)

// A place at once is taken until the hold is settled, and belongs to whoever comes next.
func TestHoldAndSettle(t *testing.T) {
	r, _ := startQuota(t, Options{}, atOnce(1))
	held := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	if held.Hold == "" || !held.Expires.Equal(noon.Add(time.Minute)) || r.seen.open() != 1 {
		t.Fatal(held.body)
	}
	if a := r.decide(`{"account":"acme","hold":true}`, weir.Refuse); a.Hold != "" || !a.Expires.IsZero() ||
		a.RetryAfter != 1 {
		t.Error("a refusal holds something:", a.body)
	}
	r.settle(held.Hold, `,"done":true`, 200)
	if a := r.settle(held.Hold, ``, 404); a.Type != "urn:weir:no-hold" || a.Field != "hold" {
		t.Error(a.body)
	}
	if a := r.post("/v1/await", `{"hold":"`+held.Hold+`"}`); a.status != 404 {
		t.Error(a.status, a.body)
	}
	again := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	// A hold that does not wait is admitted at once, and stays.
	if a := r.post("/v1/await", `{"hold":"`+again.Hold+`"}`); a.Verdict != weir.Admit || a.Hold != again.Hold {
		t.Error(a.body)
	}
	r.settle(again.Hold, ``, 200)
}

func TestSettleUndoneGivesBack(t *testing.T) {
	r, q := startQuota(t, Options{}, perMinute(3))
	for _, c := range []struct {
		more string
		left int64
	}{{`,"done":false`, 3}, {`,"done":true`, 2}, {``, 1}, {`,"done":null`, 0}} {
		held := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
		r.settle(held.Hold, c.more, 200)
		if n := r.left(q, "acme"); n != c.left {
			t.Errorf("after %q %d are left, want %d", c.more, n, c.left)
		}
	}
}

func TestSettleBatch(t *testing.T) {
	r, q := startQuota(t, Options{}, perMinute(3))
	first, second := r.decide(`{"account":"acme","hold":true}`, weir.Admit),
		r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	a := r.post("/v1/settle", `[{"hold":"`+first.Hold+`","done":false},{"hold":"`+first.Hold+`"},{"hold":"`+second.Hold+
		`","bytes":-1},{"hold":"`+second.Hold+`"}]`)
	var items []struct {
		Settled bool
		Error   *problem
	}
	if err := json.Unmarshal([]byte(a.body), &items); err != nil || len(items) != 4 {
		t.Fatal(err, a.body)
	}
	if !items[0].Settled || items[1].Error.Status != 404 || items[2].Error.Field != "bytes" || !items[3].Settled {
		t.Error(a.body)
	}
	if n := r.left(q, "acme"); n != 2 {
		t.Errorf("%d left", n)
	}
}

// Holds of other nodes are told from those that are gone.
func TestHoldsOfOthers(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(100))
	other, _ := startQuota(t, Options{}, perMinute(100))
	held := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	if a := other.settle(held.Hold, ``, 409); a.Type != "urn:weir:other-node" ||
		!strings.Contains(a.Detail, other.node) {
		t.Error(a.body)
	}
	if a := other.post("/v1/await", `{"hold":"`+held.Hold+`"}`); a.status != 409 {
		t.Error(a.status, a.body)
	}
	r.settle(held.Hold, ``, 200)
	for _, id := range []string{"x", r.node + ".x", strings.Repeat("x", 35), held.Hold[:len(held.Hold)-1],
		strings.ToUpper(held.Hold[:9]) + "x"} {
		r.settle(id, ``, 404)
	}
	if len(held.Hold) != idLetters {
		t.Errorf("%s has %d letters", held.Hold, len(held.Hold))
	}
}

// A wait is a place in line: whoever awaits it is told when the turn has come.
func TestAwait(t *testing.T) {
	r, q := startQuota(t, Options{}, delayed(perMinute(1)))
	r.decide(`{"account":"acme"}`, weir.Admit)
	wait := r.decide(`{"account":"acme"}`, weir.Wait)
	if wait.Hold == "" || wait.RetryAfter != 60 || wait.Reason != weir.OverLimit ||
		!wait.Expires.Equal(noon.Add(2*time.Minute)) {
		t.Fatal(wait.body)
	}
	early := r.awaiting(context.Background(), wait.Hold, 5*time.Second)
	r.clock.Advance(5 * time.Second)
	if a := receive(t, early); a.status != 200 || a.Verdict != weir.Wait || a.Hold != wait.Hold || a.RetryAfter != 55 {
		t.Fatal(a.status, a.body)
	}
	r.clock.Advance(30 * time.Second)
	last := r.awaiting(context.Background(), wait.Hold, 30*time.Second)
	r.clock.Advance(25 * time.Second)
	if a := receive(t, last); a.status != 200 || a.Verdict != weir.Admit || a.Hold != "" || !a.Expires.IsZero() {
		t.Fatal(a.status, a.body)
	}
	// Nobody asked to settle it, so that the answer has.
	r.settle(wait.Hold, ``, 404)
	if r.seen.open() != 0 || r.left(q, "acme") != 0 || r.seen.decided["web wait"] != 1 ||
		r.seen.decided["web admit"] != 1 {
		t.Error(r.seen.open(), r.left(q, "acme"), r.seen.decided)
	}
}

// A turn that has come while nobody awaited it is told at once.
func TestAwaitLate(t *testing.T) {
	r, _ := startQuota(t, Options{}, delayed(perMinute(1)))
	r.decide(`{"account":"acme"}`, weir.Admit)
	wait := r.decide(`{"account":"acme","hold":true}`, weir.Wait)
	r.clock.Advance(70 * time.Second)
	a := r.post("/v1/await", `{"hold":"`+wait.Hold+`"}`)
	if a.Verdict != weir.Admit || a.Hold != wait.Hold || !a.Expires.Equal(noon.Add(70*time.Second+90*time.Second)) {
		t.Error(a.body) // it lives for the time that it might have waited, and a minute
	}
	r.settle(wait.Hold, ``, 200)
}

// How long one request may wait is bounded, whatever it says.
func TestAwaitIsBounded(t *testing.T) {
	r, _ := startQuota(t, Options{Timeouts: Timeouts{Wait: weir.Duration(7 * time.Second)}}, delayed(perMinute(1)))
	r.decide(`{"account":"acme"}`, weir.Admit)
	wait := r.decide(`{"account":"acme"}`, weir.Wait)
	for _, length := range []string{`,"for":"1h"`, `,"for":null`, ``} {
		answers := make(chan answer, 1)
		go func() {
			a, _ := r.try(r.request(context.Background(), http.MethodPost, "/v1/await",
				`{"hold":"`+wait.Hold+`"`+length+`}`))
			answers <- a
		}()
		until(t, r.clock.set, 7*time.Second)
		r.clock.Advance(7 * time.Second)
		if a := receive(t, answers); a.Verdict != weir.Wait {
			t.Error(a.body)
		}
	}
}

// What limits a level is taken after the wait, and may have to be waited for as well.
func TestAwaitTurnThenPlace(t *testing.T) {
	r,
		_ := startQuota(t, Options{Holds: Holds{TTL: weir.Duration(time.Hour)},
		Timeouts: Timeouts{Wait: weir.Duration(time.Hour)}},
		delayed(perMinute(1)), delayed(atOnce(1)))
	first := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	wait := r.decide(`{"account":"acme","hold":true}`, weir.Wait)
	soon := r.awaiting(context.Background(), wait.Hold, 61*time.Second)
	r.clock.Advance(61 * time.Second)
	if a := receive(t, soon); a.Verdict != weir.Wait {
		t.Fatal(a.body)
	}
	later := r.awaiting(context.Background(), wait.Hold, 5*time.Minute)
	r.settle(first.Hold, ``, 200)
	a := receive(t, later)
	if a.Verdict != weir.Admit || a.Hold != wait.Hold {
		t.Fatal(a.body)
	}
	r.settle(wait.Hold, ``, 200)
}

// A client that leaves while it awaits keeps its place.
func TestLeavingKeepsTheHold(t *testing.T) {
	r, q := startQuota(t, Options{}, delayed(perMinute(1)))
	r.decide(`{"account":"acme"}`, weir.Admit)
	wait := r.decide(`{"account":"acme"}`, weir.Wait)
	r.clock.Advance(50 * time.Second)
	ctx, leave := context.WithCancel(context.Background())
	left := r.awaiting(ctx, wait.Hold, 20*time.Second)
	leave()
	receive(t, left)
	until(t, r.clock.stopped, 20*time.Second) // the gate has noticed
	if n := r.account(q, "acme").Waiting; n != 1 {
		t.Fatalf("%d in line", n)
	}
	r.clock.Advance(15 * time.Second)
	if a := r.post("/v1/await", `{"hold":"`+wait.Hold+`"}`); a.Verdict != weir.Admit {
		t.Error(a.status, a.body)
	}
}

// lineOf is a throttle that makes everybody wait, and lets the test call the turns.
func lineOf(turns chan<- *weir.Turn) *probe {
	return newProbe(func(_ *weir.Event, a *weir.Answer) {
		a.Verdict, a.Reason, a.Turn = weir.Wait, weir.OverLimit, weir.NewTurn()
		a.Figure = weir.Figure{Rule: "line", Unit: "requests", Limit: 1}
		turns <- a.Turn
	})
}

func TestTurnIsCalledOff(t *testing.T) {
	turns := make(chan *weir.Turn, 1)
	line := lineOf(turns)
	r := start(t, Options{}, newClock(), policies{"web": chainOf(t, line)})
	wait := r.decide(`{"hold":true}`, weir.Wait)
	if wait.RetryAfter != 0 {
		t.Error("nobody can tell:", wait.body)
	}
	waiting := r.awaiting(context.Background(), wait.Hold, time.Second)
	receive(t, turns).Refuse(weir.WaitTooLong)
	if a := receive(t, waiting); a.status != 200 || a.Verdict != weir.Refuse || a.Reason != weir.WaitTooLong ||
		a.Hold != "" {
		t.Error(a.body)
	}
	if receive(t, line.settled).Done {
		t.Error("settled as done")
	}
	r.settle(wait.Hold, ``, 404)
}

// A throttle that panics when it lets somebody in takes nobody else down.
func TestPanicWhileAwaiting(t *testing.T) {
	turns := make(chan *weir.Turn, 1)
	r := start(t, Options{}, newClock(), policies{"web": chainOf(t, faultyDoor{lineOf(turns)})})
	wait := r.decide(`{}`, weir.Wait)
	waiting := r.awaiting(context.Background(), wait.Hold, time.Second)
	receive(t, turns).Grant()
	if a := receive(t, waiting); a.Verdict != weir.Refuse || a.Reason != weir.Failure {
		t.Error(a.status, a.body)
	}
	r.settle(wait.Hold, ``, 404)
}

// A faultyDoor panics in Enter.
type faultyDoor struct{ *probe }

func (f faultyDoor) Judge(ctx context.Context, ev *weir.Event, a *weir.Answer) error {
	err := f.probe.Judge(ctx, ev, a)
	a.Hold.Enter = true
	return err
}

func (faultyDoor) Enter(*weir.Hold, time.Time, *weir.Answer) { panic("out of order") }

// Whoever awaits a hold that somebody else settles is told so.
func TestSettleWhileAwaited(t *testing.T) {
	r, q := startQuota(t, Options{}, delayed(perMinute(1)))
	r.decide(`{"account":"acme"}`, weir.Admit)
	wait := r.decide(`{"account":"acme"}`, weir.Wait)
	waiting := r.awaiting(context.Background(), wait.Hold, time.Second)
	r.settle(wait.Hold, `,"done":false`, 200)
	if a := receive(t, waiting); a.status != 404 {
		t.Error(a.status, a.body)
	}
	if n := r.account(q, "acme").Waiting; n != 0 {
		t.Errorf("%d in line", n)
	}
}

// Of two who await the same hold one is told the verdict that ends it.
func TestAwaitTwice(t *testing.T) {
	turns := make(chan *weir.Turn, 1)
	r := start(t, Options{}, newClock(), policies{"web": chainOf(t, lineOf(turns))})
	wait := r.decide(`{}`, weir.Wait)
	one, two := r.awaiting(context.Background(), wait.Hold, time.Second),
		r.awaiting(context.Background(), wait.Hold, time.Second)
	receive(t, turns).Grant()
	if a, b := receive(t, one), receive(t, two); a.status+b.status != 200+404 {
		t.Error(a.body, b.body)
	}
}
