package outbreak

import (
	"slices"
	"testing"
	"time"
)

// What a server took of a stopped user waits with what waited before, and is held with it. It costs nothing.
func TestHold(t *testing.T) {
	r := newRig(t, standard())
	late := r.many(2)
	if r.s.Hold(r.now, 100, late, nil) {
		t.Fatal("held of somebody who is not stopped")
	}
	r.send(r.many(40)...)
	before := len(r.s.Waiting())
	if _, stopped := r.s.Stopped(); !stopped || before != 25 {
		t.Fatal(stopped, before)
	}
	if !r.s.Hold(r.now, 100, late, []int{3, 7}) || !r.s.Hold(r.now, 101, r.many(1), nil) {
		t.Fatal("not held")
	}
	want := []Item{{Mail: 100, Number: 3, Key: late[0]}, {Mail: 100, Number: 7, Key: late[1]}}
	if got := r.s.Waiting(); len(got) != before+3 || !slices.Equal(got[before:before+2], want) ||
		!got[before+2].Single {
		t.Errorf("%+v", got[before:])
	}
	r.s = *reread(t, &r.s)
	r.wait(time.Hour)
	if len(r.left) != 0 {
		t.Errorf("%d left while the user was stopped", len(r.left))
	}
	r.s.Resume(&r.p, r.now, false)
	r.wait(28 * time.Minute)
	if _, stopped := r.s.Stopped(); stopped || len(r.left) != 0 || len(r.s.Waiting()) != 0 {
		t.Errorf("stopped %v, %d left", stopped, len(r.left))
	}

	// A user who never wrote, and was stopped by an operator.
	var s State
	s.Stop(r.now)
	if !s.Hold(r.now, 1, r.many(1), nil) || len(reread(t, &s).Waiting()) != 1 {
		t.Error("not held")
	}
}

func TestHoldIsBounded(t *testing.T) {
	r := newRig(t, standard())
	r.s.Stop(r.now)
	if !r.s.Hold(r.now, 1, r.many(MaxItems), nil) {
		t.Fatal("there was room")
	}
	if r.s.Hold(r.now, 2, r.many(1), nil) || len(r.s.Waiting()) != MaxItems {
		t.Errorf("%d wait", len(r.s.Waiting()))
	}
	if !r.s.Hold(r.now, 3, nil, nil) {
		t.Error("nobody takes no room")
	}
	reread(t, &r.s)
}
