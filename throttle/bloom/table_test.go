package bloom

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

func perSecond(n int64) weir.Rate { return weir.Rate{Count: n, Per: time.Second} }

func shape(t testing.TB, rate weir.Rate, burst int64, k, lines int) Shape {
	t.Helper()
	s, err := Fit(rate, burst, k, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Lines = lines
	return s
}

// drain takes what a network can get and returns how much that was.
func drain(tb *Table, n Network, now time.Duration) (granted int64) {
	for {
		if _, ok := tb.Take(n, tb.shape.Tokens(1), now); !ok {
			return granted
		}
		granted++
	}
}

var network = NetworkV4([4]byte{192, 0, 2, 1}, 24)

// drawBits is the width of the limiters of a table.
func drawBits(rt *rapid.T) int { return rapid.SampledFrom([]int{narrow, wide}).Draw(rt, "bits") }

// TestFill: the lanes of one word are what they are one by one.
func TestFill(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		l := lanesOf(drawBits(rt))
		half := l.mask / 2
		lane := rapid.OneOf(rapid.Uint64Range(0, l.mask),
			rapid.SampledFrom([]uint64{0, 1, half, half + 1, half + 2, l.mask}))
		due := lane.Draw(rt, "due")
		var word, want uint64
		for at := uint64(0); at < 64; at += l.bits {
			spent := lane.Draw(rt, "spent")
			word |= spent << at
			want |= (spent - min(spent, due)) << at
		}
		if got := l.fill(word, due); got != want {
			rt.Errorf("fill(%016x, %04x) = %016x, want %016x", word, due, got, want)
		}
	})
}

// TestEmptyIn: the limiters of a line that have nothing left are counted, the time counter never is.
func TestEmptyIn(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		bits := drawBits(rt)
		most := 1<<bits - 1
		capacity := rapid.IntRange(1, most).Draw(rt, "capacity")
		parts := rapid.IntRange(1, capacity).Draw(rt, "parts")
		due := rapid.SampledFrom([]int{0, 0, 1, parts, most}).Draw(rt, "due")
		tb := NewTable(Shape{Bits: bits, K: 1, Lines: 1, Capacity: capacity, PerUnit: 1, Unit: 1, Grain: 1,
			Parts: parts}, Key{})
		var want int64
		for at := 0; at < lineBits; at += bits {
			spent := rapid.SampledFrom([]int{0, 1, capacity - parts, capacity - parts + 1, capacity - 1, capacity,
				most}).Draw(rt, "spent")
			if capacity-max(0, spent-due) < parts && at < timeAt {
				want++
			}
			tb.words[at/64] |= uint64(spent) << (at % 64)
		}
		if got := tb.emptyIn(tb.line(0), uint64(due)); got != want {
			rt.Errorf("%d empty, want %d", got, want)
		}
	})
}

// TestPlaces: the limiters of a source are k different ones, never a time counter, in a table however small.
func TestPlaces(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := Shape{Bits: drawBits(rt), K: rapid.IntRange(1, MaxK).Draw(rt, "k"),
			Lines:    rapid.SampledFrom([]int{1, 2, 3, 1000, MaxLines / 64}).Draw(rt, "lines"),
			Capacity: 1, PerUnit: 1, Unit: 1, Grain: 1}
		tb := &Table{shape: s, lines: uint64(s.Lines), lanes: lanesOf(s.Bits)}
		var array [MaxK]Slot
		seen := map[Slot]bool{}
		for _, p := range tb.slots(rapid.Uint64().Draw(rt, "hash"), &array) {
			if seen[p] || int(p/LineBytes) >= s.Lines || p%LineBytes >= timeAt/8 || p*8%Slot(s.Bits) != 0 {
				rt.Errorf("%v", array[:s.K])
			}
			seen[p] = true
		}
		if len(seen) != s.K {
			rt.Errorf("%d slots, want %d", len(seen), s.K)
		}
	})
}

// model is the structure as its description has it: plain balances, plain time, no words and no windows.
type model struct {
	Shape
	balance [][]int64
	refill  []int64 // the unit in which a line was refilled
}

func newModel(s Shape) *model {
	m := &model{Shape: s, balance: make([][]int64, s.Lines), refill: make([]int64, s.Lines)}
	for i := range m.balance {
		m.balance[i] = make([]int64, s.Lanes())
		for j := range m.balance[i] {
			m.balance[i][j] = int64(s.Capacity)
		}
	}
	return m
}

func (m *model) fill(line int, unit int64) {
	if passed := unit - m.refill[line]; passed > 0 {
		for i := range m.balance[line] {
			m.balance[line][i] = min(int64(m.Capacity), m.balance[line][i]+passed*int64(m.PerUnit))
		}
		m.refill[line] = unit
	}
}

// of is the balance of a limiter.
func (m *model) of(p Slot) *int64 { return &m.balance[p/LineBytes][p%LineBytes*8/Slot(m.Bits)] }

func (m *model) take(slots []Slot, tokens int64, now time.Duration) bool {
	unit := int64(now / m.Unit)
	all := int64(0)
	for _, p := range slots {
		m.fill(int(p/LineBytes), unit)
		all += *m.of(p)
	}
	if all < tokens {
		return false
	}
	for _, p := range slots {
		b := m.of(p)
		took := min(*b, tokens)
		*b, tokens = *b-took, tokens-took
	}
	return true
}

// TestAsDescribed: the table answers as its description does, in whatever order things come, swept or not.
func TestAsDescribed(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := Shape{
			Bits: drawBits(rt), K: rapid.IntRange(1, 5).Draw(rt, "k"), Lines: rapid.IntRange(1, 4).Draw(rt, "lines"),
			Unit: time.Millisecond, Grain: 1, Parts: 1,
		}
		most := 1<<s.Bits - 1
		s.Capacity = rapid.SampledFrom([]int{1, 2, 7, most * 2 / 3, most}).Draw(rt, "capacity")
		s.PerUnit = rapid.IntRange(1, min(s.Capacity, 20000)).Draw(rt, "per unit")
		s.Share = s.Capacity
		key := Key{rapid.Uint64().Draw(rt, "key"), 1}
		tb, m := NewTable(s, key), newModel(s)
		now := time.Duration(0)
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				now += time.Duration(rapid.IntRange(0, 3*window/4).Draw(rt, "idle")) * s.Unit
				tb.Sweep(now)
				for i := range m.balance {
					m.fill(i, int64(now/s.Unit))
				}
			case 1, 2:
				now += time.Duration(rapid.IntRange(0, 3000).Draw(rt, "passed")) * time.Microsecond
			default:
				n := NetworkGroup(rapid.Uint32Range(0, 8).Draw(rt, "network"))
				tokens := rapid.Int64Range(1, int64(s.Capacity*s.K)).Draw(rt, "tokens")
				var array [MaxK]Slot
				want := m.take(tb.slots(key.Hash(n), &array), tokens, now)
				if _, got := tb.Take(n, tokens, now); got != want {
					rt.Fatalf("granted %v, want %v", got, want)
				}
			}
			tb.reach(tb.unit(now))
			for i, line := range m.balance {
				m.fill(i, int64(now/s.Unit))
				for j, balance := range line {
					if spent := int64(tb.spent(Slot(i*LineBytes + j*s.Bits/8))); spent != int64(s.Capacity)-balance {
						rt.Fatalf("line %d, limiter %d: spent %d of %d, want %d left", i, j, spent, s.Capacity, balance)
					}
				}
			}
		}
	})
}

// TestContention: of many who ask at the same time, exactly as many are granted as there are tokens; and as time goes
// on, never more than have come in.
func TestContention(t *testing.T) {
	s := shape(t, perSecond(1000), 1000, 5, 4)
	tb := NewTable(s, NewKey())
	ask := func(from, to time.Duration) (granted int64) {
		var all sync.WaitGroup
		var sum atomic.Int64
		for g := range 8 {
			all.Go(func() {
				for i := range 2000 {
					// Nobody agrees about the time: some come late with theirs.
					at := from + (to-from)*time.Duration((i*7+g*131)%2000)/2000
					if from, ok := tb.Take(network, s.Tokens(1), at); ok {
						sum.Add(1)
						if i%10 == 0 {
							tb.Give(from, s.Tokens(1), at)
							sum.Add(-1)
						}
					}
				}
			})
		}
		all.Wait()
		return sum.Load()
	}
	if got := ask(0, 0); got > 1000 {
		t.Fatalf("%d granted of 1000 tokens", got)
	}
	drain(tb, network, 0)
	if got := ask(0, 2*time.Second); got > 2000 {
		t.Errorf("%d granted of 2000 tokens that came in", got)
	}
	drain(tb, network, 2*time.Second)
	if got := drain(tb, network, 3*time.Second); got < 990 || got > 1000 {
		t.Errorf("%d a second later, want 1000", got)
	}
}

// TestRollover: drained and then idle for whatever time, a source is granted, though the time counters begin anew every
// 65.536 s.
func TestRollover(t *testing.T) {
	needs.Unwatched(t)
	s := Shape{Bits: wide, K: 5, Lines: 1, Capacity: 1, Share: 1, PerUnit: 1, Unit: time.Millisecond, Grain: 1,
		Parts: 1}
	every := window / 4 * s.Unit
	for _, swept := range []bool{false, true} {
		for idle := time.Second; idle <= 200*time.Second; idle += step(idle, window*s.Unit) {
			tb := NewTable(s, Key{1, 2})
			begin := idle * 3 // at some phase of the counters
			for at := time.Duration(0); swept && at < begin; at += every {
				tb.Sweep(at)
			}
			if got := drain(tb, network, begin); got < 5 || got > 5 && (swept || got > 10) {
				t.Fatalf("%d granted at the start", got)
			}
			for at := begin; swept && at < begin+idle; at += every {
				tb.Sweep(at)
			}
			if _, ok := tb.Take(network, 1, begin+idle); !ok {
				t.Fatalf("refused after %s, swept: %v", idle, swept)
			}
		}
	}
}

// step goes through every millisecond around the times at which a counter begins anew, and faster in between.
func step(at, anew time.Duration) time.Duration {
	if rest := at % anew; rest < 300*time.Millisecond || rest > anew-350*time.Millisecond {
		return time.Millisecond
	}
	return 7 * time.Millisecond
}

// TestBelowK: a limit below k per time unit is kept: 1 a second, with five limiters.
func TestBelowK(t *testing.T) {
	s := shape(t, perSecond(1), 5, 5, 100)
	tb := NewTable(s, NewKey())
	if got := drain(tb, network, 0); got != 5 {
		t.Fatalf("a burst of %d", got)
	}
	granted := 0
	// what came in by the end is asked for, too
	for at := time.Duration(0); at < 100*time.Second+500*time.Millisecond; at += 100 * time.Millisecond {
		if _, ok := tb.Take(network, s.Tokens(1), at); ok {
			granted++
		}
	}
	if granted != 100 {
		t.Errorf("%d granted in 100 s, want 100", granted)
	}
}

// TestSaturation: 15,000 onto 95,000 of 100,000 are 100,000, which takes a grain.
func TestSaturation(t *testing.T) {
	s, err := Fit(weir.Rate{Count: 15_000, Per: time.Second}, 100_000, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.Grain != 2 || s.Burst() != 100_000 {
		t.Fatalf("%+v", s)
	}
	s.Lines, s.Capacity, s.Share = 1, 50_000, 50_000
	tb := NewTable(s, Key{})
	left := func(now time.Duration) int64 {
		all, _ := tb.Available(network, now)
		return all / int64(s.Parts) * s.Grain
	}
	tb.Take(network, s.Tokens(5_000), 0)
	if got := left(0); got != 95_000 {
		t.Fatalf("%d left", got)
	}
	tb.Sweep(time.Second)
	if got := left(time.Second); got != 100_000 {
		t.Errorf("%d left a second later", got)
	}
	tb.Take(network, s.Tokens(50_000), time.Second)
	tb.Take(network, s.Tokens(50_000), time.Second)
	if _, ok := tb.Take(network, s.Tokens(1), time.Second); ok {
		t.Error("granted one too many")
	}
	// In 1 s come 15,000, and what takes several tokens gets them at once or not at all.
	if _, ok := tb.Take(network, s.Tokens(15_002), 2*time.Second); ok {
		t.Error("more granted than came in")
	}
	if _, ok := tb.Take(network, s.Tokens(14_900), 2*time.Second); !ok {
		t.Error("what came in is not granted")
	}
}

// whole is a shape whose tokens have one part: 10 a second, bursts of 10.
var whole = Shape{Bits: wide, K: 2, Lines: 3, Capacity: 5, Share: 5, PerUnit: 1, Unit: 200 * time.Millisecond, Grain: 1,
	Parts: 1}

// TestGiveBack: what is given back is there again, and never more than was taken.
func TestGiveBack(t *testing.T) {
	tb := NewTable(whole, NewKey())
	p, ok := tb.Take(network, 3, 0)
	if !ok {
		t.Fatal("refused")
	}
	tb.Give(p, 3, 0)
	tb.Give(p, 3, 0)
	if all, _ := tb.Available(network, 0); all != 10 {
		t.Errorf("%d left", all)
	}
	// What came from both limiters goes back to both.
	if p, ok = tb.Take(network, 8, 0); !ok || p.Last != 2 {
		t.Fatalf("taken from %+v", p)
	}
	tb.Give(p, 8, 0)
	if all, _ := tb.Available(network, 0); all != 10 {
		t.Errorf("%d left", all)
	}
}

// TestCharge: what is charged beyond the tokens is owed, and paid before anything is granted again.
func TestCharge(t *testing.T) {
	tb := NewTable(whole, NewKey())
	for i, want := range []int64{0, 4, 11} {
		if got := tb.Charge(network, 7, 0); got != want {
			t.Errorf("charge %d: %d owed, want %d", i, got, want)
		}
	}
	if all, _ := tb.Available(network, 0); all != 0 {
		t.Errorf("%d left", all)
	}
	if tb.Drained(0) != 2 {
		t.Error("what is owed does not count as empty")
	}
	if _, ok := tb.Take(network, 1, time.Second); ok {
		t.Error("granted before the debt is paid")
	}
	if got := tb.Charge(network, 0, time.Second); got > 2 {
		t.Errorf("%d owed a second later", got)
	}
	if _, ok := tb.Take(network, 1, 2*time.Second); !ok {
		t.Error("refused after the debt is paid")
	}
	if got := tb.Charge(network, 1_000_000, 2*time.Second); got != 2*(MaxTokens-5) {
		t.Errorf("%d owed, want all that 16 bits hold", got)
	}
	// Others in the same lines are not touched.
	if all, _ := tb.Available(NetworkGroup(1), 2*time.Second); all == 0 {
		t.Error("another network owes, too")
	}
}

// TestDrainLeavesNothing: what was granted elsewhere is charged to the table that takes over, down to the last token.
// What it kept, a source would have beyond its limit after the change of keys.
func TestDrainLeavesNothing(t *testing.T) {
	tb := NewTable(whole, NewKey())
	full, _ := tb.Available(network, 0)
	tb.Drain(network, full-3, 0)
	if all, _ := tb.Available(network, 0); all != 3 {
		t.Errorf("%d of %d are left, want 3", all, full)
	}
	tb.Drain(network, 5, 0)
	if all, _ := tb.Available(network, 0); all != 0 {
		t.Errorf("%d are left, want none", all)
	}
}

// TestTooMuch: what the limiters of a network do not hold is not granted.
func TestTooMuch(t *testing.T) {
	tb := NewTable(whole, NewKey())
	if _, ok := tb.Take(network, 11, time.Hour); ok {
		t.Error("granted more than the limiters hold")
	}
}

// TestFit: whatever is asked for, a source gets no more and hardly less.
func TestFit(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		rate := weir.Rate{Count: rapid.Int64Range(1, 1e9).Draw(rt, "count"),
			Per: rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 10 * time.Second, time.Hour,
				24 * time.Hour}).Draw(rt, "per")}
		k := rapid.IntRange(1, MaxK).Draw(rt, "k")
		burst := rapid.Int64Range(1, 1e10).Draw(rt, "burst")
		s, err := Fit(rate, burst, k, 0)
		if err != nil {
			if weir.FieldErrors(err)[0].Hint == "" {
				rt.Errorf("no hint: %v", err)
			}
			return
		}
		if s.Capacity < 1 || s.Share > 1<<s.Bits-1 || s.Bits == narrow && s.empty() != s.owing() || s.PerUnit < 1 ||
			s.PerUnit > s.Capacity || s.Unit < minUnit {
			rt.Errorf("%+v", s)
		}
		if got := s.Burst(); got > burst || float64(got) < float64(burst)/2 {
			rt.Errorf("a burst of %d, want %d: %+v", got, burst, s)
		}
		asked := float64(rate.Count) / float64(rate.Per)
		got := float64(s.K) * float64(s.PerUnit) * float64(s.Grain) / float64(s.Unit) / float64(s.Parts)
		if got > asked*(1+1e-12) || got < asked*(1-2e-4) {
			rt.Errorf("a rate of %g, want %g: %+v", got, asked, s)
		}
	})
}

// TestGrantWritesOneWord: while the first limiter has tokens, a grant changes nothing but its word, though time has
// passed for the line; what has come due is counted all the same.
func TestGrantWritesOneWord(t *testing.T) {
	s := shape(t, perSecond(1000), 1000, 5, 100)
	tb := NewTable(s, Key{1, 2})
	full := int64(s.Capacity * s.K)
	for unit := range 1<<s.Bits - 1 {
		now := time.Duration(unit) * s.Unit
		before := slices.Clone(tb.words)
		if from, ok := tb.Take(network, 1, now); !ok || from.Last != 1 {
			t.Fatalf("unit %d: taken from %+v", unit, from)
		}
		var changed []int
		for i := range before {
			if tb.words[i] != before[i] {
				changed = append(changed, i)
			}
		}
		if len(changed) != 1 || changed[0] != int(tb.slot(tb.key.Hash(network))/8) {
			t.Fatalf("unit %d: words %v have changed", unit, changed)
		}
		if all, _ := tb.Available(network, now); all != full-1 {
			t.Fatalf("unit %d: %d of %d left after one", unit, all, full)
		}
	}
}

// TestAfterRest: of a table at rest no line is up to date. What is taken from it then is there again when its time has
// come, and stays, though the time counters begin anew.
func TestAfterRest(t *testing.T) {
	for _, burst := range []int64{1000, 50_000} {
		s := shape(t, perSecond(burst), burst, 5, 1)
		for age := range time.Duration(window/4 + 2000) {
			if s.Bits == wide && age%97 != 0 || s.Bits == narrow && age > 300 {
				continue
			}
			tb := NewTable(s, Key{1, 2})
			now := (window + age) * s.Unit
			tb.Tend(now - s.Unit)
			if _, ok := tb.Take(network, s.Tokens(1), now); !ok {
				t.Fatalf("a table at rest refuses at age %d", age)
			}
			for range 10 {
				now += window / 4 * s.Unit
				tb.used.Store(true) // by others
				tb.Tend(now)
				if all, _ := tb.Available(network, now); all != int64(s.Capacity*s.K) {
					t.Fatalf("age %d, %s later: %d left of %d", age, now, all, s.Capacity*s.K)
				}
			}
		}
	}
}

// TestDivisor divides as the processor does, at the edges too.
func TestDivisor(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		edge := rapid.SampledFrom([]uint64{0, 1, 2, 3, 1e3, 1e6, 1e9, math.MaxInt64, math.MaxUint64})
		n := rapid.OneOf(rapid.Uint64(), edge).Draw(t, "n")
		by := max(1, rapid.OneOf(rapid.Uint64(), edge, rapid.Uint64Range(1, 1e10)).Draw(t, "by"))
		d := divisorOf(by)
		if q := d.of(n); q != n/by {
			t.Fatalf("%d / %d: %d, want %d", n, by, q, n/by)
		}
	})
}
