package reach

import (
	"errors"
	"math"
	"slices"
	"unsafe"
)

// A history is what is known of a user's recipients. It keeps what it was begun with: where rules ask for another
// structure, or for a set of known recipients, that is begun beside it, and from then on all of them are kept. So
// no known recipient becomes new by a change of the configuration. A sketch keeps its number of cells.
type history struct {
	sketch *Sketch
	known  *Known
	filter *Filter

	tried []uint32 // recipients of a flagged user that were held or refused lately: each counts once

	late     bool // the sketch was begun after the filter, and does not know everybody
	knownBy  begun
	filterBy begun

	filtered bool   // there is a filter
	settled  bool   // there is a settled part, or a filter
	missing  bool   // SetKnown has not given that part yet
	stored   uint64 // the generation that is stored
	unstored bool   // the filter has changed since it was stored
}

// begun is how many recipients a user had when a set was begun, and when. Until then others may be known, too.
type begun struct {
	gap uint32
	at  int64 // seconds
}

// A set that was begun late is believed with a twentieth more than there were; with a twentieth less after a week,
// since a sketch may have counted too many; and after 90 days whatever it has: a recipient that is not in it is new
// again.
const (
	soonLate = 7 * secDay
	maxLate  = 90 * secDay
)

func (b *begun) complete(now int64, count func() float64) bool {
	if b.gap == 0 || now-b.at >= maxLate {
		return true
	}
	share := count() / float64(b.gap)
	return share >= 1.05 || share >= 0.95 && now-b.at >= soonLate
}

// gap is what a set lacks that is begun now.
func (h *history) gap(now int64) begun {
	if n := uint32(min(math.Ceil(h.count()), math.MaxUint32)); n > 0 {
		return begun{gap: n, at: now}
	}
	return begun{}
}

func (h *history) prepare(r *Rules, now int64) {
	from := h.gap(now)
	switch {
	case r.o.Structure == Bloom && h.filter == nil && !h.missing:
		h.filter, h.filterBy, h.filtered, h.settled, h.unstored = new(Filter), from, true, true, true
	case r.o.Structure == HyperLogLog && h.sketch == nil:
		h.sketch, _ = NewSketch(r.o.Cells) // Validate has seen to the number
		h.late = from.gap > 0
	}
	if r.NeedsKnown() && h.known == nil {
		h.known, h.knownBy = new(Known), from
	}
}

func (h *history) add(key uint64, known bool) {
	if h.sketch != nil {
		h.sketch.Add(key)
	}
	if h.known != nil && !known && !h.missing {
		h.known.Add(key)
		h.settled = h.settled || h.known.Generation() > 0
	}
	if h.filter != nil && h.filter.Add(key) {
		h.unstored = true
	}
}

func (h *history) count() float64 {
	switch {
	case h.sketch != nil && !h.late:
		return h.sketch.Count()
	case h.filter != nil:
		return h.filter.Count()
	case h.sketch != nil:
		return h.sketch.Count()
	}
	return 0
}

// maxTried is how many of those are remembered. Earlier ones count again.
const maxTried = 256

// wasTried reports whether a recipient was held or refused lately.
func (h *history) wasTried(key uint64) bool { return slices.Contains(h.tried, uint32(key>>32)) }

// try notes that a recipient was held or refused. Copies of a state share what was noted before.
func (h *history) try(key uint64) {
	if h.wasTried(key) {
		return
	}
	from := max(0, len(h.tried)-maxTried+1)
	h.tried = append(slices.Clip(h.tried[from:]), uint32(key>>32))
}

// A scale weighs recipients of a message against the history.
type scale struct {
	*history
	sure  bool     // a recipient in no set is new
	count Counting // by the sketch, where that was asked for
}

func (h *history) scale(r *Rules, now int64) scale {
	s := scale{history: h, count: r.o.Count}
	switch {
	case h.filter != nil && h.filterBy.complete(now, h.filter.Count):
		s.sure = !h.filter.isFull()
	case h.known != nil && !h.missing && h.knownBy.complete(now, func() float64 { return float64(h.known.Len()) }):
		s.sure = h.known.Len() < MaxKnown
	default:
		s.sure = h.sketch == nil
	}
	if h.sketch == nil || h.late || r.o.Structure == Bloom {
		s.count = InverseProbability
	}
	return s
}

// blur is how much more than one recipient a change of the sketch stands for, where it is the sketch that counts.
func (s *scale) blur() float64 {
	if s.sketch == nil || s.sketch.Exact() || s.count == Changes || s.sure && s.count == InverseProbability {
		return 0
	}
	return hashes/float64(max(s.sketch.chances, 1)) - 1
}

// weigh says whether a recipient is in the set of known ones, whether it seems new, and how much it counts.
func (s *scale) weigh(key uint64) (known, fresh bool, weight float64) {
	if s.known != nil && s.known.Has(key) {
		return true, false, 0
	}
	if s.filter != nil && s.filter.Has(key) {
		return false, false, 0
	}
	if s.sure && s.count == InverseProbability {
		return false, true, 1
	}
	if s.sketch == nil {
		return false, true, 0 // the filter is full: it is not known
	}
	weight = s.sketch.Weigh(key)
	fresh = s.sure || weight > 0
	if s.count == Changes {
		weight = min(weight, 1)
	}
	return false, fresh, weight
}

// merge takes over what another node knows of the same user. On an error what could be merged is.
func (h *history) merge(o *history, now int64) error {
	if h.missing || o.missing {
		return ErrNoKnown
	}
	lackHere, lackThere := h.gap(now), o.gap(now) // of a set that only the other side has
	here, there := lackHere.gap > 0, lackThere.gap > 0
	var err error
	switch {
	case o.sketch == nil:
		h.late = h.late || there
	case h.sketch == nil:
		h.sketch, h.late = o.sketch.Clone(), o.late || here
	default:
		err = h.sketch.Merge(o.sketch)
		h.late = h.late || o.late
	}
	return errors.Join(err, h.mergeKnown(o, lackHere, lackThere), h.mergeFilter(o, lackHere, lackThere))
}

func (h *history) mergeKnown(o *history, lackHere, lackThere begun) error {
	if h.known == nil && o.known == nil {
		return nil
	}
	size := func(k *Known) float64 { return float64(k.Len()) }
	err := mergeSet(&h.known, o.known, &h.knownBy, o.knownBy, lackHere, lackThere, (*Known).Merge, size)
	h.settled = h.settled || err == nil && h.known.Generation() > 0
	return err
}

func (h *history) mergeFilter(o *history, lackHere, lackThere begun) error {
	if h.filter == nil && o.filter == nil {
		return nil
	}
	err := mergeSet(&h.filter, o.filter, &h.filterBy, o.filterBy, lackHere, lackThere, (*Filter).Merge, (*Filter).Count)
	if err == nil {
		h.filtered, h.settled, h.unstored = true, true, true
	}
	return err
}

// mergeSet merges a set with another node's. Where one side has none, it lacks what that side counted without it.
func mergeSet[T any](set **T, other *T, by *begun, otherBy, lackHere, lackThere begun, merge func(*T, *T) error,
	size func(*T) float64) error {
	var lack begun
	if *set == nil {
		*set, lack = new(T), lackHere
	}
	if other == nil {
		lack = lackThere
	} else {
		by.merge(otherBy)
		if err := merge(*set, other); err != nil {
			return err
		}
	}
	if lack.gap > 0 {
		by.merge(begun{gap: lack.gap + uint32(size(*set)), at: lack.at})
	}
	return nil
}

// merge takes the one that lacks more.
func (b *begun) merge(o begun) {
	if o.gap > b.gap {
		*b = o
	}
}

func (h *history) bytes() int {
	n := int(unsafe.Sizeof(*h)) + 4*len(h.tried)
	if h.sketch != nil {
		n += h.sketch.Bytes()
	}
	if h.known != nil {
		n += h.known.Bytes()
	}
	if h.filter != nil {
		n += h.filter.Bytes()
	}
	return n
}
