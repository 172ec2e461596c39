package quota

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
	"weir/store"
	"weir/store/sqlite"
)

// A shelf keeps counters as a store does: of the same one the last counts.
type shelf map[store.Counter]store.Counter

func (s shelf) put(t tb, batch []store.Counter) {
	t.Helper()
	if err := store.CheckBatch(batch); err != nil {
		t.Fatal(err)
	}
	for _, c := range batch {
		key := c
		key.Used, key.At, key.Until = 0, time.Time{}, time.Time{}
		if s[key] = c; c.Used == 0 {
			delete(s, key)
		}
	}
}

// take saves what has changed in a quota.
func (s shelf) take(t tb, q *Quota, now time.Time) (saved []store.Counter) {
	t.Helper()
	for more := true; more; {
		var batch []store.Counter
		batch, more = q.Dirty(nil, "plans", now)
		s.put(t, batch)
		saved = append(saved, batch...)
	}
	return saved
}

// give fills a fresh quota with what was saved.
func (s shelf) give(t tb, o Options, now time.Time) *Quota {
	t.Helper()
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s {
		if !c.Counts(now) {
			continue
		}
		if err := q.Restore(c, now); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
	}
	return q
}

// tb is what tests and cases of rapid have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func monthly(limit int64) Policy {
	return Policy{Name: "monthly", Limit: Count(limit), Period: weir.Period{Calendar: weir.Month},
		TimeZone: "Europe/Berlin"}
}

func daily(limit int64, w WindowKind) Policy {
	return Policy{Name: "daily", Limit: Count(limit), Period: weir.Period{Length: 24 * time.Hour}, Window: w}
}

// A month goes on over restarts, in a real store.
func TestARestartKeepsTheMonth(t *testing.T) {
	folder, o := t.TempDir(), one(perSecond(10), monthly(100))
	o.Overrides = map[string]map[string]Override{"acme": {"monthly": {Limit: Count(200)}}}
	from := func(addr string) weir.Event { return weir.Event{Source: netip.MustParseAddr(addr)} }
	now := epoch
	for run := range 4 {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, o)
		r.now = now
		if err := s.Counters().Load(t.Context(), now,
			func(c store.Counter) error { return r.q.Restore(c, now) }); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			for range 5 {
				r.admit("acme")
				r.admit("b")
				r.want(r.judge(from("2001:db8::1")), weir.Admit, 0)
			}
			r.now = r.now.Add(time.Second)
			batch, more := r.q.Dirty(nil, "plans", r.now)
			if err := s.Counters().Save(t.Context(), batch); err != nil || more || len(batch) != 3 {
				t.Fatalf("%d saved, more: %v, %v", len(batch), more, err)
			}
		}
		left := func(account string) int64 {
			s, _ := r.q.Account(account, r.now)
			return s.Rules[1].Remaining
		}
		used := int64(25 * (run + 1))
		if left("acme") != 200-used || left("b") != 100-used || left("2001:db8::2") != 100-used {
			t.Fatalf("run %d: %d, %d and %d left", run, left("acme"), left("b"), left("2001:db8::2"))
		}
		if run == 3 {
			r.refuse("b", weir.OverLimit)
			r.admit("acme")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		now = r.now.Add(5 * 24 * time.Hour)
	}
	// The next month begins at zero.
	s, err := sqlite.Open(t.Context(), sqlite.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now = time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC) // April in Berlin
	if err := s.Counters().Load(t.Context(), now,
		func(c store.Counter) error { return fmt.Errorf("%+v", c) }); err != nil {
		t.Error("still counts:", err)
	}
}

// A sliding window has the same curve after a restart: what was used when leaves the window when it would have.
func TestARestartKeepsTheCurve(t *testing.T) {
	for _, w := range []WindowKind{Sliding, GCRA} {
		o, saved := one(daily(100, w)), shelf{}
		r := newRig(t, o)
		for i := range 20 {
			for range i % 7 {
				r.admit("a")
			}
			r.now = r.now.Add(97 * time.Minute)
			saved.take(t, r.q, r.now)
		}
		q := saved.give(t, o, r.now)
		for range 40 {
			same(t, r.q, q, r.now, "a")
			r.now = r.now.Add(37 * time.Minute)
		}
	}
}

// same wants two quotas to give the same answer.
func same(t tb, a, b *Quota, now time.Time, account string) {
	t.Helper()
	for _, cost := range []int64{1, 2, 7, 100} {
		ev := weir.Event{Account: account, Time: now, Cost: cost}
		if account == "" {
			ev.Source = netip.MustParseAddr("192.0.2.77")
		}
		var one, other weir.Answer
		a.Peek(&ev, &one)
		b.Peek(&ev, &other)
		if !reflect.DeepEqual(one, other) {
			t.Fatalf("%q at %s:\n%+v\n%+v", account, now, one, other)
		}
	}
}

// Whatever is judged, saved now and then, and taken in by a fresh quota: both say the same, then and later.
func TestAnySequenceSurvives(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		o := longOptions(rt)
		r := newRig(t, o)
		accounts := []string{"a", "b", "member", "acme", ""}
		saved := shelf{}
		var under []*event
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2, 3:
				ev := weir.Event{Account: rapid.SampledFrom(accounts).Draw(rt, "account"),
					Cost: rapid.Int64Range(1, 3).Draw(rt, "cost")}
				if ev.Account == "" {
					ev.Source = netip.MustParseAddr("192.0.2.1")
				}
				if e := r.judge(ev); e.answer.Verdict == weir.Admit {
					under = append(under, e)
				}
			case 4:
				if len(under) > 0 {
					r.q.Flow(rapid.SampledFrom(under).Draw(rt, "flow").answer.Hold,
						rapid.Int64Range(1, 40).Draw(rt, "bytes"), r.now)
				}
			case 5:
				if len(under) > 0 {
					i := rapid.IntRange(0, len(under)-1).Draw(rt, "ends")
					r.settle(under[i], rapid.Bool().Draw(rt, "done"))
					under = slices.Delete(under, i, i+1)
				}
			case 6, 7:
				r.now = r.now.Add(time.Duration(rapid.IntRange(0, 10*3600).Draw(rt, "seconds")) * time.Second)
			case 8:
				saved.take(rt, r.q, r.now)
			case 9:
				r.q.Reset(rapid.SampledFrom(accounts[:4]).Draw(rt, "reset"), r.now)
			}
		}
		if again := saved.take(rt, r.q, r.now); len(again) > 0 && len(saved.take(rt, r.q, r.now)) != 0 {
			rt.Fatal("what was saved is still dirty")
		}
		q := saved.give(rt, o, r.now)
		for range 5 {
			for _, account := range accounts {
				same(rt, r.q, q, r.now, account)
			}
			r.now = r.now.Add(time.Duration(rapid.IntRange(1, 20*3600).Draw(rt, "later")) * time.Second)
		}
	})
}

// longOptions draws policies that are kept, with plans and overrides.
func longOptions(rt *rapid.T) Options {
	periods := []weir.Period{{Length: 90 * time.Minute}, {Length: 24 * time.Hour}, {Calendar: weir.Day},
		{Calendar: weir.Week}}
	var o Options
	for i := range rapid.IntRange(1, 4).Draw(rt, "policies") {
		p := Policy{Name: fmt.Sprint("p", i), Limit: Count(rapid.Int64Range(1, 20).Draw(rt, "limit"))}
		p.Period = rapid.SampledFrom(periods).Draw(rt, "period")
		if p.Period.Calendar == weir.NoCalendar {
			p.Window = rapid.SampledFrom([]WindowKind{Fixed, Sliding, GCRA}).Draw(rt, "window")
		} else {
			p.TimeZone = rapid.SampledFrom([]string{"", "America/New_York"}).Draw(rt, "zone")
		}
		p.Over = rapid.SampledFrom([]Over{OverRefuse, OverStamp}).Draw(rt, "over")
		switch rapid.IntRange(0, 4).Draw(rt, "kind") {
		case 0:
			p.Kind, p.Over, p.Limit = Volume, OverRefuse, Bytes(weir.Size(p.Limit.N))
		case 1:
			p = Policy{Name: p.Name, Kind: Idle, Gap: weir.Duration(2 * time.Hour)}
		}
		o.Policies = append(o.Policies, p)
	}
	if p := o.Policies[0]; p.Kind == "" {
		o.Plans = map[string]map[string]Override{"gold": {p.Name: {Limit: Count(30)}}}
		o.Members = map[string]string{"member": "gold"}
		o.Overrides = map[string]map[string]Override{"acme": {p.Name: {Limit: Count(9)}}}
	}
	o.SourceV4 = rapid.SampledFrom([]int{0, 24}).Draw(rt, "source_v4")
	return o
}

func TestDirtyIsWhatHasChanged(t *testing.T) {
	hour := Policy{Name: "hourly", Limit: Count(10), Period: weir.Period{Length: time.Hour}}
	r := newRig(t, one(perSecond(10), hour, daily(10, Sliding), monthly(10),
		Policy{Name: "at-once", Kind: Concurrent, Limit: Count(5)}))
	dirty := func(want ...string) {
		t.Helper()
		batch, more := r.q.Dirty(nil, "plans", r.now)
		var got []string
		for _, c := range batch {
			from, to := c.Period.Format("02 15:04"), c.Until.Format("02 15:04")
			got = append(got, fmt.Sprintf("%s/%s %d from %s to %s", c.Account, c.Rule, c.Used, from, to))
		}
		if slices.Sort(got); more || !slices.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	const day, month = "daily requests sliding 1d", "monthly requests fixed month Europe/Berlin"
	dirty()
	r.want(r.judge(weir.Event{Account: "a", Cost: 11}), weir.Refuse, weir.TooCostly) // is charged to nothing
	first := r.admit("a")
	dirty("a/"+day+" 1 from 02 00:00 to 03 01:30", "a/"+month+" 1 from 28 23:00 to 31 22:00")
	dirty()
	r.now = r.now.Add(3 * time.Hour)
	r.admit("a")
	r.admit("b")
	dirty("a/"+day+" 1 from 02 03:00 to 03 04:30", "a/"+month+" 2 from 28 23:00 to 31 22:00",
		"b/"+day+" 1 from 02 03:00 to 03 04:30", "b/"+month+" 1 from 28 23:00 to 31 22:00")
	r.settle(first, false) // gives back in an earlier part
	dirty("a/"+day+" 0 from 02 00:00 to 03 01:30", "a/"+month+" 1 from 28 23:00 to 31 22:00")
	r.q.Reset("a", r.now)
	dirty("a/"+day+" 0 from 02 03:00 to 03 04:30", "a/"+month+" 0 from 28 23:00 to 31 22:00")
	dirty()
}

func TestWhatIsKept(t *testing.T) {
	hour := weir.Period{Length: time.Hour}
	for name, c := range map[string]struct {
		p    Policy
		want bool
	}{
		"an hour":          {Policy{Limit: Count(1), Period: hour}, false},
		"more":             {Policy{Limit: Count(1), Period: weir.Period{Length: time.Hour + 1}}, true},
		"a day":            {Policy{Limit: Count(1), Period: weir.Period{Calendar: weir.Day}}, true},
		"bytes":            {Policy{Kind: Volume, Limit: Bytes(1), Period: weir.Period{Calendar: weir.Day}}, true},
		"places":           {Policy{Kind: Concurrent, Limit: Count(1)}, false},
		"a short gap":      {Policy{Kind: Idle, Gap: weir.Duration(time.Hour)}, false},
		"a long gap":       {Policy{Kind: Idle, Gap: weir.Duration(time.Hour + 1)}, true},
		"a burst of hours": {Policy{Limit: Count(1), Period: hour, Window: GCRA, Burst: Count(2)}, true},
	} {
		q, err := New(one(c.p).renamed())
		if err != nil {
			t.Fatal(err)
		}
		var a weir.Answer
		_ = q.Judge(t.Context(), &weir.Event{Account: "a", Time: epoch}, &a)
		if a.Hold.A != 0 {
			q.Flow(a.Hold, 1, epoch)
		}
		if saved, _ := q.Dirty(nil, "plans", epoch); (len(saved) == 1) != c.want || q.Keeps() != c.want {
			t.Errorf("%s: %+v, keeps: %v", name, saved, q.Keeps())
		}
	}
}

// What has left a sliding window is not told of, though its place in the ring is taken by another part.
func TestDirtyPartsAreThoseOfTheWindow(t *testing.T) {
	r := newRig(t, one(daily(10, Sliding)))
	for range 3 {
		r.admit("a")
		r.now = r.now.Add(15 * time.Hour)
	}
	var starts []string
	for _, c := range (shelf{}).take(t, r.q, r.now.Add(-15*time.Hour)) {
		starts = append(starts, c.Period.Format("02 15:04"))
	}
	if !slices.Equal(starts, []string{"02 15:00", "03 06:00"}) {
		t.Error(starts)
	}
}

// A batch never becomes larger than a store takes, and the next one goes on where it ended.
func TestDirtyHasBounds(t *testing.T) {
	needs.Unwatched(t)
	weekly := Policy{Name: "weekly", Limit: Count(5), Period: weir.Period{Calendar: weir.Week}}
	for _, c := range []struct {
		policies []Policy
		accounts int
		full     int // batches
		rest     int
	}{
		{[]Policy{weekly}, store.MaxBatch, 1, 0},
		{[]Policy{weekly}, 3*store.MaxBatch + 1, 3, 1},
		{[]Policy{weekly, daily(5, Fixed)}, store.MaxBatch/2 + 1, 1, 2},
	} {
		r := newRig(t, one(c.policies...))
		for i := range c.accounts {
			r.admit(fmt.Sprint("account-", i))
		}
		seen := map[string]int{}
		note := func(batch []store.Counter) {
			for _, c := range batch {
				seen[c.Account]++
			}
		}
		var batch []store.Counter
		more := true
		for i := range c.full {
			if batch, more = r.q.Dirty(batch[:0], "plans", r.now); len(batch) != store.MaxBatch ||
				more != (i < c.full-1 || c.rest > 0) {
				t.Fatalf("batch %d: %d counters, more: %v", i, len(batch), more)
			}
			note(batch)
		}
		if same, more := r.q.Dirty(batch, "plans", r.now); len(same) != store.MaxBatch || more != (c.rest > 0) {
			t.Fatalf("%d counters in a full batch, more: %v", len(same), more)
		}
		rest, more := r.q.Dirty(nil, "plans", r.now)
		if len(rest) != c.rest || more {
			t.Fatalf("%d at last, more: %v", len(rest), more)
		}
		note(rest)
		for account, n := range seen {
			if n != len(c.policies) {
				t.Fatalf("%s: %d counters", account, n)
			}
		}
		if len(seen) != c.accounts {
			t.Fatalf("%d accounts", len(seen))
		}
		if none, more := r.q.Dirty(nil, "plans", r.now); len(none) != 0 || more {
			t.Fatalf("%d counters are left", len(none))
		}
		some := 0
		for i := 0; i < c.accounts; i += 8 { // some of every shard: they are found in one go
			r.admit(fmt.Sprint("account-", i))
			some += len(c.policies)
		}
		if all, more := r.q.Dirty(nil, "plans", r.now); len(all) != some || more {
			t.Fatalf("%d counters of some accounts, want %d, more: %v", len(all), some, more)
		}
	}
}

// Nothing that a store would refuse is handed out: one bad id must not keep all others from being saved.
func TestUnsavable(t *testing.T) {
	r := newRig(t, one(daily(5, Fixed)))
	long := strings.Repeat("x", store.MaxAccount)
	for _, account := range []string{"good", long, long + "x", "bad\xff", "bad\x00"} {
		r.admit(account)
	}
	saved := shelf{}.take(t, r.q, r.now)
	if s := r.q.Stats(); len(saved) != 2 || s.Unsavable != 3 {
		t.Errorf("%d saved: %+v", len(saved), s)
	}
}

// What strangers share is nobody's.
func TestStrangersAreNotSaved(t *testing.T) {
	o := one(daily(5, Sliding), Policy{Name: "traffic", Kind: Volume, Limit: Bytes(10),
		Period: weir.Period{Calendar: weir.Month}})
	o.MaxAccounts = 1
	r := newRig(t, o)
	first, stranger := r.admit("a"), r.admit("b")
	for _, e := range []*event{first, stranger} {
		r.q.Flow(e.answer.Hold, 1, r.now)
		r.settle(e, true)
	}
	if saved := (shelf{}).take(t, r.q, r.now); len(saved) != 2 || saved[0].Account != "a" || saved[1].Account != "a" {
		t.Errorf("%+v", saved)
	}
	o.Policies = o.Policies[:1]
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, nil, ErrTableFull} {
		c := counter("daily requests sliding 1d", []string{"a", "a", "b"}[i], 1)
		if err := q.Restore(c, epoch); !errors.Is(err, want) {
			t.Errorf("%s: %v", c.Account, err)
		}
	}
}

// An account that was reset stays reset, even if it is forgotten before anything is saved.
func TestAResetSurvives(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		o, saved := one(daily(2, w)), shelf{}
		o.MaxAccounts = 1
		r := newRig(t, o)
		r.admit("a")
		r.admit("a")
		if saved.take(t, r.q, r.now); len(saved) != 1 {
			t.Fatalf("%+v", saved)
		}
		r.q.Reset("a", r.now)
		r.admit("b") // has no room yet
		if _, known := r.q.Account("b", r.now); known {
			t.Error("who was reset has been forgotten before that was saved")
		}
		if saved.take(t, r.q, r.now); len(saved) != 0 {
			t.Errorf("%s: %+v", w, saved)
		}
		r.admit("b")
		if _, known := r.q.Account("b", r.now); !known {
			t.Error("who was reset is never forgotten")
		}
	}
	r := newRig(t, Options{Policies: []Policy{daily(2, Fixed)}, MaxAccounts: 1}) // nobody saves
	r.admit("a")
	r.q.Reset("a", r.now)
	r.admit("b")
	if _, known := r.q.Account("b", r.now); !known {
		t.Error("where nobody saves, nobody waits for it")
	}
}

// Accounts come and go, and what is saved is what they have.
func TestForgettingLosesNoChange(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		o, saved := one(daily(100, Fixed)), shelf{}
		o.MaxAccounts = 600
		r := newRig(t, o)
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0:
				first := rapid.IntRange(0, 2000).Draw(rt, "first")
				for i := range rapid.IntRange(1, 300).Draw(rt, "n") {
					r.admit(fmt.Sprint(first + i))
				}
			case 1:
				saved.take(rt, r.q, r.now)
			case 2:
				r.now = r.now.Add(24 * time.Hour)
			}
		}
		saved.take(rt, r.q, r.now)
		q := saved.give(rt, o, r.now)
		for i := range r.q.table.shards {
			for _, a := range r.q.table.shards[i].ring {
				same(rt, r.q, q, r.now, a.name)
			}
		}
	})
}

// Marks move with the accounts when others leave.
func TestMarksMove(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := &newTable().shards[0]
		marked := map[*account]bool{}
		kept := &rule{kept: true}
		for i := range rapid.IntRange(1, 200).Draw(rt, "accounts") {
			s.add(uint64(i)<<8, newAccount(s, fmt.Sprint(i), netip.Addr{}), false)
		}
		for range rapid.IntRange(1, 100).Draw(rt, "steps") {
			if len(s.ring) == 0 {
				break
			}
			a := s.ring[rapid.IntRange(0, len(s.ring)-1).Draw(rt, "who")]
			if rapid.Bool().Draw(rt, "leaves") {
				s.leave(a)
				delete(marked, a)
				a.mark(kept, nil, nil, 0) // somebody still knows it
			} else {
				a.mark(kept, nil, nil, 0)
				marked[a] = true
			}
		}
		found := 0
		for word := s.changed.next(0); word >= 0; word = s.changed.next(word + 1) {
			found += bits.OnesCount64(s.changed[word])
		}
		for at, a := range s.ring {
			if int(a.index) != at || s.changed.has(at) != marked[a] {
				rt.Fatalf("%s stands at %d and thinks at %d; marked: %v, want %v", a.name, at, a.index,
					s.changed.has(at), marked[a])
			}
		}
		if found != len(marked) {
			rt.Fatalf("%d marks, want %d", found, len(marked))
		}
	})
}

// What is given back to an account that has been forgotten is nobody else's.
func TestGivingBackToWhomNobodyKnows(t *testing.T) {
	r := newRig(t, Options{Policies: []Policy{daily(5, Fixed)}, MaxAccounts: 1})
	e := r.admit("a")
	r.now = r.now.Add(48 * time.Hour)
	r.admit("b")
	r.settle(e, false)
	if saved := (shelf{}).take(t, r.q, r.now); len(saved) != 1 || saved[0].Account != "b" || saved[0].Used != 1 {
		t.Errorf("%+v", saved)
	}
}

// A store is written while everybody is at work: nothing is lost, and the race detector looks on.
func TestDirtyWhileAtWork(t *testing.T) {
	o := one(daily(1<<40, Fixed), daily(1<<40, Sliding), daily(1<<40, GCRA), monthly(1<<40)).renamed()
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	saved, end := shelf{}, epoch.Add(2000*time.Second)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				now := epoch.Add(time.Duration(i) * time.Second)
				ev := weir.Event{Time: now, Account: fmt.Sprint(i % 100)}
				var a weir.Answer
				_ = q.Judge(context.Background(), &ev, &a)
				q.Settle(a.Hold, weir.Outcome{Time: now, Done: i%5 > 0})
				switch {
				case g == 0 && i%200 == 0:
					_ = q.Configure(o, now)
				case g == 1 && i%100 == 7:
					q.Reset("7", now)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		saved.take(t, q, end)
	}
	fresh := saved.give(t, o, end)
	for i := range 100 {
		same(t, q, fresh, end, fmt.Sprint(i))
	}
}

func TestTheFarthestMoment(t *testing.T) {
	c := counter("x", "a", 1)
	if c.Until = moment(math.MaxInt64); c.Validate() != nil || c.Until.UnixNano() != farthest {
		t.Error(c.Validate())
	}
	if c.Until = c.Until.Add(1); c.Validate() == nil {
		t.Error("a store can tell more")
	}
}

func TestMarkingAndSavingAllocateLittle(t *testing.T) {
	r := newRig(t, one(daily(1<<40, Fixed), daily(1<<40, Sliding), monthly(1<<40)).renamed())
	var a weir.Answer
	batch := make([]store.Counter, 0, 64)
	ev := weir.Event{Account: "a", Time: r.now}
	if n := testing.AllocsPerRun(1000, func() {
		a.Clear()
		_ = r.q.Judge(context.Background(), &ev, &a)
		r.q.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true})
		if saved, more := r.q.Dirty(batch, "plans", r.now); len(saved) != 3 || more {
			t.Fatal(saved)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// renamed gives each policy a name of its own.
func (o Options) renamed() Options {
	for i := range o.Policies {
		o.Policies[i].Name = fmt.Sprint("p", i)
	}
	return o
}
