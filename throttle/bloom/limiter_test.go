package bloom

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// A rig is a limiter that is asked in simulated time and advanced when it is due.
type rig struct {
	*Limiter
	t       testing.TB
	now     time.Time
	due     time.Time
	judge   weir.Throttle
	notices []Notice
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	l, err := New(o, start)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Limiter: l, t: t, now: start, judge: l.Throttle()}
	l.Notify(func(n Notice) { r.notices = append(r.notices, n) })
	l.Alarm(func(due time.Time) { r.due = due })
	return r
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	until := r.now.Add(d)
	for !r.due.After(until) {
		r.now = r.due
		r.due = r.Advance(r.now)
	}
	r.now = until
}

func (r *rig) ask(source string, cost int64) weir.Answer {
	return r.askAddr(netip.MustParseAddr(source), cost)
}

func (r *rig) askAddr(source netip.Addr, cost int64) (a weir.Answer) {
	if err := r.judge.Judge(context.Background(), &weir.Event{Time: r.now, Source: source, Cost: cost},
		&a); err != nil {
		r.t.Fatal(err)
	}
	return a
}

// burst asks until it is refused and returns how often it was not.
func (r *rig) burst(source string) (n int) {
	for r.ask(source, 1).Verdict == weir.Admit {
		n++
	}
	return n
}

// TestLevels: of several widths of IPv6 networks all must pass, and a refusal takes nothing of the others.
func TestLevels(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(10), Burst: 10, V6: []int{64, 48}, Wider: 2})
	if n := r.burst("2001:db8:1:1::1"); n != 10 {
		t.Errorf("the first /64 got %d", n)
	}
	if a := r.ask("2001:db8:1:1::1", 1); a.Rule != "v6/64" || a.Reason != weir.OverLimit || a.Limit != 10 ||
		a.Until.IsZero() {
		t.Errorf("%s", a.Explain())
	}
	if n := r.burst("2001:db8:1:2::1"); n != 10 {
		t.Errorf("the second /64 got %d", n)
	}
	// The /48 has twice the limit of a /64, and has used it.
	if a := r.ask("2001:db8:1:3::1", 1); a.Verdict != weir.Refuse || a.Rule != "v6/48" || a.Limit != 20 {
		t.Errorf("%s", a.Explain())
	}
	var peek weir.Answer
	r.Peek(&weir.Event{Time: r.now, Source: netip.MustParseAddr("2001:db8:1:3::1")}, &peek)
	if len(peek.Figures) != 2 || peek.Figures[0].Remaining != 10 || peek.Figures[1].Remaining != 0 ||
		peek.Verdict != weir.Refuse {
		t.Errorf("the refusals have taken something of the third /64: %+v", peek.Figures)
	}
	if n := r.burst("2001:db8:2::1"); n != 10 {
		t.Errorf("another /48 got %d", n)
	}
	if n := r.burst("192.0.2.1"); n != 10 {
		t.Errorf("IPv4 got %d", n)
	}
	if a := r.ask("192.0.2.77", 1); a.Rule != "v4/24" {
		t.Errorf("%s", a.Explain())
	}
	if a := r.ask("::ffff:192.0.2.77", 1); a.Rule != "v4/24" || a.Verdict != weir.Refuse {
		t.Errorf("mapped into IPv6: %s", a.Explain())
	}
}

// TestRanges: groups count as one, exemptions are not limited, the narrower range decides.
func TestRanges(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(10), Burst: 10,
		Groups: map[string][]netip.Prefix{"office": {netip.MustParsePrefix("198.51.100.0/24"),
			netip.MustParsePrefix("2001:db8:9::/48")}},
		Exempt: []netip.Prefix{netip.MustParsePrefix("198.51.100.7/32"), netip.MustParsePrefix("203.0.113.0/24")}})
	if n := r.burst("198.51.100.1"); n != 10 {
		t.Errorf("the group got %d", n)
	}
	if a := r.ask("2001:db8:9::1", 1); a.Verdict != weir.Refuse || a.Rule != "group office" {
		t.Errorf("%s", a.Explain())
	}
	for range 100 {
		if a := r.ask("198.51.100.7", 1); a.Verdict != weir.Admit || !a.Hold.IsZero() {
			t.Fatalf("%s", a.Explain())
		}
		if a := r.ask("203.0.113.200", 1); a.Verdict != weir.Admit {
			t.Fatalf("%s", a.Explain())
		}
	}
}

func TestOddEvents(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(50), Burst: 50})
	if a := r.askAddr(netip.Addr{}, 1); a.Verdict != weir.Refuse || a.Reason != weir.NoSource {
		t.Errorf("without a source: %s", a.Explain())
	}
	if a := r.ask("192.0.2.1", 51); a.Verdict != weir.Refuse || a.Reason != weir.TooCostly || !a.Until.IsZero() {
		t.Errorf("more than the burst: %s", a.Explain())
	}
	if a := r.ask("192.0.2.1", math.MaxInt64); a.Reason != weir.TooCostly {
		t.Errorf("the most: %s", a.Explain())
	}
	if a := r.ask("192.0.2.1", 50); a.Verdict != weir.Admit {
		t.Errorf("the whole burst: %s", a.Explain())
	}
}

// TestSettle: what did not go on is given back, on every level; what did is spent.
func TestSettle(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(10), Burst: 10, V6: []int{64, 56, 48, 32}, Wider: 1})
	for range 100 {
		a := r.ask("2001:db8::1", 1)
		if a.Verdict != weir.Admit {
			t.Fatal(a.Explain())
		}
		r.Settle(a.Hold, weir.Outcome{Time: r.now})
	}
	a := r.ask("2001:db8::1", 1)
	r.Settle(a.Hold, weir.Outcome{Time: r.now, Done: true})
	if n := r.burst("2001:db8::1"); n != 9 {
		t.Errorf("%d left, want 9", n)
	}
	for _, f := range r.ask("2001:db8::1", 1).Figures {
		if f.Remaining != 0 {
			t.Errorf("%+v", f)
		}
	}
}

// TestRate: over any time a source gets its burst and its rate.
func TestRate(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(100), Burst: 200, Attackers: 100})
	r.pass(17 * time.Second)
	granted := r.burst("192.0.2.1")
	if granted != 200 {
		t.Errorf("%d at once after an idle time", granted)
	}
	from := r.now
	for range 10_000 {
		r.pass(3 * time.Millisecond)
		if r.ask("192.0.2.1", 1).Verdict == weir.Admit {
			granted++
		}
	}
	if most := 200 + int(r.now.Sub(from).Seconds()*100); granted > most || granted < most-2 {
		t.Errorf("%d granted in %s, want nearly %d", granted, r.now.Sub(from), most)
	}
}

// TestRotation: the keys change, the flood does not profit, and other networks share limiters.
func TestRotation(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(10), Burst: 20, Rotate: weir.Duration(time.Minute), Attackers: 1000})
	first := r.setup.Load().levels[0].now.key
	granted := 0
	for range 3 * 60 * 20 { // three minutes, twice the limit
		r.pass(50 * time.Millisecond)
		if r.ask("192.0.2.1", 1).Verdict == weir.Admit {
			granted++
		}
	}
	if got := r.Stats().Rotations; got < 2 || got > 3 {
		t.Errorf("%d rotations in three minutes", got)
	}
	if r.setup.Load().levels[0].now.key == first {
		t.Error("the key is the same")
	}
	if granted > 3*60*10+20 || granted < 3*60*10 {
		t.Errorf("%d granted in three minutes at 10/s", granted)
	}
}

// TestGrowth: too much damage is told; with leave, the tables grow until it is not.
func TestGrowth(t *testing.T) {
	needs.Unwatched(t)
	const attackers = 400
	attack := func(r *rig) {
		for range 8 {
			for i := range attackers {
				for range 12 {
					r.askAddr(source(i), 1)
				}
			}
			r.pass(5 * time.Second)
		}
	}
	o := Options{Rate: weir.Rate{Count: 10, Per: time.Minute}, Burst: 10, Attackers: 100, V6: []int{64}}
	r := newRig(t, o)
	attack(r)
	if len(r.notices) != 1 || r.notices[0].What != NoticeOver || r.notices[0].Collateral < 0.3 {
		t.Fatalf("told %+v", r.notices)
	}
	if got := r.Stats().Attackers; got < attackers*3/4 || got > attackers*5/4 {
		t.Errorf("an estimate of %d attackers, there are %d", got, attackers)
	}
	o.MaxMemory = 64 << 10
	r = newRig(t, o)
	for range 8 {
		attack(r)
	}
	var told []string
	for _, n := range r.notices {
		told = append(told, n.What)
	}
	if got := strings.Join(told, " "); !strings.HasPrefix(got, "over grown") || !strings.Contains(got, "under") {
		t.Errorf("told %s", got)
	}
	if got := r.Collateral(); got > o.WithDefaults().Collateral {
		t.Errorf("%s of the innocent are still refused", got)
	}
	if got := r.Stats().Bytes; got > 64<<10 {
		t.Errorf("%d bytes", got)
	}
	r.Retire(r.now)
	if due := r.Advance(r.now); !due.IsZero() {
		t.Error("a retired limiter is due again")
	}
}

// TestCollateral: the share of innocent networks refused is what the formula says, and what the limiter estimates.
func TestCollateral(t *testing.T) {
	needs.Unwatched(t)
	const attackers = 2000
	o := Options{Rate: weir.Rate{Count: 60, Per: time.Minute}, Burst: 50, Attackers: attackers, Collateral: 0.05,
		V6: []int{64}}
	r := newRig(t, o)
	for range 3 {
		for i := range attackers {
			for range 52 {
				r.askAddr(source(i), 1)
			}
		}
		r.pass(5*time.Second + 100*time.Millisecond) // a little more than a whole number of tokens
	}
	for i := range attackers {
		for range 6 {
			r.askAddr(source(i), 1)
		}
	}
	r.tend(r.now.Sub(start))
	r.note()
	refused := 0
	const probes = 50_000
	for i := range probes {
		var a weir.Answer
		r.Peek(&weir.Event{Time: r.now, Source: source(1<<20 + i)}, &a)
		if a.Verdict == weir.Refuse {
			refused++
		}
	}
	got := float64(refused) / probes
	if math.Abs(got-0.05) > 0.006 {
		t.Errorf("%.4f of the innocent are refused, want 0.05", got)
	}
	if e := float64(r.Collateral()); math.Abs(e-got) > 0.006 {
		t.Errorf("an estimate of %.4f, %.4f are refused", e, got)
	}
}

// TestConfigure: what sources have used is kept unless their limit has changed; a mistake changes nothing.
func TestConfigure(t *testing.T) {
	o := Options{Rate: perSecond(10), Burst: 10}
	r := newRig(t, o)
	r.burst("192.0.2.1")
	o.Exempt = []netip.Prefix{netip.MustParsePrefix("192.0.3.0/24")}
	if err := r.Configure(o, r.now); err != nil {
		t.Fatal(err)
	}
	if a := r.ask("192.0.2.1", 1); a.Verdict != weir.Refuse {
		t.Error("what was used is forgotten")
	}
	for range 20 {
		if a := r.ask("192.0.3.1", 1); a.Verdict != weir.Admit {
			t.Fatal("the exemption has no effect")
		}
	}
	if err := r.Configure(Options{Rate: perSecond(10), K: 9}, r.now); err == nil {
		t.Error("nine limiters are taken")
	}
	o.Rate = perSecond(20)
	o.Burst = 20
	if err := r.Configure(o, r.now); err != nil {
		t.Fatal(err)
	}
	if n := r.burst("192.0.2.1"); n != 20 {
		t.Errorf("%d with the new limit", n)
	}
}

// TestPace: bytes that flow are never cut off, but paced to the rate.
func TestPace(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(1_000_000), Burst: 1_000_000, Count: Bytes, Attackers: 100})
	var a weir.Answer
	ev := weir.Event{Time: r.now, Source: netip.MustParseAddr("192.0.2.1")}
	if err := r.judge.Judge(context.Background(), &ev, &a); err != nil || a.Verdict != weir.Admit {
		t.Fatal(err, a.Explain())
	}
	meter := r.judge.(weir.Meter)
	const chunk, total = 16 << 10, 11_000_000
	for sent := 0; sent < total; sent += chunk {
		if until := meter.Flow(a.Hold, chunk, r.now); until.After(r.now) {
			r.pass(until.Sub(r.now))
		}
	}
	if took := r.now.Sub(start); took < 9500*time.Millisecond || took > 10500*time.Millisecond {
		t.Errorf("11 MB at 1 MB/s and a burst of 1 MB took %s, want 10 s", took)
	}
	r.judge.Settle(a.Hold, weir.Outcome{Time: r.now, Done: true})

	// Whoever comes in many short visits gets no more than who comes in one.
	r.pass(time.Minute)
	from, sent := r.now, 0
	for r.now.Sub(from) < 10*time.Second {
		a.Clear()
		ev = weir.Event{Time: r.now, Source: ev.Source}
		if _ = r.judge.Judge(context.Background(), &ev, &a); a.Verdict != weir.Admit {
			if a.Reason != weir.OverLimit || !a.Until.After(r.now) {
				t.Fatal(a.Explain())
			}
			r.pass(time.Millisecond)
			continue
		}
		meter.Flow(a.Hold, 20_000, r.now) // and is gone before the pause
		sent += 20_000
		r.judge.Settle(a.Hold, weir.Outcome{Time: r.now, Done: true})
	}
	if sent < 11_000_000 || sent > 13_000_000 {
		t.Errorf("%d bytes in short visits of 10 s, want 10 MB, a burst, and what may be owed", sent)
	}

	// What is known to be large is judged at once.
	r.pass(time.Minute)
	ev = weir.Event{Time: r.now, Source: ev.Source, Bytes: 100_000}
	granted := 0
	for {
		a.Clear()
		if _ = r.judge.Judge(context.Background(), &ev, &a); a.Verdict != weir.Admit {
			break
		}
		granted++
	}
	if granted < 9 || granted > 10 || a.Unit != "bytes" {
		t.Errorf("%d of 100 kB granted: %s", granted, a.Explain())
	}
	// What was taken at once is not charged again when it flows.
	r.pass(time.Minute)
	left := func() int64 {
		var peek weir.Answer
		r.judge.Peek(&weir.Event{Time: r.now, Source: ev.Source}, &peek)
		return peek.Figures[0].Remaining
	}
	a.Clear()
	ev.Time = r.now
	_ = r.judge.Judge(context.Background(), &ev, &a)
	before := left()
	meter.Flow(a.Hold, 60_000, r.now)
	meter.Flow(a.Hold, 40_000, r.now)
	if got := left(); got != before {
		t.Errorf("%d left, %d before the bytes flowed", got, before)
	}
	meter.Flow(a.Hold, 40_000, r.now)
	if got := left(); got != before-40_000 {
		t.Errorf("%d left, want %d", got, before-40_000)
	}
	for bytes, want := range map[int64]weir.Reason{1_000_000: 0, 1_000_001: weir.TooCostly} {
		r.pass(time.Minute)
		ev = weir.Event{Time: r.now, Source: ev.Source, Bytes: bytes}
		a.Clear()
		if _ = r.judge.Judge(context.Background(), &ev, &a); a.Reason != want {
			t.Errorf("%d bytes, with a burst of 1000000: %s", bytes, a.Explain())
		}
	}
}

// TestNoAllocation: neither a grant nor a refusal allocates.
func TestNoAllocation(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(1), Burst: 5})
	ev := weir.Event{Time: r.now, Source: netip.MustParseAddr("2001:db8::1")}
	var a weir.Answer
	if n := testing.AllocsPerRun(100, func() {
		a.Clear()
		_ = r.Judge(context.Background(), &ev, &a)
		r.Settle(a.Hold, weir.Outcome{Time: r.now, Done: true})
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestOptions(t *testing.T) {
	good := Options{Rate: perSecond(100), Burst: 200}
	with := func(change func(*Options)) Options {
		o := good
		change(&o)
		return o
	}
	prefixes := func(n int) (all []netip.Prefix) {
		for i := range n {
			all = append(all, netip.PrefixFrom(source(i), 32))
		}
		return all
	}
	for name, c := range map[string]struct {
		o    Options
		want string // part of the mistake; empty when there is none
	}{
		"good":  {good, ""},
		"least": {Options{Rate: weir.Rate{Count: 1, Per: maxPer}}, ""},
		"most": {with(func(o *Options) {
			o.Rate.Count, o.Burst, o.Wider, o.Count = MaxRate, 1<<40, 1,
				Bytes
		}), ""},
		"no rate":         {Options{}, "no limit"},
		"rate":            {with(func(o *Options) { o.Rate.Count = MaxRate + 1 }), "out of bounds"},
		"burst below k":   {with(func(o *Options) { o.Burst = 4 }), "less than one token"},
		"burst within us": {with(func(o *Options) { o.Rate.Count = 1e9 }), "microseconds"},
		"grain":           {with(func(o *Options) { o.Burst, o.Grain = 65536*5, 1 }), "at most 65535 tokens"},
		"burst of events": {with(func(o *Options) { o.Burst = 65535*5 + 5 }), "at most 65535 tokens"},
		"largest burst":   {with(func(o *Options) { o.Burst = 65535 * 5 }), ""},
		"grain fits":      {with(func(o *Options) { o.Burst, o.Grain = 65536*5, 2 }), ""},
		"count":           {with(func(o *Options) { o.Count = "byte" }), `did you mean "bytes"?`},
		"v4":              {with(func(o *Options) { o.V4 = 33 }), "v4"},
		"v6":              {with(func(o *Options) { o.V6 = []int{129} }), "v6[0]"},
		"v6 order":        {with(func(o *Options) { o.V6 = []int{48, 64} }), "not wider"},
		"v6 levels":       {with(func(o *Options) { o.V6 = []int{64, 56, 48, 40, 32} }), "too many"},
		"wider":           {with(func(o *Options) { o.Wider = -1 }), "wider"},
		"much wider": {with(func(o *Options) { o.V6, o.Wider = []int{64, 48, 32}, 1_000_000 }),
			"hardly a limit"},
		"k":               {with(func(o *Options) { o.K = MaxK + 1 }), "k: 9"},
		"attackers":       {with(func(o *Options) { o.Attackers = MaxAttackers + 1 }), "attackers"},
		"too many":        {with(func(o *Options) { o.Attackers, o.Collateral = MaxAttackers, 1e-9 }), "GiB"},
		"collateral":      {with(func(o *Options) { o.Collateral = 1 }), "collateral"},
		"rotate":          {with(func(o *Options) { o.Rotate = 1 }), "rotate"},
		"memory":          {with(func(o *Options) { o.MaxMemory = 1 << 20 }), "from the start"},
		"ranges":          {with(func(o *Options) { o.Exempt = prefixes(MaxRanges) }), ""},
		"too many ranges": {with(func(o *Options) { o.Exempt = prefixes(MaxRanges + 1) }), "too many"},
		"no range":        {with(func(o *Options) { o.Exempt = []netip.Prefix{{}} }), "exempt[0]"},
		"empty group":     {with(func(o *Options) { o.Groups = map[string][]netip.Prefix{"a": nil} }), "groups.a"},
		"in two groups": {with(func(o *Options) {
			o.Groups = map[string][]netip.Prefix{"a": prefixes(1),
				"b": prefixes(1)}
		}), "already"},
		"too many groups":   {with(func(o *Options) { o.Groups = manyGroups(MaxGroups + 1) }), "groups are too many"},
		"as many as can be": {with(func(o *Options) { o.Groups = manyGroups(MaxGroups) }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.o.Validate()
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := New(c.o, start); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			for _, e := range weir.FieldErrors(err) {
				if e.Hint == "" || e.Path == "" {
					t.Errorf("no path or no hint: %v", e)
				}
			}
			if _, err := New(c.o, start); err == nil {
				t.Error("New takes it")
			}
		})
	}
}

func manyGroups(n int) map[string][]netip.Prefix {
	all := map[string][]netip.Prefix{}
	for i := range n {
		all[fmt.Sprint("g", i)] = []netip.Prefix{netip.PrefixFrom(source(i), 24)}
	}
	return all
}

// TestPlan: the figures that the sizes are known by.
func TestPlan(t *testing.T) {
	const eightMiB = 8 << 20 / LineBytes
	p, err := Size(5, 412_000, 0.01, 0)
	if err != nil || p.Lines > eightMiB || p.Lines < eightMiB-500 || p.Bytes != 2*int64(p.Lines)*LineBytes ||
		p.Collateral > 0.01 {
		t.Errorf("%+v, %v", p, err)
	}
	if n := Attackers(5, eightMiB*Lanes, Drained(5, eightMiB*Lanes, 300_000)); math.Abs(n-300_000) > 1 {
		t.Errorf("the inverse gives %f", n)
	}
	best, err := Smallest(100_000, 0.01, 0)
	if err != nil || best.K != 7 {
		t.Errorf("%+v, %v", best, err)
	}
	for _, use := range []weir.Share{0, 0.01, 0.5, 1} {
		n := Neighbours(5, eightMiB*Lanes, 412_000, use)
		if sum := n.Untouched + n.Throttled + n.Refused; math.Abs(sum-1) > 1e-9 || math.Abs(n.Refused-0.01) > 1e-4 {
			t.Errorf("%+v", n)
		}
	}
	if n := Neighbours(5, eightMiB*Lanes, 412_000,
		1); math.Abs(n.Served-(1-Drained(5, eightMiB*Lanes, 412_000))) > 1e-9 {
		t.Errorf("who uses all of its limit gets %f of it", n.Served)
	}
}

// TestEventsCostOne: an event costs what it costs on every level, however large the bursts are.
func TestEventsCostOne(t *testing.T) {
	for _, burst := range []weir.Number{10, 100_000, 65535 * 5} {
		shapes, err := Options{Rate: perSecond(100_000), Burst: burst, V6: []int{64, 56, 48, 32}, Wider: 16}.Shapes()
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range shapes {
			if s.Grain != 1 || i > 0 && s.Burst() < shapes[i-1].Burst() {
				t.Errorf("burst %d, level %d: %+v", burst, i, s)
			}
		}
	}
}

// TestExemptSources: where the source is not known, nothing exempts it. Bytes that flow later are no exception.
func TestExemptSources(t *testing.T) {
	for _, count := range []Count{Events, Bytes} {
		o := Options{Rate: weir.Rate{Count: 10, Per: time.Second}, Count: count,
			Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}}
		for _, c := range []struct {
			source  string
			unknown bool
			exempt  bool
		}{
			{"10.0.0.1", false, true},
			{"192.0.2.1", false, true},
			{"203.0.113.1", false, false},
			{"10.0.0.1", true, false},
		} {
			r := newRig(t, o)
			ev := weir.Event{Time: r.now, Source: netip.MustParseAddr(c.source), SourceUnknown: c.unknown}
			limited := false
			for range 1000 {
				var a weir.Answer
				if err := r.judge.Judge(context.Background(), &ev, &a); err != nil {
					t.Fatal(err)
				}
				if limited = a.Verdict == weir.Refuse; limited {
					break
				}
				if m, ok := r.judge.(weir.Meter); ok {
					m.Flow(a.Hold, 10, r.now)
				}
				r.judge.Settle(a.Hold, weir.Outcome{Time: r.now, Done: true})
			}
			if limited == c.exempt {
				t.Errorf("%v %+v: limited is %v", count, c, limited)
			}
			var a weir.Answer
			if r.judge.(interface {
				Peek(*weir.Event, *weir.Answer)
			}).Peek(&ev, &a); (a.Verdict == weir.Refuse) == c.exempt {
				t.Errorf("%v %+v: peeked as %v", count, c, a.Verdict)
			}
			if a := r.ask("10.0.0.1", 1); a.Verdict != weir.Admit {
				t.Errorf("%v %+v: the exempt are limited", count, c)
			}
		}
	}
}
