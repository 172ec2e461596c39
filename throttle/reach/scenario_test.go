package reach

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// histories are all that a history may be kept in.
func histories() map[string]Options {
	return map[string]Options{
		"sketch":           {Over: Flag},
		"sketch by cells":  {Over: Flag, Count: Cells},
		"sketch, +1":       {Over: Flag, Count: Changes},
		"sketch and known": {Over: HoldNew},
		"known by cells":   {Over: KnownOnly, Count: Cells},
		"bloom":            {Over: KnownOnly, Structure: Bloom},
	}
}

// A newsletter goes to the same 50,000 people again and again, and its sender is never flagged: with newcomers
// raised at the start, with a list that grew before weir came, and whatever the threshold is.
func TestNewsletter(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for name, o := range histories() {
		for _, threshold := range []Threshold{{}, {Share: 2}, {Count: 50}} {
			if threshold != (Threshold{}) && (o.Count != "" || o.Structure != "") {
				continue // as the others
			}
			t.Run(fmt.Sprint(name, " ", threshold), func(t *testing.T) {
				readers := 50_000
				if threshold != (Threshold{}) || o.Count != "" {
					readers = 5_000
				}
				o.Threshold, o.Newcomers, o.Windows = threshold, readers, []Window{Hour, Day, Week}
				g := newRig(t, o)
				g.quiet(3)
				list := g.many(readers)
				if threshold.Count > 0 { // which newcomers do not go before
					g.s.Learn(g.r, g.now, list)
				}
				for issue := range 2 {
					if stopped, flagged := g.list(list); stopped != 0 || flagged {
						_, by, _ := g.s.Flagged()
						t.Fatalf("issue %d: %d are stopped, flagged by %+v", issue, stopped, by)
					}
					g.wait(7 * day)
				}
			})
		}
	}
}

// A user who brings a list in the first days is not punished for its length up to newcomers, and is beyond.
func TestNewcomer(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for name, o := range histories() {
		if o.Count == Changes { // which counts far too few
			continue
		}
		for _, threshold := range []Threshold{{}, {Share: 2}} {
			if threshold.Share > 0 && (o.Count != "" || o.Structure != "") || name == "known by cells" {
				continue // as the others
			}
			o.Threshold = threshold
			within, beyond := newRig(t, o), newRig(t, o)
			within.quiet(3)
			within.wait(8 * day)
			if stopped, flagged := within.list(within.many(10_000)); stopped != 0 || flagged {
				t.Errorf("%s, %s: 10,000 stop %d", name, threshold, stopped)
			}
			// It is not held against a user who is not new any more, while it still counts: for a day.
			within.wait(6*day + 23*time.Hour + 30*time.Minute).list(within.many(9_000))
			if v := within.wait(time.Hour).send(within.many(2)...); v.Flagged {
				t.Errorf("%s, %s: %+v", name, threshold, v)
			}
			// A set takes one in a hundred for known, and a sketch counts roughly.
			if _, flagged := beyond.list(beyond.many(10_800)); !flagged {
				t.Errorf("%s, %s: more than 10,000 are not flagged but %v", name, threshold,
					beyond.s.Figures(beyond.r, beyond.p, beyond.now))
			}
		}
	}
	// Exactly, as long as everybody is told apart.
	o := Options{Newcomers: 500}
	g := newRig(t, o)
	if stopped, flagged := g.list(g.many(500)); stopped != 0 || flagged {
		t.Error("500 of 500", stopped)
	}
	if v := g.send(g.many(1)...); !v.Now || v.Held != 1 {
		t.Errorf("501: %+v", v)
	}
}

// 50,000 known people and 1,000 strangers, in one list.
func TestKnownOnly(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for _, o := range []Options{
		{Over: KnownOnly}, {Over: HoldNew, Count: Changes}, {Over: KnownOnly, Structure: Bloom},
	} {
		g := newRig(t, o).learnt(3)
		friends := g.many(50_000)
		g.s.Learn(g.r, g.now, friends)
		g.s.SetFlag(g.now)
		strangers := g.many(1000)
		passed, caught := 0, 0
		for i := range strangers {
			fates := make([]Fate, 51)
			keys := append(friends[50*i:50*i+50:50*i+50], strangers[i])
			g.s.Judge(g.r, g.p, g.now, keys, fates)
			g.s.Commit(g.r, g.p, g.now, keys, fates)
			for j, f := range fates {
				if j < 50 && f == Pass {
					passed++
				}
				if j == 50 && f != Pass {
					caught++
				}
			}
		}
		t.Logf("%s %s %s: %d of 50,000 known ones pass, %d of 1,000 strangers are caught", o.Over, o.Structure, o.Count,
			passed, caught)
		if passed < 49_950 || caught < 990 {
			t.Errorf("%+v: %d of 50,000 known ones pass, %d of 1,000 strangers are caught", o, passed, caught)
		}
		again := 0
		for _, s := range strangers {
			if v := g.send(s); v.Held+v.Refused == 1 {
				again++
			}
		}
		if again != caught {
			t.Errorf("tried again %d are caught, and %d at first", again, caught)
		}
	}
}

// An account that was there for long is not a newcomer with its first message, and one that was just made is.
func TestDormant(t *testing.T) {
	for _, threshold := range []Threshold{{}, {Share: 2}} {
		for name, c := range map[string]struct {
			since time.Time
			limit float64
		}{
			"unknown": {epoch.Add(8 * day), 10_000},
			"new":     {epoch.Add(7 * day), 10_000},
			"old":     {epoch.Add(-7 * day), DefaultFloor},
			"ancient": {time.Time{}, DefaultFloor},
		} {
			g := newRig(t, Options{Threshold: threshold})
			g.quiet(3)
			g.wait(8 * day)
			if name != "unknown" {
				g.s.IsAtLeastFrom(c.since, g.now)
			}
			b, err := g.s.AppendBinary(nil)
			if err == nil {
				err = g.s.UnmarshalBinary(b)
			}
			if err != nil {
				t.Fatal(name, err)
			}
			if v := g.send(g.many(60)...); v.Limit != c.limit || v.Now != (c.limit < 60) {
				t.Errorf("%s, %s: %+v", threshold, name, v)
			}
			if since := g.s.Since(); !since.Equal(c.since) {
				t.Errorf("%s, %s: known since %s", threshold, name, since)
			}
			// What is said later makes nobody younger.
			g.s.IsAtLeastFrom(g.now, g.now)
			if since := g.s.Since(); !since.Equal(c.since) {
				t.Errorf("%s, %s: said again, known since %s", threshold, name, since)
			}
		}
	}
}

// Where nobody writes to new people, a floor keeps the first who does from being flagged.
func TestQuietPopulation(t *testing.T) {
	for _, from := range []Learning{FromCohort, FromAverage} {
		for _, threshold := range []Threshold{{}, {Share: 2}, {Share: 0.1}} {
			o := Options{Threshold: threshold, Dynamic: Dynamic{From: from}}
			g := newRig(t, o).learnt(0)
			if stopped, flagged := g.list(g.many(DefaultFloor)); stopped != 0 || flagged {
				t.Errorf("%s, %s: flagged", from, threshold)
			}
			if v := g.send(g.many(1)...); !v.Now || v.Held != 1 || v.Limit != DefaultFloor {
				t.Errorf("%s, %s: %+v", from, threshold, v)
			}
		}
	}
}

// Who is used to many is not flagged for a few more, whatever others do.
func TestOwnUsual(t *testing.T) {
	g := newRig(t, Options{Over: KnownOnly, Windows: []Window{Day, Week}})
	g.quiet(3)
	for range 28 {
		if stopped, flagged := g.list(g.many(1000)); stopped != 0 || flagged {
			t.Fatal(g.now, stopped)
		}
		g.wait(day)
	}
	if stopped, _ := g.list(g.many(1100)); stopped != 0 {
		t.Errorf("1,100: %d stopped", stopped)
	}
	g.wait(day)
	if stopped, flagged := g.list(g.many(5000)); !flagged || stopped < 1900 || stopped > 2200 {
		t.Errorf("5,000: %d stopped", stopped)
	}
	_, by, _ := g.s.Flagged()
	if by.Window != Day || by.Limit < 2950 || by.Limit > 3100 {
		t.Errorf("%+v", by)
	}
}

// A list that is brought along counts in what is usual for as long as little else was sent, and fades.
func TestUsualFades(t *testing.T) {
	g := newRig(t, Options{Windows: []Window{Day}})
	g.quiet(3)
	g.list(g.many(9000))
	for range 60 {
		g.wait(day).send(g.many(2)...)
	}
	if f := g.s.Figures(g.r, g.p, g.now)[0]; f.Limit != DefaultFloor {
		t.Errorf("%+v", f)
	}
}

// A stolen account: found with the first stranger above what is allowed.
func TestStolen(t *testing.T) {
	for name, o := range histories() {
		if o.Over == Flag {
			continue
		}
		g := newRig(t, o)
		g.quiet(10)
		friends := g.many(40)
		for i := range 60 * 24 {
			g.wait(time.Hour).send(friends[i%len(friends)])
		}
		passed := 0
		for range 10 {
			v := g.wait(2 * time.Minute).send(g.many(30)...)
			passed += 30 - v.Held - v.Refused
		}
		if passed > 60 {
			t.Errorf("%s: %d strangers reached", name, passed)
		}
		if v := g.send(friends[0]); v.Held+v.Refused != 0 {
			t.Errorf("%s: friends: %+v", name, v)
		}
	}
}

func TestStaticShares(t *testing.T) {
	// To three times as many: 200 before, 400 new ones.
	g := newRig(t, Options{Threshold: Threshold{Share: 2}, Windows: []Window{Day}})
	g.s.Learn(g.r, g.now, g.many(200))
	g.wait(30 * day)
	if stopped, flagged := g.list(g.many(400)); flagged || stopped != 0 {
		t.Error("400 flagged")
	}
	if v := g.send(g.many(1)...); !v.Now || v.Limit != 400 {
		t.Errorf("%+v", v)
	}
	// Against the window before: 60, and then three times as many.
	g = newRig(t, Options{Threshold: Threshold{Share: 2}, Against: AgainstPrevious, Windows: []Window{Hour}})
	g.s.Learn(g.r, g.now, g.many(2000))
	g.wait(30 * day).list(g.many(50))
	g.wait(time.Hour).list(g.many(150))
	if v := g.send(g.many(1)...); !v.Now || v.Limit != 150 {
		t.Errorf("%+v", v)
	}
	// Trying on as before does not make that the usual, also with pauses.
	for range 30 {
		g.wait(10 * time.Minute)
		if stopped, _ := g.list(g.many(25)); stopped < 24 {
			t.Errorf("%d of 25 stopped", stopped)
		}
	}
	g.wait(61 * time.Minute).send(g.many(1)...)
	if stopped, flagged := g.list(g.many(150)); !flagged || stopped < 99 {
		t.Errorf("after a pause: %d of 150 stopped", stopped)
	}
}

// Exactly how many are counted, by every way of counting: a window of a user with 20,000 recipients gets 2,000 new
// ones.
func TestCounting(t *testing.T) {
	for _, c := range []struct {
		count    Counting
		known    bool
		from, to float64
	}{
		{InverseProbability, true, 1970, 2000}, {InverseProbability, false, 1600, 2400}, {Cells, false, 1300, 2700},
		{Cells, true, 1300, 2700},
		{Changes, false, 200, 700},
	} {
		g := newRig(t, Options{Count: c.count, Known: c.known, Over: Flag, Threshold: Threshold{Count: 1000}})
		g.s.Learn(g.r, g.now, g.many(20_000))
		g.wait(2 * day).list(g.many(2_000))
		got := g.s.Figures(g.r, g.p, g.now)[0].New
		t.Logf("%s, known %v: %.0f", c.count, c.known, got)
		if got < c.from || got > c.to {
			t.Errorf("%s, known %v: %.0f", c.count, c.known, got)
		}
	}
}

// Rules change while states are stored: nobody who was known gets new.
func TestOtherRules(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	general := Options{Newcomers: 10_000, Windows: []Window{Hour, Day}}
	with := func(change func(o *Options)) Options {
		o := general
		change(&o)
		return o
	}
	sketch, bloom := with(func(o *Options) { o.Over = Flag }),
		with(func(o *Options) { o.Over, o.Structure = Flag, Bloom })
	known := with(func(o *Options) { o.Over = KnownOnly })
	knownBloom := with(func(o *Options) { o.Over, o.Structure = KnownOnly, Bloom })
	cells := with(func(o *Options) { o.Over, o.Cells = KnownOnly, 1024 })
	byCells := with(func(o *Options) { o.Over, o.Count = Flag, Cells })
	for name, c := range map[string][2]Options{
		"known turned on": {sketch, known}, "known turned off": {known, sketch}, "to bloom": {sketch, bloom},
		"to bloom with an action": {known, knownBloom},
		"from bloom":              {bloom, sketch}, "from bloom with an action": {knownBloom, known},
		"other cells": {known, cells}, "other counting": {sketch, byCells},
		"cells and known": {sketch, cells},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, c[0]).learnt(3)
			list := g.many(12_000)
			g.s.Learn(g.r, g.now, list[:8_000])
			g.s.SetKnown(nil)
			g.wait(30 * day)
			g.reload()
			g.r = rules(t, c[1])
			if stopped, flagged := g.list(list[:8_000]); stopped != 0 || flagged {
				_, by, _ := g.s.Flagged()
				t.Errorf("known ones: %d stopped, %+v", stopped, by)
			}
			g.reload()
			if n := g.s.Count(); n < 7_600 || n > 8_400 {
				t.Errorf("%.0f recipients", n)
			}
			// A week later whatever was begun has everybody, and strangers are found.
			g.wait(8 * day)
			if _, flagged := g.list(list[8_000:9_000]); !flagged {
				t.Errorf("strangers: %v", g.s.Figures(g.r, g.p, g.now))
			}
			if o := c[1].Over; o == KnownOnly {
				stopped, _ := g.list(list[10_000:11_000])
				if stopped < 980 {
					t.Errorf("%d of 1,000 strangers stopped", stopped)
				}
				// And back.
				g.r = rules(t, c[0])
				g.s.Clear(g.now)
				if stopped, flagged := g.list(list[:8_000]); stopped != 0 || flagged {
					t.Errorf("back: %d stopped", stopped)
				}
			}
		})
	}
}

// reload stores the state and reads it.
func (g *rig) reload() {
	g.t.Helper()
	b, _ := g.s.AppendBinary(nil)
	k, _ := g.s.AppendKnown(nil)
	var s State
	if err := s.UnmarshalBinary(b); err != nil {
		g.t.Fatal(err)
	}
	if s.NeedsKnown() != (len(k) > 0) {
		g.t.Fatalf("needs known: %v, %d bytes", s.NeedsKnown(), len(k))
	}
	if err := s.SetKnown(k); err != nil {
		g.t.Fatal(err)
	}
	if s.NeedsKnown() || s.KnownChanged() {
		g.t.Fatal("known is not as it was stored")
	}
	if again, _ := s.AppendBinary(nil); string(again) != string(b) {
		g.t.Fatal("stored differently")
	}
	g.s = s
}

// A set that is begun late is believed after 90 days, though it never got as many as there had been.
func TestLateSet(t *testing.T) {
	g := newRig(t, Options{Over: Flag, Dynamic: Dynamic{Learn: weir.Duration(time.Hour)}}).learnt(3)
	list := g.many(50_000)
	g.s.Learn(g.r, g.now, list)
	g.r = rules(t, Options{Over: KnownOnly})
	g.list(list[:1000])
	strangers := func() int {
		v := g.s.Judge(g.r, g.p, g.now, g.many(1000), nil)
		return v.New
	}
	if n := strangers(); n > 200 { // as far as a sketch can tell
		t.Errorf("%d of 1,000 strangers are new", n)
	}
	if g.wait(90 * day); strangers() < 990 {
		t.Errorf("%d of 1,000 strangers are new after 90 days", strangers())
	}
}

// Where the settled part is lost, a sketch says who is known, and with nothing left the user is a newcomer.
func TestLostKnown(t *testing.T) {
	for name, o := range map[string]Options{"known": {Over: KnownOnly}, "bloom": {Over: KnownOnly, Structure: Bloom}} {
		g := newRig(t, o).learnt(3)
		list := g.many(9_000)
		g.s.Learn(g.r, g.now, list)
		b, _ := g.s.AppendBinary(nil)
		g.s = State{}
		if err := g.s.UnmarshalBinary(b); err != nil || !g.s.NeedsKnown() {
			t.Fatal(err)
		}
		if err := g.s.SetKnown([]byte{1, 9, 9}); err == nil || !g.s.NeedsKnown() {
			t.Error("that is no settled part")
		}
		if err := g.s.SetKnown(nil); err != nil || g.s.NeedsKnown() {
			t.Error(err)
		}
		if stopped, flagged := g.list(list); stopped != 0 || flagged {
			t.Errorf("%s: %d stopped", name, stopped)
		}
		g.wait(8 * day).reload()
		if v := g.send(g.many(100)...); v.New < 98 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// More than there is room for in a set: a newsletter is none the less never flagged.
func TestMoreThanKnown(t *testing.T) {
	for _, o := range []Options{{Over: KnownOnly}, {Over: KnownOnly, Structure: Bloom}} {
		g := newRig(t, o).learnt(3)
		g.s.Learn(g.r, g.now, g.many(5_000))
		if o.Structure == Bloom {
			g.s.filter.words = make([]uint64, firstLayer*(1<<maxLayers-1))
			g.s.filter.set = 32 * len(g.s.filter.layer(maxLayers-1))
		} else {
			g.s.known.n = MaxKnown
		}
		list := g.many(5_000)
		g.s.Learn(g.r, g.now, list)
		if in := g.s.known; in != nil && in.Has(list[0]) {
			t.Fatal("there should be no room")
		}
		if stopped, flagged := g.list(list); stopped != 0 || flagged {
			t.Errorf("%s: %d stopped, %v", o.Structure, stopped, g.s.Figures(g.r, g.p, g.now))
		}
	}
}

// A thief with two new people an hour stays below 50 in every hour and every day. By default the week finds them.
func TestSlowThief(t *testing.T) {
	for _, c := range []struct {
		windows []Window
		found   int // with how many strangers; 0: never in two weeks
	}{
		{nil, DefaultFloor + 1}, {[]Window{Hour, Day}, 0},
	} {
		g := newRig(t, Options{Windows: c.windows}).learnt(3)
		found := 0
		for i := range 2 * 24 * 14 {
			if v := g.wait(30 * time.Minute).send(g.many(1)...); v.Flagged {
				found = i + 1
				break
			}
		}
		if found != c.found {
			t.Errorf("by %v the thief is found with stranger %d, want %d", c.windows, found, c.found)
		}
	}
}

// Who writes a count means an hour and a day, unless the week is listed.
func TestACountIsNotByTheWeek(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want []Window
	}{
		{Options{}, []Window{Hour, Day, Week}},
		{Options{Threshold: Threshold{Share: 2}}, []Window{Hour, Day, Week}},
		{Options{Threshold: Threshold{Count: 20}}, []Window{Hour, Day}},
		{Options{Threshold: Threshold{Count: 20}, Windows: []Window{Week}}, []Window{Week}},
	} {
		if got := c.o.WithDefaults().Windows; !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.o.Threshold, got, c.want)
		}
	}
}
