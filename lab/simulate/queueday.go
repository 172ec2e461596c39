package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// How many different moments a timeline tells apart. Where more happens, moments become longer: 2 seconds, 4 … The line
// of the main parameters is shown over the day, and has room for half a million waiting recipients. The dozens of
// values tried beside them need only the most.
const (
	mainChanges = 1 << 20
	maxChanges  = 1 << 14
)

// A timeline is how many recipients of all users wait, from moment to moment. It takes changes in any order, so that
// users may be run one after the other, and in parallel.
type timeline struct {
	changes []change
	shift   uint // a moment is 1 << shift seconds long
	bound   int  // at most so many changes; 0: maxChanges
}

// A change is what happens in one moment: recipients come and leave by the clock, then a stopped user releases.
type change struct {
	at       uint32 // in moments since 1970
	came     int32  // less those who left by the clock
	released int32
}

// add notes that recipients came, left (a negative number) or were released.
func (l *timeline) add(at int64, came, released int) {
	l.changes = append(l.changes, change{l.moment(at / int64(time.Second)), int32(came), int32(released)})
	if len(l.changes) >= 2*l.limit() {
		l.tidy()
	}
}

func (l *timeline) moment(second int64) uint32 { return uint32(min(second, math.MaxUint32) >> l.shift) }

// limit is how many changes there is room for.
func (l *timeline) limit() int { return cmp.Or(l.bound, maxChanges) }

// every is how many seconds a moment has.
func (l *timeline) every() int { return 1 << l.shift }

// tidy joins changes of the same moment, and makes moments longer until the changes have room. In the end moments are
// as long as all changes together need, in whatever order they were added and joined.
func (l *timeline) tidy() {
	slices.SortFunc(l.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	for l.merge(); len(l.changes) > l.limit(); l.merge() {
		l.coarsen(l.shift + 1)
	}
}

func (l *timeline) merge() {
	kept := l.changes[:0]
	for _, c := range l.changes {
		if n := len(kept); n > 0 && kept[n-1].at == c.at {
			kept[n-1].came += c.came
			kept[n-1].released += c.released
			continue
		}
		kept = append(kept, c)
	}
	l.changes = kept
}

func (l *timeline) coarsen(shift uint) {
	for i := range l.changes {
		l.changes[i].at >>= shift - l.shift
	}
	l.shift = shift
}

// join takes the changes of another timeline, which must not be used afterwards.
func (l *timeline) join(o *timeline) {
	shift := max(l.shift, o.shift)
	l.coarsen(shift)
	o.coarsen(shift)
	l.changes = append(l.changes, o.changes...)
	l.bound = max(l.bound, o.bound)
	l.tidy()
}

// most is how many waited at once.
func (l *timeline) most() int {
	most, level := 0, 0
	for _, c := range l.changes {
		level += int(c.came)
		most = max(most, level)
		level -= int(c.released)
	}
	return most
}

// minutes of a day, and its seconds.
const (
	dayMinutes = 24 * 60
	daySeconds = 24 * 60 * 60
)

// overDay is how many wait in each minute of the day: on average over all days of the log, and at most. The day is that
// of the log's own times. What still waits a day after the end of the log is left out.
func (l *timeline) overDay(from, to time.Time) []QueuePoint {
	points := make([]QueuePoint, dayMinutes)
	sums := make([]float64, dayMinutes) // recipients times seconds
	for i := range points {
		points[i].Minute = i
	}
	end := to.Unix() + daySeconds
	level := 0
	for i, c := range l.changes {
		at := int64(c.at) << l.shift
		level += int(c.came)
		if at > end {
			break
		}
		minute := minuteOf(at, from.Location())
		points[minute].Most = max(points[minute].Most, level)
		level -= int(c.released)
		next := end
		if i+1 < len(l.changes) {
			next = min(end, int64(l.changes[i+1].at)<<l.shift)
		}
		for level > 0 && at < next {
			minute := minuteOf(at, from.Location())
			stay := min(next, at-at%60+60) - at
			sums[minute] += float64(level) * float64(stay)
			points[minute].Most = max(points[minute].Most, level)
			at += stay
		}
	}
	days := 1 + dayOf(to, from.Location()) - dayOf(from, from.Location())
	for i := range points {
		points[i].Mean = rounded(sums[i]/60/float64(days), 1e4)
	}
	return points
}

// minuteOf is the minute of the day of a second since 1970.
func minuteOf(second int64, zone *time.Location) int {
	t := time.Unix(second, 0).In(zone)
	return t.Hour()*60 + t.Minute()
}

// dayOf numbers the days of a calendar.
func dayOf(t time.Time, zone *time.Location) int64 {
	year, month, day := t.In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}
