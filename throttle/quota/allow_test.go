package quota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"weir"
)

// allowing returns a quota and how often of so many tries in a row it allows something.
func allowing(t *testing.T, policies ...Policy) (*Quota, func(now time.Time, account string, tries int) int) {
	t.Helper()
	q, err := New(one(policies...))
	if err != nil {
		t.Fatal(err)
	}
	return q, func(now time.Time, account string, tries int) (allowed int) {
		for range tries {
			if q.Allow(now, account) {
				allowed++
			}
		}
		return allowed
	}
}

func TestAllow(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		p := perSecond(5)
		p.Window = w
		q, allow := allowing(t, p)
		if got := allow(epoch, "acme", 6); got != 5 {
			t.Errorf("%s: %d of 6 events allowed, the limit is 5", w, got)
		}
		if got := allow(epoch, "other", 1); got != 1 {
			t.Errorf("%s: another account has nothing left", w)
		}
		if got := allow(epoch.Add(2*time.Second), "acme", 6); got != 5 {
			t.Errorf("%s: %d of 6 events allowed two periods later, the limit is 5", w, got)
		}
		if q.Allow(epoch, "") {
			t.Errorf("%s: an event without an account was allowed", w)
		}
	}
}

func TestAllowN(t *testing.T) {
	q, allow := allowing(t, perSecond(5),
		Policy{Name: "minute", Limit: Count(7), Period: weir.Period{Length: time.Minute}})
	if q.AllowN(epoch, "acme", 6) {
		t.Error("6 allowed, the limit is 5")
	}
	if !q.AllowN(epoch, "acme", 4) || q.AllowN(epoch, "acme", 2) {
		t.Error("a refusal changed what is left")
	}
	if !q.AllowN(epoch, "acme", 0) { // counts as 1
		t.Error("the fifth was refused")
	}
	if got := allow(epoch.Add(time.Second), "acme", 5); got != 2 {
		t.Errorf("%d allowed, 2 are left of the minute: what a policy refuses is charged to no other one", got)
	}
}

// What is allowed counts as done: places are free again, charges stay, and nobody is left in line.
func TestAllowSettles(t *testing.T) {
	places := Policy{Name: "at-once", Kind: Concurrent, Limit: Count(1)}
	q, allow := allowing(t, perSecond(3), places)
	var held weir.Answer
	ev := weir.Event{Time: epoch, Account: "acme"}
	if err := q.Judge(context.Background(), &ev, &held); err != nil {
		t.Fatal(err)
	}
	q.Enter(&held.Hold, epoch, &held)
	if held.Verdict != weir.Admit || allow(epoch, "acme", 1) != 0 {
		t.Errorf("%s, and another was allowed beside it", held.Verdict)
	}
	q.Settle(held.Hold, weir.Outcome{Time: epoch, Done: true})
	if got := allow(epoch, "acme", 3); got != 2 {
		t.Errorf("%d allowed, want 2: one of 3 is used, and the refusal for a place was given back", got)
	}

	q, allow = allowing(t, delayed(perSecond(2), 10, time.Minute))
	if got := allow(epoch, "acme", 5); got != 2 {
		t.Errorf("%d allowed, the limit is 2", got)
	}
	if next := q.Advance(epoch); !next.IsZero() {
		t.Errorf("somebody is left in line until %s", next)
	}
}

func TestAllowAllocatesNothing(t *testing.T) {
	q, _ := allowing(t, perSecond(100), Policy{Name: "at-once", Kind: Concurrent, Limit: Count(1)})
	q.Allow(epoch, "acme")
	if n := testing.AllocsPerRun(1000, func() { q.Allow(epoch, "acme") }); n != 0 { // most are refused
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkAllow is one decision of an account among 100,000, under one requests policy.
func BenchmarkAllow(b *testing.B) {
	q, err := New(one(perSecond(1000)))
	if err != nil {
		b.Fatal(err)
	}
	accounts := make([]string, 100_000)
	for i := range accounts {
		accounts[i] = fmt.Sprintf("account-%06d", i)
		q.Allow(epoch, accounts[i])
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Allow(epoch.Add(time.Duration(i)*1000), accounts[i*7919%len(accounts)])
	}
}
