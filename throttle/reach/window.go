package reach

import (
	"fmt"
	"time"

	"weir"
)

// A Window is a stretch of time up to now in which new recipients are counted.
type Window uint8

const (
	Hour Window = iota
	Day
	Week
)

// Windows lists all of them.
var Windows = [...]Window{Hour, Day, Week}

const (
	secHour = 60 * 60
	secDay  = 24 * secHour
	secWeek = 7 * secDay
)

// A shape is how a window is counted: in slots, of which the latest are the window and as many before the one before.
type shape struct {
	name   string
	length int64 // seconds
	slot   int64 // seconds
	slots  int
	from   int // where its slots are in a ring
}

var shapes = [...]shape{
	{"hour", secHour, 5 * 60, 12, 0},
	{"day", secDay, secHour, 24, 2 * 12},
	{"week", secWeek, secDay, 7, 2 * (12 + 24)},
}

const ringSlots = 2 * (12 + 24 + 7)

func (w Window) shape() *shape { return &shapes[min(int(w), len(shapes)-1)] }

// Length is how long the window is.
func (w Window) Length() time.Duration { return time.Duration(w.shape().length) * time.Second }

func (w Window) String() string {
	if int(w) < len(shapes) {
		return shapes[w].name
	}
	return fmt.Sprintf("window(%d)", uint8(w))
}

func (w Window) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads hour, day, week (also 1h, 24h, 1d, 7d, 1w).
func (w *Window) UnmarshalText(text []byte) error {
	s := string(text)
	d, err := weir.ParseDuration(s)
	for _, known := range Windows {
		if s == known.String() || err == nil && d.Std() == known.Length() {
			*w = known
			return nil
		}
	}
	return &weir.FieldError{Msg: fmt.Sprintf("unknown window %.64q", s), Hint: weir.Suggest(s, "hour", "day", "week")}
}

// A grid is which slot of each window a time lies in.
type grid [len(Windows)]int64

// gridOf divides by constants, which is several times as fast as by the shapes.
func gridOf(at int64) grid { return grid{at / (5 * 60), at / secHour, at / secDay} }

// period numbers the hours, days and weeks of UTC; into is how many slots are over. The epoch was a Thursday.
func (g grid) period(w Window) (number, into int64) {
	switch w {
	case Hour:
		return g[w] / 12, g[w] % 12
	case Day:
		return g[w] / 24, g[w] % 24
	}
	return (g[Week] + 3) / 7, (g[Week] + 3) % 7
}
