package ban

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestWatch(t *testing.T) {
	l := newList(t, Options{Max: 3})
	var first, second []string
	note := func(into *[]string) func(Change) {
		return func(c Change) { *into = append(*into, fmt.Sprintf("%s %s", c.What, c.Ban.BanKey)) }
	}
	offend(t, l, "early", "", epoch)
	stop := l.Watch(note(&first))
	offend(t, l, "a", "", epoch)
	offend(t, l, "a", "", epoch)                  // changes nothing
	offend(t, l, "a", "", epoch.Add(time.Second)) // ends later
	must(t, l.Add(byOperator(t, "192.0.2.0/24", time.Minute), epoch))
	l.Watch(note(&second))
	offend(t, l, "b", "", epoch.Add(2*time.Second))
	must(t, l.Remove(key(t, "client:b"), epoch))
	stop()
	stop()
	l.Advance(epoch.Add(time.Minute))
	l.Advance(epoch.Add(2 * time.Hour))
	if want := []string{"added client:early", "added client:a", "changed client:a", "added 192.0.2.0/24",
		"evicted client:early", "added client:b",
		"removed client:b"}; !slices.Equal(first, want) {
		t.Errorf("%q", first)
	}
	slices.Sort(second[:3]) // what was there
	if want := []string{"added 192.0.2.0/24", "added client:a", "added client:early", "evicted client:early",
		"added client:b", "removed client:b",
		"expired 192.0.2.0/24", "expired client:a"}; !slices.Equal(second, want) {
		t.Errorf("%q", second)
	}
	for what, holds := range map[What]bool{Added: true, Changed: true, Removed: false, Expired: false, Evicted: false} {
		if (Change{What: what}).Holds() != holds {
			t.Error(what)
		}
	}
}

func TestAdvance(t *testing.T) {
	l := newList(t, Options{})
	if due := l.Advance(epoch); !due.IsZero() {
		t.Error("nothing is due:", due)
	}
	var alarms []time.Duration
	l.Alarm(func(due time.Time) { alarms = append(alarms, due.Sub(epoch)) })
	must(t, l.Add(byOperator(t, "client:good", 0), epoch)) // is never due
	offend(t, l, "a", "", epoch)
	offend(t, l, "b", "", epoch.Add(time.Minute)) // is due later
	must(t, l.Add(byOperator(t, "client:c", time.Minute), epoch))
	if want := []time.Duration{time.Hour, time.Minute}; !slices.Equal(alarms, want) {
		t.Error(alarms)
	}
	for _, step := range []struct{ at, next time.Duration }{
		{0, time.Minute},
		{time.Minute - 1, time.Minute - 1 + rest}, // nobody is in a hurry
		{time.Minute, time.Hour},
		{time.Hour, time.Hour + time.Minute},
		{2 * time.Hour, 0},
	} {
		due := l.Advance(epoch.Add(step.at))
		if step.next == 0 && !due.IsZero() || step.next != 0 && due.Sub(epoch) != step.next {
			t.Errorf("at %s: due at %s, want %s", step.at, due.Sub(epoch), step.next)
		}
	}
	if got := names(l, epoch.Add(2*time.Hour)); got != "client:good" {
		t.Error(got)
	}
	late := newList(t, Options{})
	offend(t, late, "a", "", epoch)
	late.Alarm(func(due time.Time) { alarms = append(alarms, due.Sub(epoch)) })
	if alarms[len(alarms)-1] != time.Hour {
		t.Error("who registers late is told what is due:", alarms)
	}
}
