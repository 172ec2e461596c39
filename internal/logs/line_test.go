package logs

import (
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	var l Line
	for _, c := range []struct {
		at     time.Duration
		hidden int64
		ok     bool
	}{
		{0, 0, true},
		{0, 0, false},
		{Every - 1, 0, false},
		{Every, 2, true},
		{Every + 1, 0, false},
		{10 * Every, 1, true},
		{20 * Every, 0, true},
	} {
		if hidden, ok := l.Now(c.at); hidden != c.hidden || ok != c.ok {
			t.Errorf("at %s: %v, %d left out; want %v, %d", c.at, ok, hidden, c.ok, c.hidden)
		}
	}
}
