package app

import (
	"slices"
	"sync"
	"time"

	"weir"
	"weir/admission"
	"weir/console"
	"weir/internal/clock"
	"weir/throttle/stamp"
)

// A history keeps samples of the gates with a capacity over the last minutes, for the plots of the console. One timer
// serves all of them, and runs only while there is such a gate. Samples of other gates are dropped.
type history struct {
	clock clock.Clock
	now   func() *generation

	mu      sync.Mutex
	timer   clock.Timer // nil while there is nothing to remember
	over    bool
	records []*record
}

// A record is the past of one gate.
type record struct {
	lanes   *lanes // kept by reloads for as long as the gate is
	counts  admission.Stats
	at      time.Time // of the counts
	samples ring[console.Sample]
}

// watch begins to sample if there is something to, and goes on if it does already. It is called when a generation has
// taken effect.
func (h *history) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil && !h.over {
		h.look()
	}
}

// stop ends it: when it returns, nothing is sampled any more.
func (h *history) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}

func (h *history) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	if !h.over {
		h.look()
	}
}

// look samples every gate with a capacity, forgets the others, and sets the timer for the next time.
func (h *history) look() {
	g, now := h.now(), h.clock.Now()
	var records []*record
	for _, gt := range g.gates {
		if gt.lanes == nil {
			continue
		}
		r := h.record(gt)
		if r == nil { // there is nothing yet to tell a rate from
			r = &record{lanes: gt.lanes, counts: gt.lanes.Stats(now), at: now}
		} else {
			r.sample(g, gt, now)
		}
		records = append(records, r)
	}
	h.records = records
	if len(records) > 0 {
		h.timer = h.clock.AfterFunc(console.HistoryEvery, h.tick)
	}
}

// record returns the past of a gate, or nil.
func (h *history) record(gt *gate) *record {
	i := slices.IndexFunc(h.records, func(r *record) bool { return r.lanes == gt.lanes })
	if i < 0 {
		return nil
	}
	return h.records[i]
}

// sample adds the present state of a gate.
func (r *record) sample(g *generation, gt *gate, now time.Time) {
	before, counts, passed := r.counts, gt.lanes.Stats(now), now.Sub(r.at).Seconds()
	r.counts, r.at = counts, now
	if passed <= 0 { // the clock was set back
		return
	}
	rate := func(before, after uint64) float64 { return float64(after-before) / passed }
	s := console.Sample{
		At: now, Load: float64(counts.Load), TurnedAway: rate(before.TurnedAway, counts.TurnedAway),
		Stamped: rate(before.Stamped.LetIn, counts.Stamped.LetIn), Pool: rate(before.Pool.LetIn, counts.Pool.LetIn),
	}
	if t := g.stamps(gt); t != nil {
		share, delay := gt.lanes.Load(now)
		work := t.stamps().Observe(weir.Load{Of: gt.listen, Share: share, Delay: delay}, now)
		s.Work, s.Takes = uint64(work), work.Time(t.config.Stamp.Algorithm)
	}
	r.samples.put(s, console.HistoryLength)
}

// stamps returns the throttle that asks for stamps at a gate, or nil. Where there are several it is the first, as for
// the gate.
func (g *generation) stamps(gt *gate) *throttle {
	for _, link := range gt.chain.Links() {
		if _, ok := link.Throttle.(*stamp.Throttle); ok {
			return g.throttle(link.Name)
		}
	}
	return nil
}

// History returns how the gates with a capacity fared, in the order of Status.
func (b backend) History() (all []console.GateHistory) {
	g, h := b.current.Load(), b.history
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, gt := range g.gates {
		if gt.lanes == nil {
			continue
		}
		past := console.GateHistory{Gate: gt.listen, Address: gt.address()}
		if t := g.stamps(gt); t != nil {
			past.Stamps = t.name
		}
		if r := h.record(gt); r != nil {
			past.Samples = r.samples.all()
		}
		all = append(all, past)
	}
	return all
}

// A ring keeps the latest of what is put into it.
type ring[T any] struct {
	kept []T
	next int // where the oldest is, once it is full
}

// put adds a value, in the place of the oldest where there are as many as there may be.
func (r *ring[T]) put(v T, most int) {
	if r.kept == nil {
		r.kept = make([]T, 0, most)
	}
	if len(r.kept) < most {
		r.kept = append(r.kept, v)
		return
	}
	r.kept[r.next] = v
	r.next = (r.next + 1) % most
}

// all returns what is kept, the oldest first.
func (r *ring[T]) all() []T { return slices.Concat(r.kept[r.next:], r.kept[:r.next]) }
