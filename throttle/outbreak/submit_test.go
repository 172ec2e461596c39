package outbreak

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"
)

const anns, bobs, cleos, dans, eves = 1, 2, 3, 4, 5

var (
	passed  = Decision{Passed: 1}
	delayed = Decision{Delayed: 1}
	refused = Decision{Refused: true}
)

func (r *rig) want(what string, got, want Decision) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s at %s: %+v, want %+v", what, r.now.Sub(epoch), got, want)
	}
}

func TestToOne(t *testing.T) {
	r := newRig(t, standard())
	r.credit(1, 15)
	r.want("the first", r.send(anns), passed)
	r.credit(0, 15)
	r.want("again, from the working set", r.send(anns), passed)
	r.want("somebody new, without slack", r.send(bobs), delayed)
	r.want("a second one", r.send(cleos), delayed)
	r.want("again, still waiting", r.send(bobs), delayed)
	r.due(time.Minute)
	r.wait(time.Minute - 1)
	r.waiting(3)
	r.wait(1)
	r.waiting(2)
	r.want("known since it left", r.send(bobs), passed)
	r.wait(3 * time.Minute)
	if got := fmt.Sprint(r.gone()); got != "[3/0 4/0 5/0]" {
		t.Error(got)
	}
	// The queue was empty at the last of the four ticks only.
	r.credit(1, 15)
	r.due(-1)
}

func TestToSeveral(t *testing.T) {
	r := newRig(t, standard())
	// No recipient of a mail to several gets into the working set, and the working set does not help.
	r.want("to three", r.send(anns, bobs, cleos), Decision{Passed: 3})
	r.credit(1, 12)
	r.want("to one of them", r.send(anns), passed)
	r.credit(0, 12)
	r.want("to 14", r.send(append(r.many(13), anns)...), Decision{Passed: 12, Delayed: 2})
	r.want("to one, behind them", r.send(dans), delayed)
	r.want("to two, behind them", r.send(eves, bobs), Decision{Delayed: 2})
	fates := make([]Fate, 2)
	if d := r.s.Submit(&r.p, r.now, 9, []uint64{7, 8}, []int{4, 6}, fates); d.Delayed != 2 || fates[0] != Delay ||
		fates[1] != Delay {
		t.Error(d, fates)
	}
	r.wait(7 * time.Minute)
	if got := fmt.Sprint(r.gone()); got != "[3/12 3/13 4/0 5/0 5/1 9/4 9/6]" {
		t.Error(got)
	}
	r.credit(0, 0)
	r.wait(time.Minute)
	r.credit(1, 1)
	r.wait(20 * time.Minute)
	r.credit(1, 15)
}

func TestOneMailToForty(t *testing.T) {
	r := newRig(t, standard())
	keys := r.many(40)
	fates := make([]Fate, 40)
	d := r.s.Submit(&r.p, r.now, 7, keys, nil, fates)
	r.want("to 40", d, Decision{Stopped: true, Passed: 15, Delayed: 25})
	for i, p := range fates {
		if want := Pass; (i < 15) != (p == want) {
			t.Errorf("recipient %d: %s", i, p)
		}
	}
	r.want("after it", r.fresh(), refused)
	r.want("to whom it passed", r.send(keys[:2]...), refused)
	r.due(-1)
	r.wait(24 * time.Hour)
	r.waiting(25)
	if since, _ := r.s.Stopped(); !since.Equal(epoch) {
		t.Error(since)
	}
	// What is released leaves at once; only then does the user go on.
	if n := len(r.s.Take(func(Item) bool { return true })); n != 25 {
		t.Error(n)
	}
	r.stopped(true)
	r.want("still stopped", r.fresh(), refused)
	r.s.Resume(&r.p, r.now, false)
	r.credit(1, 0) // there were no mails to one
	r.want("resumed", r.fresh(), passed)
}

func TestStopAtTheBound(t *testing.T) {
	r := newRig(t, standard())
	r.fresh()
	for range 20 {
		r.want("one of 20", r.fresh(), delayed)
	}
	r.want("one more", r.fresh(), Decision{Stopped: true, Delayed: 1})
	r.waiting(21)

	r = newRig(t, standard())
	r.p.Stop = 0
	r.fresh()
	r.want("nobody may wait", r.fresh(), Decision{Stopped: true, Delayed: 1})
}

func TestLargeMailsAreHeld(t *testing.T) {
	r := newRig(t, standard())
	r.p.HoldLarge = true
	r.fresh()
	before, _ := r.s.AppendBinary(nil)
	fates := make([]Fate, 36)
	d := r.s.Submit(&r.p, r.now, 7, r.many(36), nil, fates)
	r.want("to 36", d, Decision{Held: true})
	if slices.ContainsFunc(fates, func(p Fate) bool { return p != Hold }) {
		t.Error(fates)
	}
	if after, _ := r.s.AppendBinary(nil); !bytes.Equal(before, after) {
		t.Error("it was counted")
	}
	r.want("to 35", r.send(r.many(35)...), Decision{Passed: 15, Delayed: 20})
	r.want("several small ones stop all the same", r.send(r.many(2)...), Decision{Stopped: true, Delayed: 2})
	r.want("stopped", r.send(r.many(36)...), refused)
}

func TestNobodyCounted(t *testing.T) {
	r := newRig(t, standard())
	r.want("nobody", r.send(), Decision{})
	r.s.Stop(r.now)
	r.want("nobody, stopped", r.send(), Decision{})
	if r.s.started {
		t.Error("the clock runs")
	}
}

func TestExempt(t *testing.T) {
	r := newRig(t, standard())
	r.p.Exempt = true
	r.want("to 500", r.send(r.many(500)...), Decision{Passed: 500})
	if b, _ := r.s.AppendBinary(nil); len(b) != 6 {
		t.Errorf("he is remembered: %x", b)
	}
	r.s.Stop(r.now)
	r.want("stopped by an operator", r.fresh(), refused)
	r.wait(time.Hour)
	r.want("still", r.fresh(), refused)
	r.s.Resume(&r.p, r.now, false)
	r.want("resumed", r.fresh(), passed)

	// A user who becomes exempt while mail waits.
	r = newRig(t, standard())
	r.send(r.many(40)...)
	r.stopped(true)
	r.p.Exempt = true
	r.want("a mail before the clock", r.s.Submit(&r.p, r.now, 2, r.many(1), nil, nil), passed)
	if due := r.s.Due(&r.p); due.IsZero() || due.After(r.now) {
		t.Error("what waits is not due", due)
	}
	r.wait(0)
	r.stopped(false)
	r.waiting(0)
	r.due(-1)
	if len(r.left) != 0 {
		t.Error(len(r.left), "of a stopped user have left")
	}
	r.p.Exempt = false
	r.send(r.many(20)...)
	r.p.Exempt = true
	r.wait(0)
	if len(r.left) != 20 {
		t.Error(len(r.left), "have left")
	}
}

func TestReplacement(t *testing.T) {
	for _, c := range []struct {
		fifo bool
		want string
	}{{false, "[1 3 2]"}, {true, "[3 2 1]"}} {
		r := newRig(t, standard())
		r.p.WorkingSet, r.p.FIFO = 3, c.fifo
		for _, key := range []uint64{anns, bobs, cleos} {
			r.want("new", r.send(key), passed)
			r.wait(time.Minute)
		}
		r.want("known", r.send(anns), passed)
		r.credit(1, 15)
		if got := fmt.Sprint(r.s.set); got != c.want {
			t.Errorf("fifo %v: %s, want %s", c.fifo, got, c.want)
		}
		// The next one takes the place of bob by LRU, and of ann by FIFO.
		r.want("new", r.send(dans), passed)
		r.want("ann", r.send(anns), map[bool]Decision{false: passed, true: delayed}[c.fifo])
		r.want("bob", r.send(bobs), map[bool]Decision{false: delayed, true: passed}[c.fifo])
	}
}

func TestWorkingSetChangesItsSize(t *testing.T) {
	r := newRig(t, standard())
	for _, key := range []uint64{anns, bobs, cleos, dans} {
		r.send(key)
		r.wait(time.Minute)
	}
	r.p.WorkingSet = 2
	r.want("slack", r.send(anns), passed)
	r.credit(0, 15)
	r.want("dan", r.send(dans), passed)
	r.want("cleo is out", r.send(cleos), delayed)
	r.p.WorkingSet = 0
	r.want("without any", r.send(dans), delayed)
	r.wait(2 * time.Minute)
	if r.s.set != nil {
		t.Error(r.s.set)
	}
	r.p.WorkingSet = 5
	r.wait(time.Minute)
	r.send(eves)
	r.want("eve", r.send(eves), passed)
}

func TestFull(t *testing.T) {
	r := newRig(t, standard())
	r.p.Stop, r.p.MaxMSlack = MaxStop, 0
	if d := r.s.Submit(&r.p, r.now, 1, r.many(5), nil, nil); d.Refused {
		t.Fatal(d)
	}
	for len(r.s.queue) < MaxItems-5 { // more than a stop leaves room for, as after a lower one
		r.key++
		r.s.queue = append(r.s.queue, Item{Mail: 1, Number: len(r.s.queue), Key: r.key})
	}
	r.want("one more than there is room for", r.send(r.many(6)...), Decision{Refused: true, Full: true})
	r.stopped(false)
	r.waiting(MaxItems - 5)
	r.want("as many as there is room for", r.send(r.many(5)...), Decision{Stopped: true, Delayed: 5})
	b, err := r.s.AppendBinary(nil)
	if err != nil || len(b) > 12*MaxItems {
		t.Error(len(b), err)
	}
	var again State
	if err := again.UnmarshalBinary(b); err != nil || !slices.Equal(again.queue, r.s.queue) {
		t.Error("cannot be read again", err)
	}
}

func TestSubmitWithoutTick(t *testing.T) {
	p, s := standard(), State{}
	send := func(at time.Duration, key uint64) Decision {
		return s.Submit(&p, epoch.Add(at), key, []uint64{key}, nil, nil)
	}
	send(0, anns)
	// Where nobody waits, credit is earned by itself.
	if d := send(time.Minute, bobs); d != passed {
		t.Error(d)
	}
	send(time.Minute, cleos)
	// What is due meanwhile stays, and goes before what comes later.
	if d := send(10*time.Minute, dans); d != delayed {
		t.Error(d)
	}
	out := s.Tick(&p, epoch.Add(10*time.Minute), nil)
	if len(out) != 2 || out[0].Key != cleos || out[1].Key != dans {
		t.Error(out)
	}
}

func TestSubmitAllocatesNothing(t *testing.T) {
	p, s := standard(), State{}
	keys, several, fates := []uint64{1}, []uint64{5, 6, 7}, make([]Fate, 3)
	now := epoch
	s.Submit(&p, now, 1, keys, nil, fates)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(5 * time.Minute)
		keys[0]++
		s.Tick(&p, now, nil)
		s.Submit(&p, now, 1, keys, nil, fates)
		s.Submit(&p, now, 1, several, nil, fates)
		s.Peek(&p, now, keys, fates)
		s.Due(&p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
