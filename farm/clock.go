package farm

import (
	"slices"
	"time"
)

const (
	minClocks = 3  // with two there is no telling which one is wrong
	slewShare = 20 // the offset moves by at most one in so many
)

// offsets are how far a member's clock was ahead when its last heartbeats came. The zero value has none.
type offsets struct {
	last [10]time.Duration
	n    int
}

// add takes one more. It returns how much later than the fastest of the last heartbeats this one came.
func (o *offsets) add(ahead time.Duration) (lag time.Duration) {
	o.last[o.n%len(o.last)] = ahead
	o.n++
	return o.best() - ahead
}

// best is the offset by the heartbeat that was the least delayed.
func (o *offsets) best() time.Duration {
	return slices.Max(o.last[:min(o.n, len(o.last))])
}

// ahead is how far a clock is ahead of now. A nonsensical one is a century away.
func ahead(raw int64, now time.Time) time.Duration {
	const most = int64(100 * 365 * 24 * time.Hour / time.Microsecond)
	raw = min(max(raw, -most), 2*most) // so that the difference can be told
	return time.Duration(min(max(raw-now.UnixMicro(), -most), most)) * time.Microsecond
}

// median is how far the farm's time is ahead of this node's clock: it is the median of the clocks of all nodes that are
// up. With too few of them there is none.
func (f *Farm) median() (ahead time.Duration, ok bool) {
	all := []time.Duration{0} // this node's own clock
	for _, m := range f.members {
		if m.State == Up {
			all = append(all, m.Offset)
		}
	}
	if len(all) < minClocks {
		return 0, false
	}
	slices.Sort(all)
	ahead = all[len(all)/2]
	if len(all)%2 == 0 {
		ahead = (ahead + all[len(all)/2-1]) / 2
	}
	return ahead, true
}

// slew moves the offset towards the farm's time.
func (f *Farm) slew(passed tick) {
	if median, ok := f.median(); ok {
		most := min(passed, HeartbeatEvery) / slewShare // nothing is sure after more, as this node slept
		was := f.Offset()
		f.offset.Store(int64(was + min(max(median-was, -most), most)))
	}
}

// SetClock makes the offset what it is at once, where there are three nodes or more. It is for a node that starts and
// has counted nothing yet.
func (f *Farm) SetClock() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if median, ok := f.median(); ok {
		f.offset.Store(int64(median))
	}
}

// Offset is what to add to the machine's clock to get the farm's time. It moves slowly; with fewer than three nodes it
// stays where it is. Every request reads it, several times.
func (f *Farm) Offset() time.Duration { return time.Duration(f.offset.Load()) }
