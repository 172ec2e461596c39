package outbreak

import (
	"bytes"
	"testing"
	"time"
)

// Messages without a sender have a bucket of their own: as many as may pass at once, then one every so often, and
// nobody is stopped.
func TestNulls(t *testing.T) {
	r := newRig(t, standard())
	r.p.Nulls = Nulls{Per: time.Hour, Every: time.Minute}
	take := func(want bool) {
		t.Helper()
		if may := r.s.MayNull(&r.p, r.now); may != want {
			t.Errorf("may go on: %v", may)
		}
		if took := r.s.TakeNull(&r.p, r.now); took != want {
			t.Errorf("goes on: %v", took)
		}
	}
	for range 60 {
		take(true)
	}
	take(false)
	r.wait(59 * time.Second)
	take(false)
	r.s = *reread(t, &r.s)
	r.wait(time.Second)
	take(true)
	take(false)
	if _, stopped := r.s.Stopped(); stopped {
		t.Error("stopped")
	}
	if slack, multi := r.s.Credit(&r.p, r.now); slack != 1 || multi != 15 {
		t.Error("it costs credit", slack, multi)
	}
	// An hour later all of them may pass again, and no more.
	r.wait(time.Hour)
	for range 60 {
		take(true)
	}
	take(false)
	// A clock that was a year ahead has them put off for one period at most.
	ahead := r.now.AddDate(1, 0, 0)
	for r.s.TakeNull(&r.p, ahead) {
	}
	take(false)
	r.wait(time.Minute)
	take(false)
	r.s.ForgetNulls()
	take(true)
	// Who is exempt is not counted, and neither is anybody where nothing is said.
	r.p.Exempt = true
	for range 100 {
		take(true)
	}
	r.p.Exempt, r.p.Nulls = false, Nulls{}
	for range 100 {
		take(true)
	}
}

// TestUncountedNullsLeaveNothing: of whoever is not counted nothing has to be stored.
func TestUncountedNullsLeaveNothing(t *testing.T) {
	p := standard() // without a limit on them
	var s, fresh State
	s.TakeNull(&p, epoch)
	got, _ := s.MarshalBinary()
	want, _ := fresh.MarshalBinary()
	if !bytes.Equal(got, want) {
		t.Errorf("%x, %x of somebody new", got, want)
	}
}

// The last times there are do not overflow.
func TestNullsAtTheEndOfTime(t *testing.T) {
	p := standard()
	p.Nulls = Nulls{Per: time.Hour, Every: time.Minute}
	var s State
	for range 100 {
		s.TakeNull(&p, time.Unix(1<<40, 0))
	}
	if got := reread(t, &s); got.nulls != s.nulls || s.nulls <= 0 {
		t.Error(got.nulls, s.nulls)
	}
}
