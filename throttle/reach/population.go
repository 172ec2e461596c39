package reach

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A Sample is one window of one user that is over: what a population learns from.
type Sample struct {
	Window Window
	Age    time.Duration // of the account, at the end of the window
	Size   float64       // how many recipients it had, before the window
	New    float64       // new ones in it
}

// A Population is what is usual among the users of a throttle. Most callers want Observe with what Commit returns, and
// give the population to Judge. The zero value has seen nobody. It is safe for concurrent use.
type Population struct {
	mu      sync.Mutex
	since   int64 // seconds: the first sample; 0 where there is none
	cohorts [len(Windows)][cohorts]histogram
	seen    atomic.Uint64 // samples taken in since the process began
	usual   atomic.Pointer[usual]
}

// Cohorts are users of about the same age and size.
const (
	ageGroups  = 3
	sizeGroups = 5
	cohorts    = ageGroups * sizeGroups
)

var (
	ageUpTo   = [ageGroups - 1]time.Duration{30 * 24 * time.Hour, 365 * 24 * time.Hour}
	ageNames  = [ageGroups]string{"up to 30 days", "up to a year", "over a year"}
	sizeBelow = [sizeGroups - 1]float64{32, 256, 2_048, 16_384}
	sizeNames = [sizeGroups]string{"under 32", "under 256", "under 2048", "under 16384", "16384 or more"}
)

// cohort numbers the cohort of an age and a size.
func cohort(age time.Duration, size float64) int {
	a, s := 0, 0
	for a < len(ageUpTo) && age > ageUpTo[a] {
		a++
	}
	for s < len(sizeBelow) && size >= sizeBelow[s] {
		s++
	}
	return a*sizeGroups + s
}

const (
	enough      = 100     // samples of a cohort are enough to judge by
	maxSamples  = 100_000 // of a cohort: then all count for half, so that older ones fade
	perSample   = 1 << 4  // so that halves can be counted
	buckets     = 98      // none, and up to 2^24 by four for each doubling
	perDoubling = 4
)

// A histogram is how many new recipients the windows of a cohort had.
type histogram struct {
	samples uint32  // in parts of perSample
	sum     float64 // of the new recipients
	counts  [buckets]uint32
}

func bucket(n float64) int {
	if !(n >= 1) {
		return 0
	}
	return int(min(1+math.Ceil(perDoubling*math.Log2(n)-1e-9), buckets-1))
}

func upper(bucket int) float64 {
	if bucket == 0 {
		return 0
	}
	return math.Exp2(float64(bucket-1) / perDoubling)
}

func (h *histogram) add(n float64) {
	n = min(max(n, 0), upper(buckets-1))
	if h.samples >= maxSamples*perSample {
		h.samples, h.sum = 0, h.sum/2
		for i := range h.counts {
			h.counts[i] /= 2
			h.samples += h.counts[i]
		}
	}
	h.samples += perSample
	h.sum += n
	h.counts[bucket(n)] += perSample
}

func (h *histogram) merge(o *histogram) {
	h.samples += o.samples
	h.sum += o.sum
	for i, n := range o.counts {
		h.counts[i] += n
	}
}

// quantile is the number that a share of the samples does not exceed.
func (h *histogram) quantile(share float64) float64 {
	rank, below := share*float64(h.samples), 0.0
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		if below+float64(n) >= rank {
			if i < 2 {
				return upper(i)
			}
			lower := upper(i - 1)
			return lower + (upper(i)-lower)*max(rank-below, 0)/float64(n)
		}
		below += float64(n)
	}
	return upper(buckets - 1)
}

func (h *histogram) mean() float64 {
	if h.samples == 0 {
		return 0
	}
	return h.sum * perSample / float64(h.samples)
}

// usual is what the histograms say, so that Limit need not count them out each time.
type usual struct {
	from     Learning
	quantile float64
	since    int64
	until    uint64 // samples; from then on it is reckoned anew
	ok       [len(Windows)]bool
	of       [len(Windows)][cohorts]float64
}

// Observe learns from windows that are over. Those of flagged users are no examples.
func (p *Population) Observe(now time.Time, samples []Sample) {
	if len(samples) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A clock that was ahead must not make it young for years.
	if at := max(seconds(now), 1); p.since == 0 || at < p.since && (at >= lost || p.since < lost) {
		p.since = at
		p.usual.Store(nil)
	}
	for _, s := range samples {
		if int(s.Window) < len(Windows) && !math.IsNaN(s.New) {
			p.cohorts[s.Window][cohort(s.Age, s.Size)].add(s.New)
		}
	}
	p.seen.Add(uint64(len(samples)))
}

// Limit is how many new recipients in a window are too many for a user of an age and size. It reports false while
// nobody can tell. It allocates nothing most of the time.
func (p *Population) Limit(r *Rules, now time.Time, w Window, age time.Duration, size float64) (limit float64,
	ok bool) {
	if int(w) >= len(Windows) {
		return 0, false
	}
	u := p.reckoned(r)
	if !u.ok[w] || u.since == 0 || seconds(now)-u.since < r.learn {
		return 0, false
	}
	return float64(r.o.Dynamic.Times) * u.of[w][cohort(age, size)], true
}

func (p *Population) reckoned(r *Rules) *usual {
	d := &r.o.Dynamic
	u := p.usual.Load()
	if u != nil && u.from == d.From && u.quantile == float64(d.Quantile) && p.seen.Load() < u.until {
		return u
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u = &usual{from: d.From, quantile: float64(d.Quantile), since: p.since}
	samples := uint64(0)
	for w := range p.cohorts {
		var all histogram
		for c := range p.cohorts[w] {
			all.merge(&p.cohorts[w][c])
		}
		samples += uint64(all.samples / perSample)
		u.ok[w] = all.samples >= enough*perSample
		general := u.reckon(&all)
		for c := range p.cohorts[w] {
			u.of[w][c] = general
			if h := &p.cohorts[w][c]; d.From == FromCohort && h.samples >= enough*perSample {
				u.of[w][c] = u.reckon(h)
			}
		}
	}
	// The first ones change a lot, later ones less and less.
	u.until = p.seen.Load() + max(samples/64, 1)
	p.usual.Store(u)
	return u
}

func (u *usual) reckon(h *histogram) float64 {
	if u.from == FromAverage {
		return h.mean()
	}
	return h.quantile(u.quantile)
}

// A Cohort is what is usual among users of an age and a size, for people to see.
type Cohort struct {
	Window  Window  `json:"window"`
	Age     string  `json:"age"`
	Size    string  `json:"size"`
	Samples int     `json:"samples"`
	Usual   float64 `json:"usual"` // the quantile, or the average
	Limit   float64 `json:"limit"` // for them; 0 while it is not known
}

// Cohorts lists those that have samples.
func (p *Population) Cohorts(r *Rules, now time.Time) []Cohort {
	u := p.reckoned(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Cohort
	for w := range p.cohorts {
		for c := range p.cohorts[w] {
			h := &p.cohorts[w][c]
			if h.samples < perSample {
				continue
			}
			one := Cohort{
				Window: Window(w), Age: ageNames[c/sizeGroups], Size: sizeNames[c%sizeGroups],
				Samples: int(h.samples / perSample), Usual: u.reckon(h),
			}
			if u.ok[w] && seconds(now)-u.since >= r.learn {
				one.Limit = max(float64(r.o.Floor), float64(r.o.Dynamic.Times)*u.of[w][c])
			}
			out = append(out, one)
		}
	}
	return out
}

// populationVersion is the first byte of a population. Then come its beginning, and of each cohort the sum, and the
// buckets that are not empty, each with how many empty ones are before it.
const populationVersion = 1

// AppendBinary appends the population; UnmarshalBinary reads it. It is versioned. There is no error.
func (p *Population) AppendBinary(b []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = append(b, populationVersion)
	b = binary.AppendUvarint(b, uint64(p.since))
	for w := range p.cohorts {
		for c := range p.cohorts[w] {
			b = p.cohorts[w][c].append(b)
		}
	}
	return b, nil
}

func (h *histogram) append(b []byte) []byte {
	full := 0
	for _, n := range h.counts {
		if n > 0 {
			full++
		}
	}
	b = binary.AppendUvarint(b, uint64(full))
	if full == 0 {
		return b
	}
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(h.sum))
	empty := 0
	for _, n := range h.counts {
		if n == 0 {
			empty++
			continue
		}
		b = binary.AppendUvarint(b, uint64(empty))
		b = binary.AppendUvarint(b, uint64(n))
		empty = 0
	}
	return b
}

// UnmarshalBinary reads what AppendBinary wrote: ErrNewer or ErrCorrupt, and the population is as before.
func (p *Population) UnmarshalBinary(b []byte) error {
	r, err := newReader("population", b, populationVersion)
	if err != nil {
		return err
	}
	since := int64(r.Count(maxTime))
	var read [len(Windows)][cohorts]histogram
	for w := range read {
		for c := range read[w] {
			read[w][c].read(r)
		}
	}
	if err := r.end(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.cohorts = since, read
	p.usual.Store(nil)
	return nil
}

func (h *histogram) read(r *reader) {
	full := int(r.Count(buckets))
	if full == 0 {
		return
	}
	h.sum = math.Float64frombits(r.Uint64())
	if !(h.sum >= 0 && h.sum <= 2*maxSamples*upper(buckets-1)) {
		r.Fail()
	}
	for at := 0; full > 0 && !r.Bad; full-- {
		at += int(r.Count(buckets))
		n := uint32(r.Count((maxSamples + 1) * perSample))
		if at >= buckets || n == 0 {
			r.Fail()
			return
		}
		h.counts[at] = n
		h.samples += n
		at++
	}
	if h.samples > (maxSamples+1)*perSample {
		r.Fail()
	}
}
