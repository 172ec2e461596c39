package bloom

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// A Table is one structure of limiters. It is safe for concurrent use and takes no locks. Time is given as the time since the
// table was made; it need not be in order.
type Table struct {
	shape    Shape
	key      Key
	words    []uint64 // eight to a line
	capacity uint64
	lines    uint64

	// latest is the highest time unit that anybody has brought. Whoever refills goes by it, after reading the line: so no line
	// is ever seen with a counter in the future, however late a goroutine comes with its time.
	latest atomic.Uint64

	sweeping sync.Mutex
	swept    atomic.Uint64 // the unit of the last sweep: no line is older
}

// A Place is where a limiter is: the line times 32, plus the lane.
type Place uint32

// NewTable returns a table of full limiters in memory of its own.
func NewTable(s Shape, k Key) *Table { return Overlay(s, k, make([]uint64, s.Lines*lineWords)) }

// Overlay returns a table in the memory given: eight words to a line, in the order of the lines, aligned to 64 bytes. Zeroes are
// full limiters.
func Overlay(s Shape, k Key, words []uint64) *Table {
	return &Table{shape: s, key: k, words: words[:s.Lines*lineWords], capacity: uint64(s.Capacity), lines: uint64(s.Lines)}
}

// Shape returns the figures of the table.
func (t *Table) Shape() Shape { return t.shape }

// Take asks for tokens for a network and reports whether they were granted, and from which limiter. It takes nothing otherwise.
// Only when no limiter has them does it look at the time.
func (t *Table) Take(n Network, tokens int64, now time.Duration) (Place, bool) {
	if uint64(tokens) > t.capacity {
		return 0, false
	}
	h := t.key.Hash(n)
	first := t.place(h)
	if t.spend(first, uint64(tokens)) {
		return first, true
	}
	return t.takeOther(h, first, uint64(tokens), now)
}

// takeFirst is Take as far as the first limiter of a network.
func (t *Table) takeFirst(n Network, tokens int64) (Place, bool) {
	p := t.place(t.key.Hash(n))
	return p, uint64(tokens) <= t.capacity && t.spend(p, uint64(tokens))
}

// takeOther goes on when the first limiter is empty.
func (t *Table) takeOther(h uint64, first Place, tokens uint64, now time.Duration) (Place, bool) {
	var places [MaxK]Place
	places[0] = first
	k := min(t.shape.K, MaxK)
	for i := 1; i < k; i++ {
		places[i] = t.another(h, i, &places)
		if t.spend(places[i], tokens) {
			return places[i], true
		}
	}
	t.refill(places[:k], now)
	for _, p := range places[:k] {
		if t.spend(p, tokens) {
			return p, true
		}
	}
	return 0, false
}

// Charge takes tokens from all limiters of a network, whether they have them or not, and returns how many they owe after it. What
// they owe is paid by what comes in; until then they grant nothing. A limiter owes at most what 16 bits can hold.
func (t *Table) Charge(n Network, tokens int64, now time.Duration) (owed int64) {
	var room [MaxK]Place
	places := t.places(t.key.Hash(n), &room)
	tokens -= t.spendWhatIsThere(places, tokens)
	if tokens > 0 || t.owed(places) > 0 {
		t.refill(places, now)
		tokens -= t.spendWhatIsThere(places, tokens)
	}
	for i, p := range places {
		tokens -= t.spendUpTo(p, tokens/int64(len(places)-i), MaxTokens)
	}
	return t.owed(places)
}

func (t *Table) spendWhatIsThere(places []Place, tokens int64) (spent int64) {
	for _, p := range places {
		spent += t.spendUpTo(p, tokens-spent, int64(t.capacity))
	}
	return spent
}

// owed is how much was charged beyond the tokens.
func (t *Table) owed(places []Place) (n int64) {
	for _, p := range places {
		n += max(0, int64(atomic.LoadUint64(&t.words[p/4])>>(p%4*laneBits)&MaxTokens)-int64(t.capacity))
	}
	return n
}

// Room returns how many tokens a network could take now, and takes none.
func (t *Table) Room(n Network, now time.Duration) (all, largest int64) {
	var room [MaxK]Place
	unit := max(t.unit(now), t.latest.Load())
	for _, p := range t.places(t.key.Hash(n), &room) {
		spent := atomic.LoadUint64(&t.words[p/4]) >> (p % 4 * laneBits) & MaxTokens
		due := t.due(uint64(uint16(unit) - t.stamp(p/32)))
		free := max(0, int64(t.capacity)-int64(spent-min(spent, due)))
		all, largest = all+free, max(largest, free)
	}
	return all, largest
}

// Give returns tokens to the limiter that they came from.
func (t *Table) Give(p Place, tokens int64) {
	word, shift := &t.words[p/4], p%4*laneBits
	for {
		old := atomic.LoadUint64(word)
		back := min(uint64(tokens), old>>shift&MaxTokens) // a refill may have been quicker
		if back == 0 || atomic.CompareAndSwapUint64(word, old, old-back<<shift) {
			return
		}
	}
}

// place is where the first limiter is. The two halves of the hash choose line and lane.
func (t *Table) place(x uint64) Place {
	line := uint64(uint32(x)) * t.lines >> 32
	lane := x >> 32 * Lanes >> 32
	return Place(line<<5 | lane)
}

// another is where limiter i > 0 is. One keyed hash is enough: what is made of it here is as unpredictable as it is. Two limiters
// of one source are never the same.
func (t *Table) another(h uint64, i int, places *[MaxK]Place) Place {
	x := h + uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	p := t.place(x ^ x>>31)
	for j := 0; j < i; j++ {
		if places[j] == p {
			if p++; p&31 == timeLane {
				p -= Lanes
			}
			j = -1 // it may have come upon one of those before
		}
	}
	return p
}

func (t *Table) places(h uint64, room *[MaxK]Place) []Place {
	k := min(t.shape.K, MaxK)
	room[0] = t.place(h)
	for i := 1; i < k; i++ {
		room[i] = t.another(h, i, room)
	}
	return room[:k]
}

// spend takes tokens from one limiter if it has them.
func (t *Table) spend(p Place, tokens uint64) bool {
	word, shift := &t.words[p/4], p%4*laneBits
	for {
		old := atomic.LoadUint64(word)
		if old>>shift&MaxTokens+tokens > t.capacity {
			return false
		}
		if atomic.CompareAndSwapUint64(word, old, old+tokens<<shift) {
			return true
		}
	}
}

// spendUpTo takes at most so many tokens from one limiter, as long as no more than most are spent, and returns how many.
func (t *Table) spendUpTo(p Place, tokens, most int64) int64 {
	word, shift := &t.words[p/4], p%4*laneBits
	for {
		old := atomic.LoadUint64(word)
		take := min(tokens, most-int64(old>>shift&MaxTokens))
		if take <= 0 {
			return 0
		}
		if atomic.CompareAndSwapUint64(word, old, old+uint64(take)<<shift) {
			return take
		}
	}
}

// unit is the time unit of a time.
func (t *Table) unit(now time.Duration) uint64 { return uint64(max(now, 0)) / uint64(t.shape.Unit) }

// reach makes unit the latest one, unless a later one is known.
func (t *Table) reach(unit uint64) {
	for {
		old := t.latest.Load()
		if old >= unit || t.latest.CompareAndSwap(old, unit) {
			return
		}
	}
}

// refill fills every line of the places that is due.
func (t *Table) refill(places []Place, now time.Duration) {
	unit := t.unit(now)
	t.reach(unit)
	if unit > t.swept.Load()+window*3/4 && t.sweeping.TryLock() {
		// Nobody sweeps this table; before its counters begin anew, somebody has to.
		t.sweep(now)
		t.sweeping.Unlock()
	}
	for _, p := range places {
		t.refillLine(p / 32)
	}
}

// stamp is the time counter of a line.
func (t *Table) stamp(line Place) uint16 {
	return uint16(atomic.LoadUint64(&t.words[line*lineWords+lineWords-1]) >> timeShift)
}

// due is how many tokens each limiter is owed after so many units.
func (t *Table) due(units uint64) uint64 { return min(units*uint64(t.shape.PerUnit), MaxTokens) }

// refillLine gives every limiter of a line what it is owed, if any time unit has passed. The time counter is claimed first, in one
// step with the three limiters that share its word: of several who try, one refills.
func (t *Table) refillLine(line Place) {
	words := t.line(line)
	for {
		last := atomic.LoadUint64(&words[lineWords-1])
		unit := t.latest.Load() // after the line, so that it is not behind it
		passed := uint16(unit) - uint16(last>>timeShift)
		if passed == 0 {
			return
		}
		due := t.due(uint64(passed))
		if claim(words, last, unit, due) {
			fillRest(words, due)
			return
		}
	}
}

func (t *Table) line(line Place) *[lineWords]uint64 {
	return (*[lineWords]uint64)(t.words[line*lineWords:])
}

// claim sets the time counter of a line, and refills the limiters in the same word.
func claim(words *[lineWords]uint64, last, unit, due uint64) bool {
	return atomic.CompareAndSwapUint64(&words[lineWords-1], last, fill(last&^(MaxTokens<<timeShift), due)|unit<<timeShift)
}

// fillRest refills the limiters in the other words of a line.
func fillRest(words *[lineWords]uint64, due uint64) {
	for i := range lineWords - 1 {
		for {
			old := atomic.LoadUint64(&words[i])
			if old == 0 {
				break // full, as most are
			}
			next := fill(old, due)
			if next == old || atomic.CompareAndSwapUint64(&words[i], old, next) {
				break
			}
		}
	}
}

// Sweep refills every line and returns how many limiters are kept empty. It keeps the time of idle lines from counting on top
// of a full burst, and from being forgotten when the time counters begin anew. See Shape.SweepEvery.
func (t *Table) Sweep(now time.Duration) (empty int64) {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	return t.sweep(now)
}

// Resume says that the table was in use before, under another's care: how long ago it was swept is not known.
func (t *Table) Resume(now time.Duration) {
	if unit := t.unit(now); unit > window/2 {
		t.swept.Store(unit - window/2)
	}
}

// sweep is Sweep; t.sweeping is held.
func (t *Table) sweep(now time.Duration) (empty int64) {
	unit, swept := t.unit(now), t.swept.Load()
	if unit < swept {
		unit = swept // a sweep that comes with an older time only counts
	}
	t.reach(unit)
	// A line was refilled after the last sweep or is as old as that one; what seems older is newer than this one.
	oldest := unit - swept
	for line := range Place(t.lines) {
		words := t.line(line)
		found := int64(-1)
		for {
			last := atomic.LoadUint64(&words[lineWords-1])
			passed := uint64(uint16(unit) - uint16(last>>timeShift))
			due := t.due(passed)
			if oldest >= window {
				// The counters have begun anew since. All but those of this moment are full by now.
				due = MaxTokens
			}
			if newer := passed > min(oldest, window-1-recent); newer || passed == 0 && oldest < window {
				break
			}
			if passed <= 1 {
				// Refilled in this unit or the last: what is empty now is kept so by somebody. The tokens of a unit that has
				// just begun say nothing about that.
				found = t.emptyIn(words)
			}
			if claim(words, last, unit, due) {
				fillRest(words, due)
				break
			}
		}
		if found < 0 {
			found = t.emptyIn(words)
		}
		empty += found
	}
	t.swept.Store(unit)
	return empty
}

// recent is how many units a line may be ahead of a sweep that comes after the counters have begun anew.
const recent = 256

// emptyIn counts the limiters of a line that have no token left.
func (t *Table) emptyIn(words *[lineWords]uint64) (n int64) {
	for i := range words {
		word := atomic.LoadUint64(&words[i])
		if i == lineWords-1 {
			word &^= MaxTokens << timeShift // the time counter is no limiter
		}
		if word == 0 {
			continue
		}
		// What is left of a lane after all but one of its tokens have come back.
		x := fill(word, t.capacity-1)
		const low = everyLane * 0x7fff
		n += int64(bits.OnesCount64(((x&low + low) | x) &^ low))
	}
	return n
}

// fill takes due from each of the four lanes of a word, down to zero: four saturating subtractions in one. The top bit of each lane
// is set beforehand, so that no lane borrows from the next; it tells afterwards whether the lower bits had to borrow.
func fill(word, due uint64) uint64 {
	const top = everyLane * 0x8000
	d := due * everyLane
	diff := (word | top) - (d &^ top)
	negative := (^word&d | ^(word^d)&^diff) & top
	diff ^= (word ^ ^d) & top
	return diff &^ (negative >> 15 * MaxTokens)
}
