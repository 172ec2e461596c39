package reach

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// states are some of every kind, with what they were made by.
func states(t testing.TB) map[string]*rig {
	all := map[string]*rig{"zero": newRig(t, Options{})}
	add := func(name string, o Options, make func(g *rig)) {
		g := newRig(t, o)
		make(g)
		all[name] = g
	}
	ten := func(g *rig) {
		for range 10 {
			g.wait(26 * time.Hour).send(g.many(1)...)
		}
	}
	add("ten", Options{Over: Flag}, ten)
	add("ten and known", Options{}, ten)
	add("ten in a bloom filter", Options{Structure: Bloom}, ten)
	add("ten at once", Options{}, func(g *rig) { g.send(g.many(10)...) })
	add("large", Options{Over: Flag}, func(g *rig) { g.list(g.many(3000)) })
	add("large and known", Options{}, func(g *rig) { g.list(g.many(3000)) })
	add("flagged", counted(20, KnownOnly), func(g *rig) { g.send(g.many(30)...) })
	add("limited", counted(20, Limit), func(g *rig) { g.send(g.many(30)...); g.wait(time.Minute).send(g.many(3)...) })
	add("cleared", counted(20, Block), func(g *rig) { g.send(g.many(30)...); g.s.Clear(g.now); g.send(g.many(2)...) })
	add("by an operator", Options{}, func(g *rig) { g.s.SetFlag(g.now) })
	add("changed", Options{Over: Flag}, func(g *rig) {
		g.s.Learn(g.r, g.now, g.many(2000))
		g.r = rules(t, Options{Structure: Bloom})
		g.wait(day).send(g.many(20)...)
		g.r = rules(t, Options{})
		g.wait(day).send(g.many(20)...)
	})
	add("from bloom", Options{Structure: Bloom}, func(g *rig) {
		g.s.Learn(g.r, g.now, g.many(500))
		g.r = rules(t, Options{Cells: 256})
		g.wait(day).list(g.many(300))
	})
	return all
}

func TestStoredStates(t *testing.T) {
	for name, g := range states(t) {
		before := g.s
		g.reload()
		if g.s.Count() != before.Count() || g.s.meter != before.meter && (g.s.sent != 0 || !before.flagged) {
			t.Errorf("%s: %+v, was %+v", name, g.s.meter, before.meter)
		}
		message := g.many(50)
		a, b := before.Judge(g.r, g.p, g.now.Add(time.Hour), message, nil),
			g.s.Judge(g.r, g.p, g.now.Add(time.Hour), message, nil)
		if a != b {
			t.Errorf("%s: %+v, was %+v", name, b, a)
		}
	}
}

// How many bytes a user takes: R1.
func TestStoredSizes(t *testing.T) {
	needs.Unwatched(t)
	for name, most := range map[string]int{"zero": 16, "ten": 128, "ten and known": 128, "ten at once": 128} {
		b, _ := states(t)[name].s.AppendBinary(nil)
		t.Logf("%s: %d bytes", name, len(b))
		if len(b) > most {
			t.Errorf("%s: %d bytes, at most %d", name, len(b), most)
		}
	}
	// However they are spread over time.
	for _, every := range []time.Duration{time.Second, 5 * time.Minute, 10 * time.Minute, time.Hour, 4 * time.Hour, day,
		7 * day} {
		g := newRig(t, Options{Over: Flag})
		for range 10 {
			g.wait(every).send(g.many(1)...)
		}
		b, _ := g.s.AppendBinary(nil)
		t.Logf("one every %s: %d bytes", every, len(b))
		if len(b) > 128 {
			t.Errorf("one every %s: %d bytes", every, len(b))
		}
	}
	for _, n := range []int{10_000, 40_000} {
		for _, over := range []Action{Flag, HoldNew} {
			g := newRig(t, Options{Over: over})
			g.list(g.many(100))
			g.s.Learn(g.r, g.now, g.many(n-100))
			b, _ := g.s.AppendBinary(nil)
			k, _ := g.s.AppendKnown(nil)
			t.Logf("%d, %s: %d bytes, and %d of known ones; %d in memory", n, over, len(b), len(k), g.s.Bytes())
			if over == Flag && (len(b) > 4096 || len(k) > 0) {
				t.Errorf("%d: %d bytes", n, len(b))
			}
		}
	}
}

func TestStateRefuses(t *testing.T) {
	for name, g := range states(t) {
		b, _ := g.s.AppendBinary(nil)
		var read State
		for n := range b {
			if n > 200 && n < len(b)-200 {
				continue
			}
			if err := read.UnmarshalBinary(b[:n]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s, %d of %d bytes: %v", name, n, len(b), err)
			}
		}
		if err := read.UnmarshalBinary(append(slices.Clone(b), 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s and a byte more: %v", name, err)
		}
		b[0]++
		if err := read.UnmarshalBinary(b); !errors.Is(err, ErrNewer) {
			t.Errorf("%s of another version: %v", name, err)
		}
		k, _ := g.s.AppendKnown(nil)
		for n := range min(len(k), 100) {
			if err := read.SetKnown(k[:n]); n > 0 && !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, %d of %d bytes of known: %v", name, n, len(k), err)
			}
		}
		if len(k) > 0 {
			k[0]++
			if err := read.SetKnown(k); !errors.Is(err, ErrNewer) {
				t.Errorf("%s: known ones of another version: %v", name, err)
			}
		}
		if !reflect.DeepEqual(read, State{}) {
			t.Errorf("%s: changed by what was refused", name)
		}
	}
}

// Without its settled part a state is not changed for the worse.
func TestMissingKnown(t *testing.T) {
	g := newRig(t, Options{Over: KnownOnly})
	list := g.many(3000)
	g.list(list)
	b, _ := g.s.AppendBinary(nil)
	k, _ := g.s.AppendKnown(nil)
	if !g.s.KnownChanged() {
		t.Error("there is something to store")
	}
	g.s.KnownStored()
	if g.s.KnownChanged() {
		t.Error("it is stored")
	}
	var s State
	if err := s.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		s.Commit(g.r, g.p, g.now, g.many(100), nil)
		if v, _ := s.Commit(g.r, g.p, g.now, list[100*i:100*i+100], nil); v.Refused > 0 {
			t.Errorf("%+v", v)
		}
	}
	if none, _ := s.AppendKnown(nil); len(none) > 0 || s.KnownChanged() || !s.NeedsKnown() {
		t.Error("nothing that could be stored over what there is")
	}
	if err := s.Merge(g.r, &g.s); !errors.Is(err, ErrNoKnown) {
		t.Error(err)
	}
	if err := s.SetKnown(k); err != nil || s.NeedsKnown() {
		t.Error(err)
	}
	if v := s.Judge(g.r, g.p, g.now, list, nil); v.New != 0 {
		t.Errorf("%+v", v)
	}
}

func TestMerge(t *testing.T) {
	for name, o := range histories() {
		a := newRig(t, o)
		b := *a
		friends := a.many(100)
		here, there := a.many(1000), a.many(500)
		a.list(friends)
		b.wait(time.Hour)
		b.list(friends)
		b.list(there)
		a.wait(30 * time.Minute).list(here)
		a.s.SetFlag(a.now)
		if err := a.s.Merge(a.r, &b.s); err != nil {
			// filters of very different recipients may have no room for both
			if !errors.Is(err, ErrFull) || o.Structure != Bloom {
				t.Error(name, err)
			}
			continue
		}
		if n := a.s.Count(); n < 1500 || n > 1700 {
			t.Errorf("%s: %v recipients", name, n)
		}
		all := append(append(append([]uint64(nil), friends...), here...), there...)
		if v := a.s.Judge(a.r, a.p, b.now, all, nil); v.New != 0 || v.Known != 1600 || !v.Flagged {
			t.Errorf("%s: %+v", name, v)
		}
		if !a.s.Since().Equal(epoch) {
			t.Errorf("%s: since %s", name, a.s.Since())
		}
		a.now = b.now
		before := a.s.slots
		if err := a.s.Merge(a.r, &b.s); err != nil || a.s.slots != before { // once more is the same
			t.Errorf("%s: %v", name, err)
		}
		a.reload()
	}
	a, b := newRig(t, Options{Over: Flag}), newRig(t, Options{Over: Flag, Cells: 1024})
	a.list(a.many(2000))
	b.list(b.many(2000))
	if err := a.s.Merge(a.r, &b.s); !errors.Is(err, ErrCells) {
		t.Error(err)
	}
}

// Slot by slot the greater counts, and whatever happened to a flag later.
func TestMergeFlags(t *testing.T) {
	r := rules(t, counted(50, Flag))
	make := func(do func(s *State)) *State { s := new(State); do(s); return s }
	at := func(h int) time.Time { return epoch.Add(time.Duration(h) * time.Hour) }
	none := make(func(s *State) {})
	flagged := make(func(s *State) { s.SetFlag(at(1)); s.operator = false })
	byHand := make(func(s *State) { s.SetFlag(at(0)) })
	cleared := make(func(s *State) { s.SetFlag(at(0)); s.Clear(at(2)) })
	later := make(func(s *State) { s.SetFlag(at(3)); s.operator = false })
	for _, c := range []struct {
		name     string
		a, b     *State
		want     bool
		operator bool
	}{
		{"nothing", none, none, false, false}, {"one", none, flagged, true, false},
		{"cleared since", flagged, cleared, false, false},
		{"flagged since", cleared, later, true, false}, {"by hand", byHand, later, true, true},
	} {
		for _, pair := range [][2]*State{{c.a, c.b}, {c.b, c.a}} {
			s := *pair[0]
			if err := s.Merge(r, pair[1]); err != nil || s.flagged != c.want || s.operator != c.operator {
				t.Errorf("%s: %+v, %v", c.name, s.flag, err)
			}
		}
	}
	// A set on one side only does not know what the other side knows.
	with, without := newRig(t, Options{Over: KnownOnly}), newRig(t, Options{Over: Flag})
	list := with.many(2000)
	with.list(list[:1500])
	without.list(list[1000:])
	for _, pair := range [][2]*rig{{with, without}, {without, with}} {
		var s State
		if err := errors.Join(s.Merge(r, &pair[0].s), s.Merge(r, &pair[1].s)); err != nil {
			t.Fatal(err)
		}
		if v := s.Judge(with.r, with.p, epoch, list, nil); v.New != 0 {
			t.Errorf("%+v", v)
		}
	}
}

// FuzzState: whatever is read is written as it was, and can be used.
func FuzzState(f *testing.F) {
	for _, g := range states(f) {
		b, _ := g.s.AppendBinary(nil)
		k, _ := g.s.AppendKnown(nil)
		f.Add(b, k, epoch.Unix(), int64(3600))
		f.Add(b, []byte(nil), epoch.Unix(), int64(-1<<40))
	}
	var all []*Rules
	for _, o := range histories() {
		all = append(all, rules(f, o))
	}
	all = append(all, rules(f, counted(3, Limit)),
		rules(f, Options{Threshold: Threshold{Share: 2}, Against: AgainstPrevious}))
	keys := []uint64{1 << 60, 2 << 60, 3<<60 + 9, 7}
	f.Fuzz(func(t *testing.T, b, k []byte, now, later int64) {
		var s State
		if err := s.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
				t.Error(err)
			}
			return
		}
		if again, err := s.AppendBinary(nil); err != nil || string(again) != string(b) {
			t.Fatalf("%x becomes %x: %v", b, again, err)
		}
		if err := s.SetKnown(k); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
			t.Error(err)
		}
		var p Population
		for i, r := range all {
			at := time.Unix(now, 0).Add(time.Duration(i) * time.Duration(later) * time.Second)
			judged := s.Judge(r, &p, at, keys, nil)
			v, samples := s.Commit(r, &p, at, keys, make([]Fate, len(keys)))
			if v != judged {
				t.Errorf("judged %+v, committed %+v", judged, v)
			}
			p.Observe(at, samples)
			s.Figures(r, &p, at)
			s.Advance(r, &p, at)
			if again, err := s.AppendBinary(nil); err != nil || new(State).UnmarshalBinary(again) != nil {
				t.Fatalf("%+v cannot be stored", s)
			}
		}
		if !s.NeedsKnown() {
			var o State
			if err := o.Merge(all[0], &s); err != nil {
				t.Error(err)
			}
		}
	})
}
