package admission

import (
	"testing"
	"time"
)

// TestWhatThePoolIsOwed: what the pool earns and pays in a stretch of time, where its share is 2 of 10 places.
func TestWhatThePoolIsOwed(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		owed, d       time.Duration
		paying        bool
		used, waiting int
		want          time.Duration
	}{
		"it waits, and has nothing":          {0, time.Second, true, 0, 1, 2 * time.Second},
		"it waits, and has a part":           {0, time.Second, true, 1, 1, time.Second},
		"it has its share":                   {0, time.Second, true, 2, 1, 0},
		"it has more, as nobody wanted it":   {0, time.Second, true, 9, 1, 0},
		"it has all it wants":                {0, time.Second, true, 1, 0, 0},
		"it has all it wants, and owes":      {-3 * time.Second, time.Second, true, 1, 0, -2 * time.Second},
		"it owes less than it earns":         {-time.Second / 2, time.Second, true, 1, 0, 0},
		"most that it is owed":               {0, day, true, 0, 1, 60 * time.Second},
		"it is owed, and is not there":       {time.Minute, forgive, true, 0, 0, 30 * time.Second},
		"nobody competes":                    {-time.Minute, forgive, false, 2, 1, -30 * time.Second},
		"nobody competes, for long":          {-time.Minute, day, false, 2, 1, 0},
		"it owes, and nobody of it is there": {-time.Minute, forgive, true, 0, 0, -30 * time.Second},
	} {
		g := poolShare{owed: float64(c.owed)}
		g.size(0.2, 10)
		g.pass(c.d, c.paying, c.used, c.waiting)
		if got := time.Duration(g.owed); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// Of half a place it pays for the whole one that it has.
	g := poolShare{owed: -float64(time.Minute)}
	g.size(0.05, 10) // half a place
	if g.pass(day, true, 1, 1); g.owed != -float64(mostOwing) {
		t.Errorf("it owes %s", time.Duration(-g.owed))
	}
}
