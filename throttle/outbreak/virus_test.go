package outbreak

import (
	"fmt"
	"testing"
	"time"
)

// TestVirusTable lets a virus send mail to a new address each time, at the document's rates, in every phase of the
// user's clock. It is stopped no later than by the reference model in its worst phase and one mail more, and no more of
// its mails pass.
func TestVirusTable(t *testing.T) {
	for _, c := range []struct {
		perMinute int
		passed    int
		stopped   time.Duration
	}{
		{455, 2, 2900 * time.Millisecond},
		{109, 2, 12100 * time.Millisecond},
		{60, 2, 22 * time.Second},
		{10, 4, 144 * time.Second},
		{5, 7, 324 * time.Second},
		{2, 22, 1260 * time.Second},
	} {
		t.Run(fmt.Sprint(c.perMinute), func(t *testing.T) {
			gap := time.Minute / time.Duration(c.perMinute)
			mostPassed, longest, shortest := 0, time.Duration(0), time.Hour
			for phase := time.Duration(0); phase < time.Minute; phase += 50 * time.Millisecond {
				// a mail of the user's own has just spent the slack, as with Yaha.E
				for _, spent := range []bool{false, true} {
					passed, stopped := outbreak(t, gap, phase, spent)
					mostPassed, longest, shortest = max(mostPassed, passed), max(longest, stopped),
						min(shortest, stopped)
				}
			}
			t.Logf("up to %d passed, stopped after %s to %s", mostPassed, shortest.Round(time.Millisecond),
				longest.Round(time.Millisecond))
			if mostPassed > c.passed {
				t.Errorf("%d passed, want %d", mostPassed, c.passed)
			}
			if longest > c.stopped+gap {
				t.Errorf("stopped after %s, want %s and %s", longest, c.stopped, gap)
			}
		})
	}
}

// outbreak returns how many mails of a virus pass before it is stopped, and when that is.
func outbreak(t *testing.T, gap, phase time.Duration, spent bool) (passed int, after time.Duration) {
	r := newRig(t, standard())
	r.fresh()
	r.wait(time.Hour + phase)
	if spent {
		r.fresh()
	}
	begin := r.now
	for {
		d := r.fresh()
		passed += d.Passed
		if d.Stopped {
			return passed + len(r.left), r.now.Sub(begin)
		}
		if r.now.Sub(begin) > time.Hour {
			t.Fatal("never stopped")
		}
		r.wait(gap)
	}
}

// The first mail of a user may be that of the virus: then the clock starts with it.
func TestVirusOfANewUser(t *testing.T) {
	r := newRig(t, standard())
	for !r.fresh().Stopped {
		r.wait(time.Second)
	}
	if r.now.Sub(epoch) != 21*time.Second || len(r.left) != 0 {
		t.Error(r.now.Sub(epoch), r.left)
	}
}

// TestPatientThief: who never lets anything wait reaches two new recipients for each tick, and is never stopped.
func TestPatientThief(t *testing.T) {
	r := newRig(t, standard())
	reached := 0
	for minute := range 24 * 60 {
		r.wait(time.Minute)
		reached += r.fresh().Passed
		if minute%15 == 14 {
			reached += r.send(r.many(15)...).Passed
		}
	}
	r.stopped(false)
	r.waiting(0)
	if reached != 2880 {
		t.Errorf("%d reached", reached)
	}
}
