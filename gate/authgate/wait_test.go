package authgate

import (
	"context"
	"testing"
	"time"

	"weir"
	"weir/internal/clock"
)

func TestWait(t *testing.T) {
	r, _ := startQuota(t, Options{MaxWait: weir.Duration(30 * time.Second)}, delayed(perMinute(1)))
	r.clock.Advance(40 * time.Second)
	if a := r.ask(byNginx()...); a.status != 200 {
		t.Fatal(a.status, a.body)
	}
	waiting := r.asking(t.Context(), byNginx()...)
	r.untilWaiting(1)
	// Whose turn would come later than an answer may be held back is refused at once.
	if a := r.ask(byNginx()...); a.status != 403 || a.header.Get("X-Weir-Status") != "429" ||
		a.Reason != "wait-too-long" || a.header.Get("Retry-After") != "80" {
		t.Error(a.status, a.header, a.body)
	}
	r.clock.Advance(20 * time.Second)
	if a := receive(t, waiting); a.status != 200 || a.header.Get("RateLimit") == "" {
		t.Error(a.status, a.header, a.body)
	}
	if r.seen.decisions(weir.Admit) != 2 || r.seen.held != 20*time.Second {
		t.Error(r.seen.decided, r.seen.held)
	}
}

// A turn that does not come while the answer may be held back.
func TestWaitEnds(t *testing.T) {
	turns := make(chan *weir.Turn, 10)
	line := lineOf(turns, time.Time{})
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, line))
	waiting := r.asking(t.Context(), byTraefik()...)
	receive(t, turns)
	r.untilWaiting(1)
	r.clock.Advance(5 * time.Second)
	if a := receive(t, waiting); a.status != 429 || a.Reason != "wait-too-long" || a.header.Get("Retry-After") != "1" {
		t.Error(a.status, a.header, a.body)
	}
	if o := receive(t, line.settled); o.Done {
		t.Error("charged")
	}
	// One that is called off.
	waiting = r.asking(t.Context(), byTraefik()...)
	receive(t, turns).Refuse(weir.LineFull)
	if a := receive(t, waiting); a.status != 429 || a.Reason != "line-full" {
		t.Error(a.status, a.header, a.body)
	}
}

// A proxy that leaves gives its place in line back.
func TestWaitLeft(t *testing.T) {
	turns := make(chan *weir.Turn, 10)
	line := lineOf(turns, time.Time{})
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, line))
	ctx, leave := context.WithCancel(context.Background())
	waiting := r.asking(ctx, byTraefik()...)
	r.untilWaiting(1)
	leave()
	receive(t, waiting)
	if o := receive(t, line.settled); o.Done {
		t.Error("charged")
	}
	r.untilWaiting(0)
}
