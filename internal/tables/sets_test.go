package tables

import (
	"sync"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// score counts, in rounds: what another round has counted is worth nothing.
type score struct{ round, n uint32 }

func (s *score) Worth(now int64) uint64 {
	if int64(s.round) != now {
		return 0
	}
	return uint64(s.n)
}

// lodger stays until a time.
type lodger struct{ until int64 }

func (l *lodger) Worth(now int64) uint64 {
	if now < l.until {
		return Stays
	}
	return 0
}

// key is a hash in a set of its own choice.
func key(set, name uint64) uint64 { return (name+1)<<32 | set }

func (t *Sets[E, P]) count(hash uint64, now int64, n uint32) uint32 {
	s := t.Lock(hash)
	defer s.Unlock()
	e := any(s.Enter(now)).(*score)
	e.round, e.n = uint32(now), e.n+n
	return e.n
}

func (t *Sets[E, P]) has(hash uint64, now int64) bool {
	s := t.Lock(hash)
	defer s.Unlock()
	return s.Find(now) != nil
}

// TestLeastGoes: a set that is full forgets the entry that is worth least for one key more, and no other set does.
func TestLeastGoes(t *testing.T) {
	const sets, ways = 8, 4
	table := NewSets[score](sets, ways)
	for set := range uint64(sets) {
		for name := range uint64(ways) {
			table.count(key(set, name), 1, uint32(10-name))
		}
	}
	for set := range uint64(sets) {
		for name := range uint64(ways) { // at the bound nothing is forgotten
			if !table.has(key(set, name), 1) {
				t.Fatalf("set %d forgot key %d", set, name)
			}
		}
	}
	if n := table.count(key(3, ways), 1, 1); n != 1 { // at the bound + 1
		t.Errorf("a new key begins with %d", n)
	}
	for set := range uint64(sets) {
		for name := range uint64(ways) {
			if gone := set == 3 && name == ways-1; table.has(key(set, name), 1) == gone {
				t.Errorf("set %d, key %d: forgotten is %v", set, name, !gone)
			}
		}
	}
	if m := table.memory.Load(); len(m.tags) != sets*ways || len(m.entries) != sets*ways {
		t.Errorf("%d tags and %d entries", len(m.tags), len(m.entries))
	}
}

// TestOldMakesRoom: an entry that is worth nothing counts as if it were not there.
func TestOldMakesRoom(t *testing.T) {
	table := NewSets[score](1, 2)
	table.count(key(0, 1), 1, 100)
	if table.has(key(0, 1), 2) || !table.has(key(0, 1), 1) {
		t.Error("what another round has counted counts")
	}
	if n := table.count(key(0, 1), 2, 1); n != 1 {
		t.Errorf("it goes on with %d", n)
	}
	table.count(key(0, 2), 2, 5)
	if n := table.count(key(0, 3), 3, 1); n != 1 || table.has(key(0, 1), 3) || table.has(key(0, 2), 3) {
		t.Errorf("a new round begins with %d", n)
	}
}

// TestStays: where all entries stay there is no room for another key, until one is over or forgotten.
func TestStays(t *testing.T) {
	table := NewSets[lodger](1, 2)
	enter := func(name uint64, now, until int64) bool {
		s := table.Lock(key(0, name))
		defer s.Unlock()
		e := s.Enter(now)
		if e != nil {
			e.until = until
		}
		return e != nil
	}
	if !enter(1, 0, 10) || !enter(2, 0, 20) || enter(3, 9, 99) {
		t.Error("there are two places, and two who stay")
	}
	if !enter(3, 10, 99) || table.has(key(0, 1), 9) {
		t.Error("the first was over")
	}
	s := table.Lock(key(0, 2))
	s.Forget()
	s.Unlock()
	if table.has(key(0, 2), 11) || !enter(4, 11, 99) || !table.has(key(0, 3), 11) {
		t.Error("a forgotten one makes room, and no other one")
	}
}

func TestEmpty(t *testing.T) {
	table := NewSets[score](5, 3) // eight sets
	s := table.Lock(key(0, 1))
	s.Forget()
	if s.Find(1) != nil || !table.Empty() {
		t.Error("looking makes entries")
	}
	s.Enter(1)
	s.Unlock()
	if m := table.memory.Load(); table.Empty() || len(m.entries) != 24 {
		t.Errorf("%d entries", len(m.entries))
	}
}

// TestAgainstAMap: whatever is done, an entry that is there has what a map without a bound has, and a set that never
// had more keys than entries has forgotten nothing.
func TestAgainstAMap(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		const sets = 2
		ways := rapid.IntRange(1, 4).Draw(rt, "ways")
		table, whole := NewSets[score](sets, ways), map[uint64]score{}
		names := rapid.IntRange(1, 8).Draw(rt, "names")
		round := int64(1)
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			k := key(rapid.Uint64Range(0, sets-1).Draw(rt, "set"),
				rapid.Uint64Range(0, uint64(names-1)).Draw(rt, "name"))
			kept := whole[k]
			if int64(kept.round) != round {
				kept = score{}
			}
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				round++
			case 1:
				s := table.Lock(k)
				s.Forget()
				s.Unlock()
				delete(whole, k)
			default:
				kept = score{uint32(round), kept.n + 1}
				if n := table.count(k, round, 1); n > kept.n || n < kept.n && names <= ways {
					rt.Fatalf("%d, want %d", n, kept.n)
				} else if n < kept.n { // it had made room
					kept.n = n
				}
				whole[k] = kept
			}
		}
		for k, want := range whole {
			s := table.Lock(k)
			e := s.Find(round)
			s.Unlock()
			switch {
			case e != nil && *e != want:
				rt.Fatalf("%x: %+v, want %+v", k, *e, want)
			case e == nil && int64(want.round) == round && names <= ways:
				rt.Fatalf("%x is forgotten, and there was room", k)
			case e != nil && int64(want.round) != round:
				rt.Fatalf("%x is over: %+v", k, *e)
			}
		}
	})
}

// TestAtOnce: goroutines share a table, and no count is lost.
func TestAtOnce(t *testing.T) {
	const goroutines, each = 4, 2000
	table := NewSets[score](16, 4)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range uint64(each) {
				table.count(key(i%16, i%4), 1, 1)
			}
		})
	}
	all.Wait()
	sum := uint32(0)
	for _, e := range table.memory.Load().entries {
		sum += e.n
	}
	if sum != goroutines*each {
		t.Errorf("%d, want %d", sum, goroutines*each)
	}
}

func TestAllocatesNothing(t *testing.T) {
	table := NewSets[score](1<<10, 4)
	table.count(0, 1, 1)
	k := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		k += 0x9e3779b97f4a7c15
		s := table.Lock(k)
		if e := s.Enter(1); e != nil {
			*e = score{1, 1}
		}
		s.Forget()
		s.Unlock()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSets(b *testing.B) {
	for name, step := range map[string]uint64{"one key": 0, "new keys": 0x9e3779b97f4a7c15} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			table, k := NewSets[score](1<<16, 4), uint64(1)
			for b.Loop() {
				k += step
				s := table.Lock(k)
				e := s.Enter(1)
				e.round, e.n = 1, e.n+1
				s.Unlock()
			}
		})
	}
}
