package admission

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"weir"
)

var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A rig is lanes with a clock in the test's hand.
type rig struct {
	t     testing.TB
	l     *Lanes
	now   time.Time
	due   time.Time      // as Alarm and Advance say
	next  int            // number of the next event
	held  []*event       // those that wait
	waits map[int]*event // for tests that look them up

	strangers atomic.Int64 // who were turned away
}

// An event is one on its way.
type event struct {
	n      int
	answer weir.Answer
	done   func(granted bool) // told when the turn is called
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	l, err := New(o, epoch)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, l: l, now: epoch, waits: map[int]*event{}}
	l.Alarm(func(due time.Time) {
		if r.due.IsZero() || due.Before(r.due) {
			r.due = due
		}
	})
	return r
}

// paying returns an event that has paid so much work; 0 for nothing.
func paying(work uint64) weir.Event {
	var ev weir.Event
	if work > 0 {
		ev.Purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
			return weir.Paid{Work: work},
				nil
		})
		ev.Purse.Open(context.Background(), &ev)
	}
	return ev
}

// from returns the event as one from a source.
func from(ev weir.Event, source string) weir.Event {
	if source != "" {
		ev.Source = netip.MustParseAddr(source)
	}
	return ev
}

// ask sends an event, which is let in, held or refused.
func (r *rig) ask(ev weir.Event) *event {
	r.t.Helper()
	ev.Time = r.now
	e := &event{n: r.next}
	r.next++
	if err := r.l.Judge(context.Background(), &ev, &e.answer); err != nil {
		r.t.Fatal(err)
	}
	h := e.answer.Hold
	if e.answer.Verdict != weir.Admit || !h.Enter || h.IsZero() {
		r.t.Fatalf("judged %s, %+v", e.answer.Explain(), h)
	}
	e.answer.Clear()
	r.l.Enter(&h, r.now, &e.answer)
	e.answer.Hold = h
	if h.Enter {
		r.t.Fatal("would be entered twice")
	}
	switch e.answer.Verdict {
	case weir.Wait:
		r.held = append(r.held, e)
	case weir.Refuse:
		r.settle(e, false)
	}
	return e
}

func (r *rig) settle(e *event, done bool) {
	r.l.Settle(e.answer.Hold, weir.Outcome{Time: r.now, Done: done})
	if e.answer.Verdict == weir.Wait {
		r.held = slices.DeleteFunc(r.held, func(w *event) bool { return w == e })
	}
}

// called returns the numbers of those whose turn was granted since it was last asked.
func (r *rig) called() (granted []int) {
	r.l.mu.Lock()
	waiting := r.l.waiting()
	r.l.mu.Unlock()
	for i := 0; len(r.held) > waiting; i++ {
		e := r.held[i]
		select {
		case <-e.answer.Turn.Called():
		default:
			continue
		}
		if i == 0 { // as it is most of the time
			r.held = r.held[1:]
		} else {
			r.held = slices.Delete(r.held, i, i+1)
		}
		i--
		why := e.answer.Turn.Refused()
		if why == weir.NoReason {
			e.answer.Verdict = weir.Admit
			granted = append(granted, e.n)
		} else {
			e.answer.Verdict, e.answer.Reason = weir.Refuse, why
			r.settle(e, false)
		}
		if e.done != nil {
			e.done(why == weir.NoReason)
		}
	}
	return granted
}

// advance moves the clock by d, stopping whenever something is due, and returns who was called.
func (r *rig) advance(d time.Duration) (granted []int) {
	r.t.Helper()
	end := r.now.Add(d)
	for !r.due.IsZero() && !r.due.After(end) {
		if r.due.After(r.now) {
			r.now = r.due
		}
		r.tick()
		granted = append(granted, r.called()...)
	}
	r.now = end
	return granted
}

// tick does what is due.
func (r *rig) tick() {
	r.t.Helper()
	r.due = time.Time{}
	next := r.l.Advance(r.now)
	if next.IsZero() {
		return
	}
	if !next.After(r.now) {
		r.t.Fatalf("at %s Advance says that something is due at %s", r.now, next)
	}
	if r.due.IsZero() || next.Before(r.due) {
		r.due = next
	}
}

func (r *rig) want(e *event, v weir.Verdict, why weir.Reason) *event {
	r.t.Helper()
	if e.answer.Verdict != v || v == weir.Refuse && e.answer.Reason != why {
		r.t.Fatalf("event %d: got %s, want %s (%s)", e.n, e.answer.Explain(), v, why)
	}
	return e
}

func (r *rig) admit(work uint64) *event {
	r.t.Helper()
	return r.want(r.ask(paying(work)), weir.Admit, 0)
}

func (r *rig) wait(work uint64) *event {
	r.t.Helper()
	return r.want(r.ask(paying(work)), weir.Wait, 0)
}

func (r *rig) refuse(work uint64, why weir.Reason) *event {
	r.t.Helper()
	return r.want(r.ask(paying(work)), weir.Refuse, why)
}

// present shows up with a ticket, from an address of its own.
func (r *rig) present(number uint64, covers int) Standing {
	return r.l.Present(number, address(int(number)), covers, r.now)
}

// turnedAway tells of a client that was not there before.
func (r *rig) turnedAway(now time.Time) {
	r.l.TurnedAway(&weir.Event{Time: now, Source: address(1<<20 + int(r.strangers.Add(1)))}, now)
}

func (r *rig) stats() Stats { return r.l.Stats(r.now) }

func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// empty fails the test unless nothing is left of anybody.
func (r *rig) empty() {
	r.t.Helper()
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := fmt.Sprint(l.inUse, l.waiting(), len(l.clients), len(l.room.entries), l.room.order.len(), l.room.called,
		l.places.all.First(), len(l.turns[held].lines), len(l.turns[called].lines), len(l.turns[paid].lines),
		l.room.seen.First()); left != "[0 0] 0 0 0 0 0 <nil> 0 0 0 <nil>" {
		r.t.Errorf("something is left: %s", left)
	}
}

// Present is present with the lock held.
func (l *Lanes) Present(number uint64, source netip.Addr, covers int, now time.Time) Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.present(number, source, covers, l.tick(now))
}

// first is who goes next.
func (t *turns) first() *waiter {
	if t.total == 0 {
		return nil
	}
	return t.next.First().people.First().waiting.First()
}
