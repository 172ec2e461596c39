package admission

import (
	"math"
	"time"

	"weir"
)

const (
	bucket  = int64(50 * time.Millisecond)
	buckets = int64(time.Second) / bucket // whole ones; one more is the current
	// guess is how long requests are supposed to take before one has ended.
	guess = 50 * time.Millisecond
)

// A window is what went on in about the last second, in buckets.
type window struct {
	ring [buckets + 1]spell
	now  int64 // the number of the current bucket
}

// A spell is what went on in one bucket.
type spell struct {
	area   [lanes]float64 // requests under way and waiting, times nanoseconds
	away   int            // clients that were turned away
	back   int            // clients that had been turned away and came in
	waited int64          // the longest wait of a client that paid at least the price now
}

func (w *window) current() *spell { return &w.ring[w.now%(buckets+1)] }

// pass adds a stretch of time in which level requests of each lane were under way or waited.
func (w *window) pass(from, to int64, level [lanes]int) {
	if gap := to/bucket - w.now; gap > buckets+1 {
		// Everything in the ring is older than a second.
		w.ring = [buckets + 1]spell{}
		w.now = to/bucket - buckets - 1
		from = max(from, w.now*bucket)
	}
	for {
		end := min(to, (w.now+1)*bucket)
		s := w.current()
		for i, n := range level {
			s.area[i] += float64(n) * float64(end-from)
		}
		if from = end; from == to {
			return
		}
		w.now++
		*w.current() = spell{}
	}
}

// sum returns how many of each lane were under way or held on average, how many clients were turned away in a second
// and have not come in, and how long clients that paid have waited for their turns at most. Where those come in that
// another node turned away, away is below 0.
func (w *window) sum(at int64) (level [lanes]float64, away float64, waited int64) {
	for i := range w.ring {
		s := &w.ring[i]
		for i := range level {
			level[i] += s.area[i]
		}
		away += float64(s.away - s.back)
		waited = max(waited, s.waited)
	}
	span := float64(at - (w.now-buckets)*bucket)
	for i := range level {
		level[i] /= span
	}
	return level, away / span * float64(time.Second), waited
}

// A movingMean is a mean of how long requests take. After the first few, later ones count more than earlier ones.
type movingMean struct {
	mean float64
	n    int
	at   int64
}

func (p *movingMean) add(took, at int64) {
	const memory, many = float64(5 * time.Second), 128
	if took <= 0 {
		return
	}
	if p.n >= 8 { // a download that takes an hour says nothing about the others
		took = min(took, int64(8*p.mean))
	}
	p.n = min(p.n+1, many)
	// Where requests are few, the last five seconds count; where they are many, the last hundred or so.
	passed := float64(at - p.at)
	weight := max(1/float64(p.n), min(passed/(passed+memory), 0.25))
	p.mean += (float64(took) - p.mean) * weight
	p.at = at
}

func (p *movingMean) orGuess() float64 {
	if p.n == 0 {
		return float64(guess)
	}
	return p.mean
}

// Load says how much is asked of the upstream in proportion to what it can do, over about the last second: places in
// use, requests held, and what the clients would need who were turned away, each of them once. Above 1 it is too
// much. It also says how long those waited who paid: the longest wait of a client for its turn, among those that got
// one with a stamp that is worth what is asked now. (A client that has places already waits for itself. Where no place
// moves, paying more would help nobody.) It is cheap: the figures are renewed every 50 ms.
//
// In a farm both are the farm's: all that is asked in proportion to all that the upstream can do, and the mean delay of
// the nodes, each by how much is asked of it. So a stamp costs the same at all nodes.
func (l *Lanes) Load(now time.Time) (share weir.Share, delay time.Duration) {
	at := nanos(now)
	if age := at - l.measured.at.Load(); age <= -bucket || age >= bucket {
		l.mu.Lock()
		l.measure(l.tick(now))
		l.measured.at.Store(at)
		l.mu.Unlock()
	}
	return weir.Share(math.Float64frombits(l.measured.share.Load())), time.Duration(l.measured.delay.Load())
}

// measure works out load and delay at a time that everything has been brought up to.
func (l *Lanes) measure(at int64) {
	level, away, waited := l.window.sum(at)
	l.paying, l.looked = level[stamped], at
	l.demand = level[stamped] + level[pool]
	l.outside = away * l.service.orGuess() / float64(time.Second)
	l.ownDelay = waited
	demand, outside, delay := l.demand, l.outside, l.ownDelay
	if f := l.farm; f != nil {
		demand, outside = demand+f.asked, outside+f.outside
		if demand > 0 { // each node counts by how much is asked of it
			delay = int64((l.demand*float64(l.ownDelay) + f.delayed) / demand)
		}
	}
	demand += max(0, outside)
	l.measured.share.Store(math.Float64bits(demand / float64(l.wholeUsual())))
	l.measured.delay.Store(delay)
}
