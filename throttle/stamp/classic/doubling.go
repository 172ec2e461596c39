package classic

import (
	"time"

	"weir"
)

// A Doubling is the price of the source document: nothing until a load, then the first work, doubled after every
// interval at whose end the load is still there.
type Doubling struct {
	Interval    time.Duration
	From        weir.Share
	First, Most uint64
	Bits        bool // the bits of the work are doubled, which squares the work
}

// Next returns what follows from a work, zero where nothing is asked, and from the start of its interval.
func (d *Doubling) Next(work uint64, since, now time.Time, load weir.Share) (uint64, time.Time) {
	if !(load >= d.From) {
		return 0, time.Time{}
	}
	if work == 0 || load == 0 { // From may be 0%: something is asked at idle, but there is no load that lasts
		return d.First, now
	}
	if now.Before(since) { // the clock was set back
		since = now
	}
	if now.Sub(since) < d.Interval {
		return work, since
	}
	// Where several intervals have passed unseen, the load is known at the end of the last one only.
	if since = since.Add(d.Interval); now.Sub(since) >= d.Interval {
		since = now
	}
	times := uint64(2)
	if d.Bits {
		times = work
	}
	if work > d.Most/times {
		return d.Most, since
	}
	return work * times, since
}
