package quota

import (
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"weir"
	"weir/store"
)

// counter is one that counts from the epoch of the tests for a day.
func counter(rule, account string, used int64) store.Counter {
	return store.Counter{Throttle: "plans", Rule: rule, Account: account, Period: epoch, Used: used,
		Until: epoch.Add(24 * time.Hour)}
}

func TestWhatIsNotRestored(t *testing.T) {
	traffic := Policy{Name: "traffic", Kind: Volume, Limit: Bytes(10), Period: weir.Period{Length: 24 * time.Hour}}
	o := one(daily(5, Fixed), monthly(5), traffic,
		Policy{Name: "hourly", Limit: Count(5), Period: weir.Period{Length: time.Hour}},
		Policy{Name: "slow", Limit: Count(5), Period: weir.Period{Length: 24 * time.Hour}, Window: GCRA},
		Policy{Name: "sliding", Limit: Count(5), Period: weir.Period{Length: 24 * time.Hour}, Window: Sliding})
	o.SourceV4 = 24
	const day = "daily requests fixed 1d"
	at := func(c store.Counter, from, until time.Duration) store.Counter {
		c.Period, c.Until = epoch.Add(from), epoch.Add(until)
		return c
	}
	source := func(rule, addr string) store.Counter {
		c := counter(rule, "", 3)
		c.Source = netip.MustParseAddr(addr)
		return c
	}
	asOf := func(d time.Duration) store.Counter {
		c := at(counter("traffic volume fixed 1d", "a", 3), 0, 24*time.Hour)
		c.At = epoch.Add(d)
		return c
	}
	const hour = time.Hour
	for name, c := range map[string]struct {
		counter store.Counter
		want    error
	}{
		"good":                 {counter(day, "a", 3), nil},
		"a source":             {source(day+" by /24", "192.0.2.0"), nil},
		"another name":         {counter("weekly requests fixed 1d", "a", 3), ErrNoPolicy},
		"another kind":         {counter("daily volume fixed 1d", "a", 3), ErrNoPolicy},
		"another window":       {counter("daily requests sliding 1d", "a", 3), ErrNoPolicy},
		"another period":       {counter("daily requests fixed 2d", "a", 3), ErrNoPolicy},
		"another zone":         {counter("monthly requests fixed month UTC", "a", 3), ErrNoPolicy},
		"a short one":          {counter("hourly requests fixed 1h", "a", 3), ErrNoPolicy},
		"nothing":              {counter("", "a", 3), store.ErrInvalid},
		"below zero":           {counter(day, "a", -3), store.ErrInvalid},
		"another network":      {source(day+" by /32", "192.0.2.0"), ErrNoPolicy},
		"no network":           {source(day+" by /24", "192.0.2.1"), ErrNoPolicy},
		"a source as account":  {source(day, "192.0.2.0"), ErrNoPolicy},
		"an account as source": {counter(day+" by /24", "a", 3), ErrNoPolicy},
		"over":                 {at(counter(day, "a", 3), -24*hour, 0), ErrOver},
		"over, and says not":   {at(counter(day, "a", 3), -24*hour, hour), ErrOver},
		"to come":              {at(counter(day, "a", 3), 24*hour, 48*hour), ErrOver},
		"last in a ring":       {at(counter("sliding requests sliding 1d", "a", 3), -24*hour, 90*time.Minute), nil},
		"over in a ring": {at(counter("sliding requests sliding 1d", "a", 3), -25*hour-30*time.Minute, hour),
			ErrOver},
		"to come in a ring":     {at(counter("sliding requests sliding 1d", "a", 3), 2*hour, 27*hour), ErrOver},
		"paid off at two times": {counter("slow requests gcra 1d", "a", 3), store.ErrInvalid},
		"bytes, as of a day":    {asOf(-24 * hour), nil},
		"bytes to come":         {asOf(hour), ErrOver},
		"bytes as of never":     {counter("traffic volume fixed 1d", "a", 3), store.ErrInvalid},
	} {
		q, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Restore(c.counter, epoch); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if s := q.Stats(); (s.Accounts == 1) != (c.want == nil) {
			t.Errorf("%s: %d accounts", name, s.Accounts)
		}
	}
	o.OnMissing = MissingRefuse
	q, _ := New(o)
	if err := q.Restore(source(day+" by /24", "192.0.2.0"), epoch); !errors.Is(err, ErrNoPolicy) {
		t.Error("a source where there are none:", err)
	}
}

// A limit may have changed, and UTC is UTC whether it is written or not.
func TestRestoredUnderAnotherLimit(t *testing.T) {
	for _, p := range []Policy{daily(10, Fixed), daily(10, Sliding),
		{Name: "day", Limit: Count(10), Period: weir.Period{Calendar: weir.Day}}} {
		r := newRig(t, one(p))
		for range 8 {
			r.admit("a")
		}
		saved := shelf{}
		saved.take(t, r.q, r.now)
		for limit, left := range map[int64]int64{5: 0, 10: 2, 20: 12} {
			p.Limit = Count(limit)
			if p.Period.Calendar != weir.NoCalendar {
				p.TimeZone = "UTC"
			}
			if s, _ := saved.give(t, one(p), r.now).Account("a", r.now); s.Rules[0].Remaining != left {
				t.Errorf("%s: limit %d: %+v", p.Name, limit, s.Rules)
			}
		}
	}
}

func TestRestoringAdds(t *testing.T) {
	steady := daily(10, GCRA)
	traffic := Policy{Name: "daily", Kind: Volume, Limit: Bytes(10), Period: weir.Period{Length: 24 * time.Hour}}
	for _, p := range []Policy{daily(10, Fixed), daily(10, Sliding), steady, traffic} {
		r, saved := newRig(t, one(p)), shelf{}
		use := func(r *rig, n int) {
			for range n {
				e := r.admit("a")
				r.q.Flow(e.answer.Hold, 1, r.now)
				r.settle(e, true)
			}
		}
		use(r, 3)
		saved.take(t, r.q, r.now)
		fresh := newRig(t, one(p))
		use(fresh, 2)
		for _, c := range saved {
			if err := fresh.q.Restore(c, fresh.now); err != nil {
				t.Fatal(err)
			}
		}
		if s, _ := fresh.q.Account("a", fresh.now); s.Rules[0].Remaining != 5 {
			t.Errorf("%s %s: %+v", p.Kind, p.Window, s.Rules)
		}
		use(fresh, 1)
		saved.take(t, fresh.q, fresh.now) // the sum is the new total
		if s, _ := saved.give(t, one(p), fresh.now).Account("a", fresh.now); s.Rules[0].Remaining != 4 {
			t.Errorf("%s %s, saved again: %+v", p.Kind, p.Window, s.Rules)
		}
	}
}

// What is owed is owed once, however many periods it has been saved in, and paid off while nothing runs.
func TestADebtOfBytesSurvives(t *testing.T) {
	for _, period := range []weir.Period{{Length: 24 * time.Hour}, {Calendar: weir.Day}} {
		o := one(Policy{Name: "traffic", Kind: Volume, Limit: Bytes(10), Period: period})
		o.Plans = map[string]map[string]Override{"gold": {"traffic": {Limit: Bytes(20)}}}
		r, saved := newRig(t, o), shelf{}
		e := r.want(r.judge(weir.Event{Account: "a", Plan: "gold"}), weir.Admit, 0)
		r.q.Flow(e.answer.Hold, 95, r.now)
		saved.take(t, r.q, r.now)
		for range 2 {
			r.now = r.now.Add(24 * time.Hour)
			r.q.Flow(e.answer.Hold, 1, r.now)
			saved.take(t, r.q, r.now)
		}
		if len(saved) != 1 {
			t.Fatalf("%d counters of one debt", len(saved))
		}
		for _, c := range saved { // 95 + 2 - 40 are owed, 20 a day are paid
			if want := epoch.Add(5 * 24 * time.Hour); c.Used != 57 || !c.Until.Equal(want) || !c.At.Equal(r.now) {
				t.Fatalf("%+v, want until %s", c, want)
			}
		}
		r.now = r.now.Add(2*24*time.Hour + time.Hour)
		fresh := &rig{t: t, q: saved.give(t, o, r.now), now: r.now}
		e = fresh.want(fresh.judge(weir.Event{Account: "a", Plan: "gold"}), weir.Admit, 0) // the plan is known only now
		if f := e.answer.Figures[0]; f.Remaining != 3 {
			t.Errorf("%+v", f)
		}
	}
}

// Whatever is restored, nothing breaks and nobody is shut out for longer than the limit itself would.
func FuzzRestore(f *testing.F) {
	o := one(daily(5, Fixed), daily(5, Sliding), daily(5, GCRA), monthly(5),
		Policy{Kind: Volume, Limit: Bytes(10), Period: weir.Period{Length: 24 * time.Hour}},
		Policy{Kind: Volume, Limit: Bytes(10), Period: weir.Period{Calendar: weir.Month}},
		Policy{Kind: Volume, Limit: Bytes(10), Period: weir.Period{Length: 24 * time.Hour}, Window: Sliding},
		Policy{Kind: Volume, Limit: Bytes(10), Period: weir.Period{Length: 24 * time.Hour}, Window: GCRA},
		Policy{Kind: Idle, Gap: weir.Duration(3 * time.Hour)}).renamed()
	texts := []string{"", "nobody", "p0 requests fixed 1d by /32"}
	q, err := New(o)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range q.rules.Load().list {
		texts = append(texts, r.texts.account)
	}
	day, at := int64(24*time.Hour), epoch.UnixNano()
	for i := range texts {
		f.Add(uint8(i), "a", "", at, int64(3), at, at+day, int64(0))
		f.Add(uint8(i), "a", "", int64(0), at+day/2, int64(0), at+day/2, day)
		f.Add(uint8(i), "", "192.0.2.1", at-day, int64(math.MaxInt64), at-40*day, int64(farthest), int64(-1))
	}
	f.Fuzz(func(t *testing.T, rule uint8, account, source string, period, used, asOf, until, later int64) {
		q, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		c := store.Counter{Throttle: "plans", Rule: texts[int(rule)%len(texts)], Account: account,
			Period: time.Unix(0, period), Used: used, Until: time.Unix(0, until)}
		if asOf != 0 {
			c.At = time.Unix(0, asOf)
		}
		c.Source, _ = netip.ParseAddr(source)
		for range 3 {
			if q.Restore(c, epoch) != nil && q.Stats().Accounts > 0 {
				t.Fatal("passed over, and yet there is an account")
			}
		}
		now := epoch.Add(max(0, time.Duration(later%(60*day))))
		ev := weir.Event{Account: account, Source: c.Source, Time: now}
		var a weir.Answer
		q.Peek(&ev, &a)
		for i, figure := range a.Figures {
			if figure.Remaining < 0 || figure.Remaining > figure.Limit {
				t.Fatalf("%+v", figure)
			}
			if figure.Unit == unitRequests && figure.Reset.Sub(now) > 31*24*time.Hour+time.Hour {
				t.Fatalf("p%d: %+v at %s", i, figure, now)
			}
		}
		endless := a.Unit == unitBytes && a.Reason == weir.TooCostly // what is owed may be that much
		if a.Verdict != weir.Admit && a.Reason != weir.OverLimit && a.Reason != weir.NoAccount && !endless {
			t.Fatal(a.Explain())
		}
		if err := q.Judge(t.Context(), &ev, &a); err != nil {
			t.Fatal(err)
		}
		shelf{}.take(t, q, now)
	})
}
