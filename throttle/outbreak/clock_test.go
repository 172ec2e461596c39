package outbreak

import (
	"fmt"
	"testing"
	"time"
)

func TestClockStartsWithTheFirstMail(t *testing.T) {
	r := newRig(t, standard())
	r.wait(1234 * time.Millisecond).fresh()
	r.fresh()
	r.due(time.Minute + 1234*time.Millisecond)
	r.wait(48 * time.Hour)
	r.wait(17 * time.Second)
	r.fresh()
	r.fresh()
	// The phase is the same after two days.
	r.due(48*time.Hour + time.Minute + 1234*time.Millisecond)
}

func TestYearsOfIdle(t *testing.T) {
	for _, multi := range []time.Duration{time.Millisecond, 3 * time.Millisecond} {
		r := newRig(t, standard())
		r.p.Every, r.p.MultiEvery, r.p.MaxMSlack, r.p.Slow = time.Millisecond, multi, 10_000, 1000
		r.send(r.many(10_000)...)
		r.send(r.many(10)...)
		r.fresh()
		r.fresh()
		r.s.Stop(r.now)
		r.wait(100 * 365 * 24 * time.Hour) // 3·10¹² periods
		r.s.Resume(&r.p, r.now, true)
		r.waiting(0)
		r.credit(0, 0)
		r.wait(100 * 365 * 24 * time.Hour)
		r.credit(1, 10_000)
	}
}

func TestTimesBeyondAllBounds(t *testing.T) {
	for _, now := range []time.Time{
		{}, time.Unix(0, 0), time.Unix(-1<<60, 0), time.Unix(1<<60, 0),
		time.Date(2262, 4, 11, 23, 47, 16, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		for _, every := range []time.Duration{-1, 0, 1, time.Minute, 1<<63 - 1} {
			p := standard()
			p.Every, p.MultiEvery, p.Resume, p.Slow = every, every/2, 1<<63-1, 1<<62
			var s State
			for _, at := range []time.Time{now, epoch, now, now.Add(time.Hour)} {
				s.Tick(&p, at, nil)
				s.Submit(&p, at, 1, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}, nil, nil)
				s.Submit(&p, at, 1, []uint64{uint64(at.Unix())}, nil, nil)
				s.Due(&p)
				s.Resume(&p, at, true)
			}
			b, _ := s.AppendBinary(nil)
			if err := new(State).UnmarshalBinary(b); err != nil {
				t.Errorf("%s, %s: %v", now, every, err)
			}
		}
	}
}

func TestClockBackwards(t *testing.T) {
	r := newRig(t, standard())
	r.wait(time.Hour)
	r.fresh()
	r.fresh()
	r.fresh()
	// A little: nothing happens before its time, and nothing later.
	r.wait(-30 * time.Second)
	r.waiting(2)
	r.due(61 * time.Minute)
	r.wait(90 * time.Second)
	r.waiting(1)
	// A century forth and back again: the user does not wait for a century.
	r.wait(100 * 365 * 24 * time.Hour)
	r.waiting(0)
	r.fresh()
	r.fresh()
	r.wait(-100 * 365 * 24 * time.Hour)
	r.waiting(1)
	r.wait(time.Minute)
	r.waiting(0)
	r.credit(0, 15)
	r.wait(time.Minute)
	r.credit(1, 15)

	// One who was stopped in the future is tried again as if it had been now.
	r.p.Resume = time.Hour
	r.wait(100 * 365 * 24 * time.Hour)
	r.send(r.many(40)...)
	r.stopped(true)
	r.wait(-100 * 365 * 24 * time.Hour)
	r.wait(59 * time.Minute)
	r.stopped(true)
	r.wait(time.Minute)
	r.stopped(false)
}

// TestResumeAfterTheClockWasSetBack: whoever is resumed earns credit after one period, and not after what the clock was
// ahead.
func TestResumeAfterTheClockWasSetBack(t *testing.T) {
	r := newRig(t, standard())
	r.wait(time.Hour)
	r.send(r.many(40)...)
	r.stopped(true)
	r.now = epoch
	r.s.Resume(&r.p, r.now, false)
	r.credit(1, 0)
	r.wait(time.Minute)
	r.credit(1, 1)
}

func TestTwoRates(t *testing.T) {
	r := newRig(t, standard())
	r.p.MultiEvery, r.p.MaxMSlack = 25*time.Second, 2
	r.send(1)         // mail 1 passes
	r.send(2, 3)      // mail 2 passes
	r.send(4, 5, 6)   // mail 3 waits
	r.send(7)         // mail 4 waits
	r.send(8, 9)      // mail 5 waits
	r.send(10)        // mail 6 waits
	r.credit(0, 0)    //
	r.waiting(7)      //
	r.due(25 * 1e9)   // the clock of mails to several
	r.wait(50 * 1e9)  // two of mail 3
	r.due(60 * 1e9)   // the clock of mails to one
	r.wait(70 * 1e9)  // until 2:00
	r.due(125 * 1e9)  // the last of mail 5
	r.wait(6 * 1e9)   // until 2:06
	r.credit(0, 0)    // both have been busy so far
	r.wait(24 * 1e9)  // until 2:30: mSlack
	r.credit(0, 1)    //
	r.wait(30 * 1e9)  // until 3:00: slack, and mSlack once more
	r.credit(1, 2)    //
	r.due(-1)         //
	r.wait(100 * 1e9) //
	r.credit(1, 2)
	if got := fmt.Sprint(r.gone()); got != "[3/0 3/1 4/0 3/2 5/0 6/0 5/1]" {
		t.Error(got)
	}
	// The clock that has nothing to do keeps up: no credit for the time before a mail.
	r.send(r.many(5)...)
	r.wait(time.Minute)
	r.want("to one", r.fresh(), passed)
	r.wait(1)
	r.want("to another", r.fresh(), delayed)
}

// TestNoCreditForTheTimeBefore: while only recipients of mails to several wait, and none of them leaves, the clock of
// mails to one keeps up. Whoever writes then does not get credit for the time before.
func TestNoCreditForTheTimeBefore(t *testing.T) {
	r := newRig(t, standard())
	r.p.MultiEvery = time.Hour
	r.send(r.many(17)...)
	r.waiting(2)
	r.wait(90 * time.Second)
	r.want("to one", r.fresh(), passed)
	r.want("to another", r.fresh(), delayed)
	r.due(2 * time.Minute)
}

// TestCreditWhileOthersWait: while recipients of mails to several wait, credit for mails to one comes back one by
// one, at its own pace.
func TestCreditWhileOthersWait(t *testing.T) {
	r := newRig(t, standard())
	r.p.MultiEvery, r.p.MaxSlack, r.p.MaxMSlack = time.Hour, 3, 2
	for range 3 {
		r.want("to one", r.fresh(), passed)
	}
	r.send(r.many(4)...)
	r.waiting(2)
	for slack := range 4 {
		r.credit(slack, 0)
		r.wait(time.Minute)
	}
	r.credit(3, 0)
	r.waiting(2)
}

func TestRatesChange(t *testing.T) {
	r := newRig(t, standard())
	r.p.MultiEvery = 7 * time.Second
	r.send(r.many(17)...)
	r.fresh()
	r.fresh()
	r.wait(10 * time.Second)
	r.p.MultiEvery = r.p.Every
	r.wait(50 * time.Second)
	r.waiting(1)
	r.due(2 * time.Minute)
	if r.s.multi != r.s.last {
		t.Error("still two clocks")
	}
	// Lower maxima take credit away that is missing anyway.
	r.wait(10 * time.Minute)
	r.send(r.many(8)...)
	r.p.MaxMSlack = 2
	r.wait(2 * time.Minute)
	r.credit(1, 2)
}

// What was held when the user is resumed is nobody's any more: it neither leaves nor counts.
func TestResume(t *testing.T) {
	r := newRig(t, standard())
	r.send(r.many(40)...)
	r.wait(90 * time.Second)
	r.waiting(25)
	r.s.Resume(&r.p, r.now, false)
	r.stopped(false)
	r.waiting(0)
	r.due(-1)
	r.wait(24 * time.Hour)
	if len(r.left) != 0 {
		t.Errorf("%d left", len(r.left))
	}
	r.credit(1, 15)
	r.fresh()
	for range 20 {
		r.want("one of 20", r.fresh(), delayed)
	}
	r.want("one more", r.fresh(), Decision{Stopped: true, Delayed: 1})
}

func TestSlowMotion(t *testing.T) {
	r := newRig(t, standard())
	r.p.Stop = 1
	r.send(r.many(18)...)
	r.wait(30 * time.Minute)
	r.s.Resume(&r.p, r.now, true)
	if !r.s.Slow() {
		t.Error("not in slow motion")
	}
	r.waiting(0)
	r.credit(0, 0)
	r.wait(4 * time.Minute)
	r.credit(1, 1)
	r.fresh()
	r.want("without credit", r.fresh(), delayed)
	r.due(38 * time.Minute)
	r.wait(4 * time.Minute)
	r.waiting(0)
	r.wait(13 * 4 * time.Minute)
	r.credit(1, 14)
	if !r.s.Slow() {
		t.Error("not in slow motion")
	}
	r.wait(4 * time.Minute)
	r.credit(1, 15)
	if r.s.Slow() {
		t.Error("still in slow motion")
	}
	r.send(r.many(4)...)
	r.wait(2 * time.Minute)
	r.credit(1, 13)

	// An operator may end it; what was missed in slow motion does not come at once.
	r.send(r.many(15)...)
	r.stopped(true)
	r.s.Resume(&r.p, r.now, true)
	r.wait(3*time.Minute + 30*time.Second)
	r.credit(0, 0)
	r.s.Resume(&r.p, r.now, false)
	r.wait(0)
	r.credit(0, 0)
	r.wait(time.Minute)
	r.credit(1, 1)
}

func TestTriedAgain(t *testing.T) {
	r := newRig(t, standard())
	r.p.Resume = 24 * time.Hour
	r.send(r.many(40)...)
	r.due(24 * time.Hour)
	r.wait(24*time.Hour - 1)
	r.stopped(true)
	r.wait(1)
	r.stopped(false)
	r.waiting(0)
	r.due(-1)
	r.credit(0, 0)
	// However late somebody looks, the user begins without credit.
	for !r.fresh().Stopped {
	}
	r.wait(30 * 24 * time.Hour)
	r.stopped(false)
	r.waiting(0)
	r.credit(0, 0)
	if len(r.left) != 0 {
		t.Errorf("%d left", len(r.left))
	}

	// A user that an operator has stopped waits for an operator.
	r.s.Stop(r.now)
	if !r.s.ByOperator() {
		t.Error("not by an operator")
	}
	r.due(-1)
	r.wait(300 * 24 * time.Hour)
	r.stopped(true)
	r.s.Resume(&r.p, r.now, false)
	r.stopped(false)
	if r.s.ByOperator() {
		t.Error("by an operator")
	}
}

func TestStopOfOneWhoNeverSent(t *testing.T) {
	r := newRig(t, standard())
	r.s.Stop(r.now)
	r.want("stopped", r.fresh(), refused)
	r.wait(time.Hour)
	r.s.Resume(&r.p, r.now, true)
	r.credit(1, 15)
	r.want("resumed", r.fresh(), passed)
}

func TestTake(t *testing.T) {
	r := newRig(t, standard())
	r.send(r.many(20)...)
	r.send(r.many(3)...)
	r.send(anns)
	r.send(bobs)
	taken := r.s.Take(func(it Item) bool { return it.Mail == 2 || it.Key == bobs })
	r.left = taken
	if got := fmt.Sprint(r.gone()); got != "[2/0 2/1 2/2 4/0]" {
		t.Error(got)
	}
	if got := r.s.Take(func(Item) bool { return false }); got != nil {
		t.Error(got)
	}
	r.waiting(5)
	r.credit(0, 0)
	r.due(time.Minute)
	r.s.Take(func(Item) bool { return true })
	r.due(-1)
	// A released recipient is not in the working set.
	r.want("bob", r.send(bobs), delayed)
}

// A reload that makes the clock faster does not let all go at once that the old one had not let go yet, and one that
// makes it slower or faster keeps the credit that was earned by the old one.
func TestAnotherPace(t *testing.T) {
	for _, two := range []bool{false, true} {
		r := newRig(t, standard())
		r.p.Every, r.p.MultiEvery = time.Hour, time.Hour
		r.send(r.many(20)...) // five wait
		r.wait(59 * time.Minute)
		r.s = *reread(t, &r.s)
		if r.p.Every, r.p.MultiEvery = time.Minute, time.Minute; two {
			r.p.Every = time.Second
		}
		r.wait(0)
		r.waiting(4)
		r.wait(time.Minute)
		r.waiting(3)

		r = newRig(t, standard())
		r.send(r.many(15)...)
		r.now = r.now.Add(10 * time.Minute) // and nobody looks
		r.p.Every, r.p.MultiEvery = time.Hour, time.Hour
		r.wait(0).credit(1, 10)
		r.wait(time.Hour)
		r.credit(1, 11)

		r = newRig(t, standard())
		r.p.Every, r.p.MultiEvery = time.Nanosecond, time.Nanosecond // as fast as can be
		r.send(r.many(15)...)
		r.now = r.now.Add(time.Millisecond)
		r.p.Every, r.p.MultiEvery = time.Hour, time.Hour
		r.wait(0).credit(1, 15)
	}
}
