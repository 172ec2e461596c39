package admission

import (
	"context"
	"testing"
	"time"

	"weir"
)

// through takes one event through lanes with room.
func through(l *Lanes, ev *weir.Event, a *weir.Answer) {
	a.Clear()
	_ = l.Judge(context.Background(), ev, a)
	h := a.Hold
	l.Enter(&h, ev.Time, a)
	l.Settle(h, weir.Outcome{Time: ev.Time, Done: true})
}

func TestAdmittedAllocatesNothing(t *testing.T) {
	for name, ev := range map[string]weir.Event{"pool": from(paying(0), "192.0.2.1"),
		"stamped": from(paying(1<<20), "2001:db8::1")} {
		r := newRig(t, Options{Concurrent: 8, Learn: name == "stamped"})
		var a weir.Answer
		ev.Time = epoch
		if n := testing.AllocsPerRun(1000, func() {
			ev.Time = ev.Time.Add(time.Millisecond)
			through(r.l, &ev, &a)
			r.l.Load(ev.Time)
			r.l.TurnedAway(&ev, ev.Time)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkThrough is Judge, Enter and Settle of an event that finds a place.
func BenchmarkThrough(b *testing.B) {
	for name, o := range map[string]Options{"written": {Concurrent: 64}, "learnt": {Learn: true}} {
		b.Run(name, func(b *testing.B) {
			l := newRig(b, o).l
			ev, a := from(paying(1<<20), "192.0.2.1"), weir.Answer{}
			ev.Time = epoch
			b.ReportAllocs()
			for b.Loop() {
				ev.Time = ev.Time.Add(time.Microsecond)
				through(l, &ev, &a)
			}
		})
	}
}

// BenchmarkThroughInAFarm is the same in a farm, with what is told to the others.
func BenchmarkThroughInAFarm(b *testing.B) {
	r, _, sent, _ := joined(b, Options{Concurrent: 64})
	ev, a := from(paying(1<<20), "192.0.2.1"), weir.Answer{}
	ev.Time = epoch
	b.ReportAllocs()
	for b.Loop() {
		ev.Time = ev.Time.Add(time.Microsecond)
		through(r.l, &ev, &a)
		if !r.due.IsZero() && !r.due.After(ev.Time) {
			r.now = ev.Time
			r.tick()
			*sent = (*sent)[:0]
		}
	}
}

// BenchmarkThroughParallel is the same from several goroutines at once.
func BenchmarkThroughParallel(b *testing.B) {
	l := newRig(b, Options{Concurrent: 64}).l
	b.SetParallelism(2)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ev, a := from(paying(1<<20), "192.0.2.1"), weir.Answer{}
		for ev.Time = epoch; pb.Next(); ev.Time = ev.Time.Add(time.Microsecond) {
			through(l, &ev, &a)
		}
	})
}

// BenchmarkThroughTheLine has 1000 waiting in each lane: one joins, one is let in, one is done.
func BenchmarkThroughTheLine(b *testing.B) {
	r := newRig(b, Options{Concurrent: 1, Waiting: 2000})
	under := r.admit(0).answer.Hold
	for i := range 1000 {
		r.wait(uint64(1 + i))
		r.wait(0)
	}
	ev := [lanes]weir.Event{paying(0), paying(1 << 10)}
	var a weir.Answer
	b.ReportAllocs()
	for b.Loop() {
		r.now = r.now.Add(time.Millisecond)
		next, other := r.l.turns[paid].first(), r.l.turns[held].first()
		r.l.Settle(under, weir.Outcome{Time: r.now, Done: true})
		if next.place.line == nil {
			next = other
		}
		under = weir.Hold{Ref: next}
		e := &ev[next.round.lane()] // another one like it
		e.Time = r.now
		a.Clear()
		_ = r.l.Judge(context.Background(), e, &a)
		h := a.Hold
		r.l.Enter(&h, r.now, &a)
	}
	if n := r.l.waiting(); n != 2000 {
		b.Fatalf("%d wait", n)
	}
}

// BenchmarkLoad is what every event asks for.
func BenchmarkLoad(b *testing.B) {
	l := newRig(b, Options{Concurrent: 64}).l
	now := epoch
	for b.Loop() {
		now = now.Add(time.Microsecond)
		l.Load(now)
	}
}

// BenchmarkTurnedAway is what a flood costs here.
func BenchmarkTurnedAway(b *testing.B) {
	l := newRig(b, Options{Concurrent: 64}).l
	now := epoch
	for b.Loop() {
		now = now.Add(time.Microsecond)
		l.TurnedAway(&weir.Event{Time: now, Source: address(1)}, now)
	}
}

// BenchmarkPresent is somebody showing up in a line of 10,000.
func BenchmarkPresent(b *testing.B) {
	r := newRig(b, Options{Concurrent: 1, Strict: true})
	r.admit(2)
	r.wait(2)
	var numbers [10_000]uint64
	for i := range numbers {
		numbers[i] = r.l.Number(r.now)
		r.present(numbers[i], 50)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.now = r.now.Add(time.Microsecond)
		r.present(numbers[i%len(numbers)], 50)
	}
}

// BenchmarkTicket signs a ticket and reads it again.
func BenchmarkTicket(b *testing.B) {
	tickets := NewTickets([]byte("secret"))
	k := ticket()
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tickets.Sign(k)
		}
	})
	text := tickets.Sign(k)
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := tickets.Parse(text, k.Client, epoch); err != nil {
				b.Fatal(err)
			}
		}
	})
}
