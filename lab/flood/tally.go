package flood

import (
	"slices"
	"sync"
	"time"
)

type group int

const (
	people  group = iota // with scripts: they pay when they are asked to
	without              // people without scripts: they wait when they are asked to
	flood                // it does neither
	groups
)

// A result is what became of a request for a page.
type result int

const (
	served  result = iota // the page came, and in time
	refused               // answered, but not with the page
	failed                // not answered, or too late
	unsent                // this machine could not send it
	results
)

// A tally counts the results of clients that came before its end. It is safe for concurrent use.
type tally struct {
	warmUp, end time.Duration // those who come in between are counted in the figures

	mu      sync.Mutex
	counts  [groups][results]int64
	took    [groups][]time.Duration // of those who were served
	seconds []second                // from the beginning of the warm-up
	paid    []payment
}

type second struct {
	came   [groups]int64 // in this second
	got    [groups]int64 // of those, how many were served at last
	served [groups]int64 // in this second, whenever they came
}

// A payment is what one stamp cost.
type payment struct {
	work  uint64
	took  time.Duration // here
	phone time.Duration // about so long on a phone
}

func newTally(o Options) *tally {
	end := o.WarmUp + o.For
	return &tally{warmUp: o.WarmUp, end: end, seconds: make([]second, (end+time.Second-1)/time.Second)}
}

// takes reports whether clients that come at a time are counted at all: in the figures, or in the seconds before.
func (t *tally) takes(at time.Duration) bool { return at < t.end }

// add counts a client that should have asked for a page at a time since the beginning, and its result so much later.
func (t *tally) add(g group, at, took time.Duration, r result) {
	if !t.takes(at) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.seconds[at/time.Second]
	s.came[g]++
	if r == served {
		s.got[g]++
		if i := int((at + took) / time.Second); i < len(t.seconds) {
			t.seconds[i].served[g]++
		}
	}
	if at < t.warmUp {
		return
	}
	t.counts[g][r]++
	if r == served {
		t.took[g] = append(t.took[g], took)
	}
}

// pay counts a stamp for a client that came at a time.
func (t *tally) pay(at time.Duration, p payment) {
	if at < t.warmUp || !t.takes(at) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paid = append(t.paid, p)
}

func (t *tally) of(g group) Figures {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.figures(g)
}

// median returns the median time of a group. Clients that were not served count with patience.
func (t *tally) median(g group, patience time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.took[g])
	for _, r := range []result{refused, failed, unsent} {
		all = append(all, slices.Repeat([]time.Duration{patience}, int(t.counts[g][r]))...)
	}
	return quantile(all, 0.5)
}

// quantile returns the value below which the share q of all lies, or 0 when there are none. It sorts them.
func quantile[T int64 | uint64 | time.Duration](all []T, q float64) T {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
