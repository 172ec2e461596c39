package reach

import (
	"fmt"
	"math"
	"time"

	"weir"
)

// A meter is what a state remembers beside its history: how many were new and when, what is usual for the user, and the
// flag. It is small and without pointers: a message is judged on a copy.
type meter struct {
	ring
	started bool
	since   int64 // seconds: the first message, or a time at which the account was there before
	pending uint8 // bits: in the current period of a window something was sent

	usual [len(Windows)]uint32 // new recipients in a period in which the user sends something, as in a slot
	seen  [len(Windows)]uint8  // how many periods that is the mean of, up to usualOf

	flag
}

// usualOf is how many periods the usual is the mean of; from then on each counts for 1/usualOf, and older ones fade.
const usualOf = 8

// usualLeast is what may always be learnt as usual: three times that is the default floor.
const usualLeast = DefaultFloor / 3.0

// start notes a message. The first one begins the account.
func (m *meter) start(now int64) {
	if !m.started {
		m.started, m.since = true, now
	}
	m.pending = 1<<len(Windows) - 1
}

// age is how long the account has been known.
func (m *meter) age(now int64) int64 {
	if !m.started {
		return 0
	}
	return max(now-m.since, 0)
}

// pass lets the clock run to now. Periods that end make samples, appended to out; count is the user's recipients.
func (m *meter) pass(now int64, count float64, out *[]Sample) {
	if now < lost && m.at >= lost {
		now = m.at
	}
	if m.pending != 0 && now > m.at {
		from, to := gridOf(m.at), gridOf(now)
		for _, w := range Windows {
			period, into := from.period(w)
			if next, _ := to.period(w); m.pending&(1<<w) != 0 && next != period {
				m.pending &^= 1 << w
				m.end(w, into, count, out)
			}
		}
	}
	m.move(now)
	// A clock that was ahead leaves nothing that begins in the future.
	m.since, m.flagSince = min(m.since, m.at), min(m.flagSince, m.at)
	m.ended, m.sentSince = min(m.ended, m.at), min(m.sentSince, m.at)
}

// end makes a sample of the period that the clock is in, which is over. into is how many of its slots were over before.
func (m *meter) end(w Window, into int64, count float64, out *[]Sample) {
	s := w.shape()
	begin := m.at - m.at%s.slot - into*s.slot
	if m.flagged || m.ended > begin {
		return // nothing of what a flagged user does is usual
	}
	fresh := m.latest(w, into+1)
	m.learn(w, fresh)
	if out != nil {
		*out = append(*out, Sample{
			Window: w, Age: time.Duration(m.age(begin+s.length)) * time.Second, Size: max(count-fresh, 0), New: fresh,
		})
	}
}

// learn takes a period into the usual, by the geometric mean, to which one import of a list is little. Once it is known
// what is usual, a period counts for a quarter more than that at most, or for a third of the least that a floor may be:
// so nobody is led to take a thief for usual who takes a little more each day.
func (m *meter) learn(w Window, fresh float64) {
	usual := float64(m.usual[w]) / fraction
	if m.seen[w] >= usualOf {
		fresh = min(fresh, max(1.25*usual, usualLeast))
	}
	m.seen[w] = min(m.seen[w]+1, usualOf)
	usual = math.Expm1(math.Log1p(usual) + (math.Log1p(fresh)-math.Log1p(usual))/float64(m.seen[w]))
	m.usual[w] = uint32(min(usual*fraction+0.5, math.MaxUint32))
}

// A flag is what holds for a user over the threshold.
type flag struct {
	flagged   bool
	operator  bool  // somebody set it, and only somebody ends it
	flagSince int64 // seconds
	by        Figure
	ended     int64 // when the last one ended
	sentSince int64 // when the period of the limit began
	sent      int   // messages that passed in it, also before the flag: only where a limit is what holds
	before    int   // messages in the period before it, where no flag held then
}

// maxSent is how far messages are counted. A limit is lower.
const maxSent = 1 << 30

func (f *flag) raise(now int64, by Figure) {
	f.flagged, f.operator, f.flagSince, f.by = true, false, now, by
}

// lower ends a flag. What was sent stays: the next flag may come soon.
func (f *flag) lower(now int64) {
	*f = flag{ended: now, sentSince: f.sentSince, sent: f.sent, before: f.before}
}

// spent reports whether a user has sent as many messages as a flagged user may, and lets the period of the limit pass.
// Before the flag, the previous period counts too: else a user flagged at the end of a period could send again at once.
func (f *flag) spent(r *Rules, now int64) bool {
	switch past := now - f.sentSince; {
	case past < r.per:
	case past < 2*r.per && !f.flagged:
		f.sentSince, f.sent, f.before = f.sentSince+r.per, 0, f.sent
	default:
		f.sentSince, f.sent, f.before = now, 0, 0
	}
	return int64(f.sent+f.before) >= r.o.Limit.Count
}

// over reports whether a flag has held as long as it must, and the rate has fallen in every window.
func (m *meter) over(r *Rules, figures []Figure) bool {
	if !m.flagged || m.operator || m.at-m.flagSince < r.hold {
		return false
	}
	for _, f := range figures {
		if f.New >= r.until*f.Limit {
			return false
		}
	}
	return true
}

// fraction is one recipient in a slot: an inverse probability is no whole number.
const fraction = 1 << 8

// A ring counts new recipients in slots of all windows, the latest first, each window and the one before it.
type ring struct {
	at    int64 // seconds: the time of the latest slots
	slots [ringSlots]uint32
}

// maxTime is the latest time that is kept.
const maxTime = math.MaxInt32 << 8

func seconds(t time.Time) int64 { return min(max(t.Unix(), 0), maxTime) }

// lost is a time before which a clock is not believed: machines without a battery begin there. Time then stands still.
const lost = 50 * 365 * secDay

func instant(at int64) time.Time { return time.Unix(at, 0).UTC() }

// maxBack is how far a clock may run backwards before it is believed. Until then the slots stay where they are.
const maxBack = secHour

// move lets the clock run to now. A clock that ran far ahead and came back leaves everything as just counted.
func (g *ring) move(now int64) {
	if now <= g.at {
		if g.at-now > maxBack {
			g.at = now
		}
		return
	}
	from, to := gridOf(g.at), gridOf(now)
	g.at = now
	for i := range shapes {
		by := to[i] - from[i]
		if by == 0 {
			continue
		}
		slots := g.of(i)
		if by >= int64(len(slots)) {
			clear(slots)
			continue
		}
		copy(slots[by:], slots)
		clear(slots[:by])
	}
}

// of are the slots of a window and the one before it.
func (g *ring) of(i int) []uint32 { return g.slots[shapes[i].from : shapes[i].from+2*shapes[i].slots] }

// forget clears the windows before the current ones: what a flagged user tried there is not usual.
func (g *ring) forget() {
	for i := range shapes {
		clear(g.of(i)[shapes[i].slots:])
	}
}

func (g *ring) add(n float64) {
	units := uint64(min(n, math.MaxUint32/fraction)*fraction + 0.5)
	for i := range shapes {
		slot := &g.slots[shapes[i].from]
		*slot = uint32(min(uint64(*slot)+units, math.MaxUint32))
	}
}

// sum is how many were counted in a window, previous in the one before it, and latest in its latest slots.
func (g *ring) sum(w Window) float64      { return total(g.of(int(w))[:w.shape().slots]) }
func (g *ring) previous(w Window) float64 { return total(g.of(int(w))[w.shape().slots:]) }

func (g *ring) latest(w Window, slots int64) float64 { return total(g.of(int(w))[:slots]) }

func total(slots []uint32) float64 {
	sum := uint64(0)
	for _, n := range slots {
		sum += uint64(n)
	}
	return float64(sum) / fraction
}

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
