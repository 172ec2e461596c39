package bloom

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// A Table is one structure of limiters. It is safe for concurrent use, without locks. Times are since it was made.
type Table struct {
	shape    Shape
	key      Key
	words    []uint64 // eight to a line
	lanes             // of each line
	capacity uint64
	perUnit  uint64
	most     uint64 // of Shape.Most
	lines    uint64
	perTime  divisor // by the time unit

	// used says that the table was asked since it was last tended.
	used atomic.Bool

	// latest is the highest time unit that any caller has brought. Refills go by it, after reading the line, so that no
	// line is ever seen with a counter in the future, however late a goroutine comes with its time.
	latest atomic.Uint64

	sweeping sync.Mutex
	swept    atomic.Uint64 // the unit of the last sweep: no line is older
	lastUse  uint64        // the unit in which the table was last found used
	atRest   bool          // all limiters are full, and the table was not asked since
	sampled  uint64        // which lines were looked at last
}

// A Slot is the byte of the table that a limiter begins with.
type Slot uint64

// lanes say how the words of a line are divided into limiters.
type lanes struct {
	bits  uint64 // of a limiter
	mask  uint64 // what a limiter can count to
	every uint64 // a 1 for each limiter of a word
	count uint64 // limiters of a line
}

func lanesOf(bits int) lanes {
	mask := uint64(1)<<bits - 1
	return lanes{uint64(bits), mask, ^uint64(0) / mask, timeAt / uint64(bits)}
}

// A Taken says where tokens came from: the hash of the network, and the limiter of the last one, 1 to k; 0 for none.
type Taken struct {
	Hash uint64
	Last uint8
}

// NewTable returns a table of full limiters in memory of its own.
func NewTable(s Shape, k Key) *Table {
	t := Overlay(s, k, make([]uint64, s.Lines*lineWords))
	t.atRest = true
	return t
}

// Empty takes everything from every limiter of a table that is not in use yet.
func (t *Table) Empty() {
	word := uint64(t.shape.empty()) * t.every
	for i := range t.words {
		t.words[i] = word
		if i%lineWords == lineWords-1 {
			t.words[i] &^= timeMask << timeShift
		}
	}
	t.used.Store(true)
}

// Overlay returns a table in the memory given: eight words to a line, aligned to 64 bytes. Zeroes are full limiters.
func Overlay(s Shape, k Key, words []uint64) *Table {
	return &Table{shape: s, key: k, words: words[:s.Lines*lineWords], lanes: lanesOf(s.Bits),
		capacity: uint64(s.Capacity), perUnit: uint64(s.PerUnit), most: uint64(s.Most()), lines: uint64(s.Lines),
		perTime: divisorOf(uint64(s.Unit))}
}

// Shape returns the figures of the table.
func (t *Table) Shape() Shape { return t.shape }

// Take asks for tokens for a network and reports whether they were granted, and where from. It takes nothing otherwise.
// The limiters of a network are used in order; a cost may come from several of them.
func (t *Table) Take(n Network, tokens int64, now time.Duration) (Taken, bool) {
	from, _ := t.take(n, tokens, now)
	return from, from.Last > 0
}

// take is Take. If there was too little, it also returns how much there was.
func (t *Table) take(n Network, tokens int64, now time.Duration) (Taken, balance) {
	h := t.key.Hash(n)
	if t.takeFirst(h, uint64(tokens), t.unit(now)) {
		return Taken{h, 1}, balance{}
	}
	last, was := t.takeOther(h, tokens, now, false)
	return Taken{h, last}, was
}

// Drain is Take for a table that does not decide: what is too little for the tokens is also taken. It returns the
// number of the limiter that gave the last of the tokens, or 0 and how many all of them had.
func (t *Table) Drain(n Network, tokens int64, now time.Duration) (last uint8, had int64) {
	h := t.key.Hash(n)
	if t.takeFirst(h, uint64(tokens), t.unit(now)) {
		return 1, 0
	}
	last, was := t.takeOther(h, tokens, now, true)
	return last, was.left
}

// giveBack is Give for a network, with the number of the limiter in four bits.
func (t *Table) giveBack(n Network, last uint32, tokens int64, now time.Duration) {
	t.Give(Taken{t.key.Hash(n), uint8(last & 15)}, tokens, now)
}

// takeFirst takes from the first limiter of a network if it has the tokens. It touches one line and writes one word.
func (t *Table) takeFirst(h, tokens, unit uint64) bool {
	if !t.used.Load() {
		t.used.Store(true)
	}
	p := t.slot(h)
	word, shift := &t.words[p/8], p%8*8
	for {
		old := atomic.LoadUint64(word)
		// If the time is behind the line's, due is more than a limiter can count to.
		due := uint64(uint16(unit)-t.stamp(p/LineBytes)) * t.perUnit
		spent := old >> shift & t.mask
		next := max(spent, due) + tokens
		if next > due+t.capacity || next > t.most {
			return false
		}
		if atomic.CompareAndSwapUint64(word, old, old+(next-spent)<<shift) {
			return true
		}
	}
}

// takeOther goes on when the first limiter has too little, or its line has to be filled. It returns the number of the
// limiter that gave the last of the tokens, or 0 and what there was.
func (t *Table) takeOther(h uint64, tokens int64, now time.Duration, drain bool) (last uint8, was balance) {
	var array [MaxK]Slot
	slots := t.slots(h, &array)
	t.refill(slots, now, t.most-uint64(t.shape.Share))
	return t.spendFrom(slots, tokens, drain)
}

// needed is what limiters must have to grant tokens. More than they hold is granted when they are full, and owed.
func (t *Table) needed(tokens int64) int64 { return min(tokens, int64(t.capacity)*int64(t.shape.K)) }

// spent is what was taken from a limiter and has not come back.
func (t *Table) spent(p Slot) uint64 {
	spent, due := t.look(p, atomic.LoadUint64(&t.words[p/8]))
	return spent - min(spent, due)
}

// look returns what is written of a limiter in its word, and what has come due since its line was filled. The line's
// counter is read after the word: if the line is filled in between, the word has changed. It is read before the time.
func (t *Table) look(p Slot, word uint64) (spent, due uint64) {
	stamp := t.stamp(p / LineBytes)
	return word >> (p % 8 * 8) & t.mask, t.due(uint64(uint16(t.latest.Load()) - stamp))
}

// A balance is what the limiters of a network have together, and what the most indebted one owes.
type balance struct{ left, owed int64 }

func (t *Table) add(b *balance, spent uint64) {
	left := int64(t.capacity) - int64(spent)
	b.left, b.owed = b.left+max(0, left), max(b.owed, -left)
}

// spendFrom takes tokens from the limiters in order and returns the number of the last one, from 1. If they have too
// little it takes nothing and returns 0, and what they have; to drain it takes that, and returns what it took.
func (t *Table) spendFrom(slots []Slot, tokens int64, drain bool) (last uint8, was balance) {
	most, needed := int64(t.capacity), t.needed(tokens)
	if needed < tokens {
		most = int64(t.shape.Share)
	}
	for _, p := range slots {
		t.add(&was, t.spent(p))
	}
	if was.left < needed && !drain {
		return 0, was
	}
	var taken [MaxK]int64
	for i, p := range slots {
		taken[i] = t.spendUpTo(p, tokens, most)
		if tokens -= taken[i]; tokens == 0 {
			return uint8(i + 1), was
		}
	}
	was.left = 0
	for i, p := range slots {
		was.left += taken[i]
		if !drain { // another goroutine was quicker
			t.giveUpTo(p, taken[i])
		}
	}
	return 0, was
}

// Charge takes tokens from all limiters of a network, whether they have them or not, and returns how many they owe.
// Until that is paid by what comes in, they grant nothing. A limiter owes at most what its bits can hold.
func (t *Table) Charge(n Network, tokens int64, now time.Duration) (owed int64) {
	var array [MaxK]Slot
	slots := t.slots(t.key.Hash(n), &array)
	t.used.Store(true)
	t.refill(slots, now, 0) // so that they have all their bits to owe with
	tokens -= t.spendWhatIsThere(slots, tokens)
	for i, p := range slots {
		tokens -= t.spendUpTo(p, tokens/int64(len(slots)-i), int64(t.mask))
	}
	return t.owed(slots)
}

func (t *Table) spendWhatIsThere(slots []Slot, tokens int64) (spent int64) {
	for _, p := range slots {
		spent += t.spendUpTo(p, tokens-spent, int64(t.capacity))
	}
	return spent
}

// owed is how much was charged beyond the tokens.
func (t *Table) owed(slots []Slot) (n int64) {
	for _, p := range slots {
		n += max(0, int64(t.spent(p))-int64(t.capacity))
	}
	return n
}

// Available returns how many tokens a network could take now, in parts, and what its most indebted limiter owes.
func (t *Table) Available(n Network, now time.Duration) (all, owed int64) {
	var array [MaxK]Slot
	var b balance
	t.reach(t.unit(now))
	for _, p := range t.slots(t.key.Hash(n), &array) {
		t.add(&b, t.spent(p))
	}
	return b.left, b.owed
}

// Give returns tokens to the limiters that they came from, the last one first. What came back by itself is not given.
func (t *Table) Give(from Taken, tokens int64, now time.Duration) {
	var array [MaxK]Slot
	slots := t.slots(from.Hash, &array)
	t.reach(t.unit(now))
	for i := min(int(from.Last), len(slots)) - 1; i >= 0 && tokens > 0; i-- {
		tokens -= t.giveUpTo(slots[i], tokens)
	}
}

func (t *Table) giveUpTo(p Slot, tokens int64) int64 {
	word, shift := &t.words[p/8], p%8*8
	for {
		old := atomic.LoadUint64(word)
		spent, due := t.look(p, old)
		back := min(uint64(tokens), spent-min(spent, due))
		if back == 0 || atomic.CompareAndSwapUint64(word, old, old-back<<shift) {
			return int64(back)
		}
	}
}

// slot is where the first limiter is. The two halves of the hash choose line and lane.
func (t *Table) slot(x uint64) Slot {
	line := uint64(uint32(x)) * t.lines >> 32
	lane := x >> 32 * t.count >> 32
	return Slot(line*LineBytes + lane*t.bits/8)
}

// another is where limiter i > 0 is. One keyed hash is enough to be unpredictable. Limiters of one source differ.
func (t *Table) another(h uint64, i int, slots *[MaxK]Slot) Slot {
	x := h + uint64(i)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	p := t.slot(x ^ x>>31)
	for j := 0; j < i; j++ {
		if slots[j] == p {
			if p += Slot(t.bits / 8); p%LineBytes == timeAt/8 {
				p -= timeAt / 8
			}
			j = -1 // it may have come upon one of those before
		}
	}
	return p
}

func (t *Table) slots(h uint64, array *[MaxK]Slot) []Slot {
	k := min(t.shape.K, MaxK)
	array[0] = t.slot(h)
	for i := 1; i < k; i++ {
		array[i] = t.another(h, i, array)
	}
	return array[:k]
}

// spendUpTo takes at most so many tokens from one limiter, as long as no more than most are spent, and returns how
// many. What is due was there, too: a limiter that is full counts from there.
func (t *Table) spendUpTo(p Slot, tokens, most int64) int64 {
	word, shift := &t.words[p/8], p%8*8
	for {
		old := atomic.LoadUint64(word)
		spent, due := t.look(p, old)
		from := max(spent, due)
		take := min(tokens, int64(min(due+uint64(most), t.mask))-int64(from))
		if take <= 0 {
			return 0
		}
		if atomic.CompareAndSwapUint64(word, old, old+(from+uint64(take)-spent)<<shift) {
			return take
		}
	}
}

func (t *Table) unit(now time.Duration) uint64 { return t.perTime.of(uint64(max(now, 0))) }

// A divisor divides by multiplying, which is quicker.
type divisor struct{ by, inverse uint64 }

func divisorOf(by uint64) divisor { return divisor{by, math.MaxUint64 / by} }

// of is n divided by d. The product is at most one too small.
func (d *divisor) of(n uint64) uint64 {
	q, _ := bits.Mul64(n, d.inverse)
	if n-q*d.by >= d.by {
		q++
	}
	return q
}

// reach makes unit the latest one, unless a later one is known.
func (t *Table) reach(unit uint64) {
	for {
		old := t.latest.Load()
		if old >= unit || t.latest.CompareAndSwap(old, unit) {
			return
		}
	}
}

// refill fills every line of the slots in which more than so many tokens are due to each limiter.
func (t *Table) refill(slots []Slot, now time.Duration, due uint64) {
	unit := t.unit(now)
	t.reach(unit)
	if unit > t.swept.Load()+window*3/4 && t.sweeping.TryLock() {
		// The table is not tended, and must be swept before its counters begin anew.
		t.sweep(now)
		t.sweeping.Unlock()
	}
	for _, p := range slots {
		if _, d := t.look(p, 0); d > due {
			t.refillLine(p / LineBytes)
		}
	}
}

// stamp is the time counter of a line.
func (t *Table) stamp(line Slot) uint16 {
	return uint16(atomic.LoadUint64(&t.words[line*lineWords+lineWords-1]) >> timeShift)
}

// due is how many tokens each limiter is owed after so many units.
func (t *Table) due(units uint64) uint64 { return min(units*t.perUnit, t.mask) }

// refillLine gives every limiter of a line what it is owed, if any time unit has passed. The time counter is claimed
// first, in one step with the limiters that share its word: of several who try, one refills.
func (t *Table) refillLine(line Slot) {
	words := t.line(line)
	for {
		last := atomic.LoadUint64(&words[lineWords-1])
		unit := t.latest.Load() // after the line, so that it is not behind it
		passed := uint16(unit) - uint16(last>>timeShift)
		if passed == 0 {
			return
		}
		due := t.due(uint64(passed))
		if t.claim(words, last, unit, due) {
			t.fillRest(words, due)
			return
		}
	}
}

func (t *Table) line(line Slot) *[lineWords]uint64 {
	return (*[lineWords]uint64)(t.words[line*lineWords:])
}

// claim sets the time counter of a line, and refills the limiters in the same word.
func (t *Table) claim(words *[lineWords]uint64, last, unit, due uint64) bool {
	return atomic.CompareAndSwapUint64(&words[lineWords-1], last,
		t.fill(last&^(timeMask<<timeShift), due)|unit<<timeShift)
}

func (t *Table) fillRest(words *[lineWords]uint64, due uint64) {
	for i := range lineWords - 1 {
		for {
			old := atomic.LoadUint64(&words[i])
			if old == 0 {
				break // full, as most are
			}
			next := t.fill(old, due)
			if next == old || atomic.CompareAndSwapUint64(&words[i], old, next) {
				break
			}
		}
	}
}

// Touch says that the table was used by the program in the kernel, which does not say so itself.
func (t *Table) Touch() { t.used.Store(true) }

// Tend sweeps the table if that is due: before the time counters begin anew, and once when the table has not been asked
// for as long as the limiters take to fill. From then on it costs nothing until the table is asked. See
// Shape.TendEvery.
func (t *Table) Tend(now time.Duration) {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	unit := t.unit(now)
	if t.used.Swap(false) {
		t.lastUse, t.atRest = max(unit, t.lastUse), false
	}
	switch swept := t.swept.Load(); {
	case t.atRest:
		t.swept.Store(max(unit, swept)) // what is full stays full, whatever its time counter says
	case unit > t.lastUse+t.mask/uint64(t.shape.PerUnit)+1:
		t.sweep(now)
		t.atRest = true
	case unit >= swept+window/4:
		t.sweep(now)
	}
}

// AtRest reports whether all limiters are full and the table was not asked since.
func (t *Table) AtRest() bool {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	return t.atRest && !t.used.Load()
}

// sampleLines is how many lines are looked at for an estimate.
const sampleLines = 2048

// Drained estimates how many limiters are kept empty. It looks at a part of a large table only, another one each time.
func (t *Table) Drained(now time.Duration) int64 {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if t.atRest && !t.used.Load() {
		return 0
	}
	unit := max(t.unit(now), t.latest.Load())
	step := max(1, t.lines/sampleLines)
	t.sampled = (t.sampled + 1) % step
	var empty, looked uint64
	for line := t.sampled; line < t.lines; line += step {
		words := t.line(Slot(line))
		due := t.due(uint64(uint16(unit) - t.stamp(Slot(line))))
		empty += uint64(t.emptyIn(words, due))
		looked++
	}
	return int64(float64(empty) / float64(looked) * float64(t.lines))
}

// Sweep refills every line. It keeps the time of idle lines from being forgotten when the time counters begin anew.
func (t *Table) Sweep(now time.Duration) {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	t.sweep(now)
}

// Resume says that the table was in use before, and that it is not known when it was last swept.
func (t *Table) Resume(now time.Duration) {
	if unit := t.unit(now); unit > window/2 {
		t.swept.Store(unit - window/2)
	}
}

// sweep is Sweep; t.sweeping is held.
func (t *Table) sweep(now time.Duration) {
	unit, swept := t.unit(now), t.swept.Load()
	if unit < swept {
		return
	}
	t.reach(unit)
	// A line was refilled after the last sweep or is as old as that one, unless it was full then and something was
	// taken since, which is done in lines that seem not much older. What seems older still is newer than this sweep.
	oldest := unit - swept
	for line := range Slot(t.lines) {
		words := t.line(line)
		for {
			last := atomic.LoadUint64(&words[lineWords-1])
			passed := uint64(uint16(unit) - uint16(last>>timeShift))
			due := t.due(passed)
			if oldest >= window {
				// The counters have begun anew since. All but those of this moment are full by now.
				due = t.mask
			}
			if newer := passed > min(oldest+window/4, window-1-recent); newer || passed == 0 && oldest < window {
				break
			}
			if t.claim(words, last, unit, due) {
				t.fillRest(words, due)
				break
			}
		}
	}
	t.swept.Store(unit)
}

// recent is how many units a line may be ahead of a sweep that comes after the counters have begun anew.
const recent = 256

// emptyIn counts the limiters of a line that have less than a token, with what is due.
func (t *Table) emptyIn(words *[lineWords]uint64, due uint64) (n int64) {
	due = min(due+t.capacity-min(uint64(t.shape.Parts), t.capacity), t.mask)
	low := t.every * (t.mask >> 1)
	for i := range words {
		word := atomic.LoadUint64(&words[i])
		if i == lineWords-1 {
			word &^= timeMask << timeShift // the time counter is no limiter
		}
		if word == 0 {
			continue
		}
		// What is left of a lane after all but one of its tokens have come back.
		x := t.fill(word, due)
		n += int64(bits.OnesCount64(((x&low + low) | x) &^ low))
	}
	return n
}

// fill takes due from each lane of a word, down to zero: several saturating subtractions in one. The top bit of each
// lane is set first, so that no lane borrows from the next; afterwards it tells whether the lower bits had to borrow.
func (l *lanes) fill(word, due uint64) uint64 {
	shift := (l.bits - 1) & 63
	top := l.every << shift
	d := due * l.every
	diff := (word | top) - (d &^ top)
	negative := (^word&d | ^(word^d)&^diff) & top
	diff ^= (word ^ ^d) & top
	return diff &^ (negative >> shift * l.mask)
}
