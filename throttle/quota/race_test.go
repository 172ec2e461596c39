package quota

import (
	"testing"
	"time"

	"weir"
)

// racers are nodes of which each has used n of a limit of 1,000, and all know it.
func racers(t *testing.T, o Options, n ...int) (all []*talker) {
	for i := range n {
		all = append(all, newTalker(t, string(rune('a'+i)), 1, o))
	}
	for i, r := range all {
		if got := r.rush(n[i]); got != n[i] {
			t.Fatalf("%s had %d of %d", r.name, got, n[i])
		}
	}
	exchange(all)
	return all
}

// rush asks n times at once, and returns how often it was granted.
func (n *talker) rush(times int) (granted int) {
	for range times {
		if n.q.Allow(n.now, "x") {
			granted++
		}
	}
	return granted
}

// exchange has all nodes tell each other, one lap later.
func exchange(all []*talker) {
	for _, from := range all {
		msgs := from.tell()
		for _, to := range all {
			if to != from {
				to.hear(from, msgs)
			}
		}
	}
	for _, n := range all {
		n.now = n.now.Add(time.Duration(lap))
	}
}

// Nodes that use up what is left faster than they hear of each other do not take it twice, and all of it is used.
func TestRace(t *testing.T) {
	for _, window := range []WindowKind{Fixed, Sliding} {
		for _, used := range [][]int{{150, 150, 150, 150}, {400, 100, 50, 50}, {300, 300}} {
			all := racers(t, policy(window, 1000, time.Hour), used...)
			const left = 400
			granted, share := 0, 0
			for i, n := range all {
				had := n.rush(left)
				if want := left * used[i] / 600; had < want || had > max(want+1, left/len(all)/2) {
					t.Errorf("%s, %v: %s had %d of the %d that are left", window, used, n.name, had, left)
				}
				granted += had
				share = max(share, had)
			}
			if most := left + left/len(all)/2; granted < left || granted > most {
				t.Errorf("%s, %v: %d were granted, %d were left", window, used, granted, left)
			}
			exchange(all)
			for _, n := range all {
				if more := n.rush(10); more > 0 {
					t.Errorf("%s, %v: %s granted %d more", window, used, n.name, more)
				}
			}
		}
	}
}

// What the others do not take in a lap is there in the next one.
func TestRaceGoesOn(t *testing.T) {
	all := racers(t, policy(Fixed, 1000, time.Hour), 200, 200, 200)
	granted := 0
	for range 30 { // only one of them is asked
		granted += all[0].rush(400)
		exchange(all)
	}
	if granted != 400 {
		t.Errorf("%d of 400 were granted", granted)
	}
}

// Whoever is refused in a race is told to come again when the lap ends, and whoever waits is called then.
func TestRaceEndsALap(t *testing.T) {
	o := policy(Fixed, 1000, time.Hour)
	all := racers(t, o, 300, 300)
	n := all[0]
	n.rush(400)
	if a := n.ask("x").answer; a.Verdict != weir.Refuse || a.Until.Sub(n.now) != time.Duration(lap) {
		t.Errorf("%v until %v", a.Verdict, a.Until.Sub(n.now))
	}
	o.Policies[0] = delayed(o.Policies[0], 1, time.Hour)
	all = racers(t, o, 300, 300)
	n = all[0]
	n.rush(200)
	n.wait("x")
	if got := n.called(); len(got) != 0 {
		t.Error("it went on at once")
	}
	n.now = n.now.Add(time.Duration(lap))
	n.q.Advance(n.now)
	if got := n.called(); len(got) != 1 {
		t.Error("it waits still")
	}
}

// An event that costs more than a share goes on where nothing was taken in the lap.
func TestRaceAllowsACostlyEvent(t *testing.T) {
	n := racers(t, policy(Fixed, 1000, time.Hour), 300, 300)[0]
	if a := n.judge(weir.Event{Account: "x", Cost: 390}).answer; a.Verdict != weir.Admit {
		t.Errorf("it is refused: %+v", a)
	}
	if n.q.Allow(n.now, "x") {
		t.Error("another one goes on in the same lap")
	}
}

// A new period is no race, and neither is a limit that one node uses alone, or one that is used slowly.
func TestNoRace(t *testing.T) {
	all := racers(t, policy(Fixed, 1000, time.Hour), 300, 300)
	for _, n := range all {
		n.now = n.now.Add(time.Hour)
	}
	if got := all[0].rush(499); got != 499 {
		t.Errorf("%d of 499 in a new period", got)
	}
	alone := racers(t, policy(Fixed, 1000, time.Hour), 600, 0, 0)
	if got := alone[0].rush(401); got != 400 {
		t.Errorf("%d of 400, alone", got)
	}
	slow := racers(t, policy(Fixed, 1000, time.Hour), 590, 10)
	if got := slow[0].rush(401); got != 400 {
		t.Errorf("%d of 400, where the other one is slow", got)
	}
}
