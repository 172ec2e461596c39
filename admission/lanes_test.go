package admission

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir"
)

func TestAPlaceGoesToTheNextInLine(t *testing.T) {
	r := newRig(t, Options{Concurrent: 2})
	a, b := r.admit(0), r.admit(0)
	first, second := r.wait(0), r.wait(0)
	r.settle(a, true)
	newcomer := r.wait(0) // the place is taken already
	if got := r.called(); !slices.Equal(got, []int{first.n}) {
		t.Fatalf("called %v", got)
	}
	r.settle(b, true)
	r.settle(first, true)
	if got := r.called(); !slices.Equal(got, []int{second.n, newcomer.n}) {
		t.Fatalf("called %v", got)
	}
	r.settle(second, true)
	r.settle(newcomer, false)
	r.empty()
	r.admit(0)
}

func TestLeavingTheLane(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	a, leaves, stays := r.admit(0), r.wait(4), r.wait(2)
	r.settle(leaves, false)
	r.settle(a, true)
	if got := r.called(); !slices.Equal(got, []int{stays.n}) {
		t.Fatalf("called %v", got)
	}
	// Whoever is called and goes away at the same moment gives the place back.
	last := r.wait(0)
	r.settle(stays, true)
	r.settle(last, false)
	r.empty()
}

func TestJudgedAndNeverEntered(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	var a weir.Answer
	ev := weir.Event{Time: epoch}
	if err := r.l.Judge(context.Background(), &ev, &a); err != nil {
		t.Fatal(err)
	}
	r.l.Settle(a.Hold, weir.Outcome{Time: epoch})
	r.empty()
	r.admit(0)
	r.wait(0)
}

// Those who paid go first, and whatever they paid and however often they have used it, they take turns.
func TestStampedTakeTurns(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	under := r.admit(0)
	ask := func(ev weir.Event, source string) *event { return r.want(r.ask(from(ev, source)), weir.Wait, 0) }
	var greedy []*event
	for i := range 20 {
		greedy = append(greedy, ask(used(1<<16, 1+i), "192.0.2.1"))
	}
	a, b := ask(used(1<<10, 10), "192.0.2.2"), ask(used(1<<20, 1), "192.0.2.2")
	c, d := ask(used(1<<16, 3), "192.0.2.3"), ask(freeEvent(), "192.0.2.4")
	r.order(under, greedy[0], a, c, d, greedy[1], b, greedy[2])
}

// Whoever comes back, with a new stamp each time, goes to the end of the round: a client with older stamps has one
// turn in each.
func TestWhoComesBackGoesToTheEnd(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	under, from1 := r.admit(0), map[int]string{}
	ask := func(source string, uses int) *event {
		e := r.want(r.ask(from(used(1<<16, uses), source)), weir.Wait, 0)
		from1[e.n] = source
		r.waits[e.n] = e
		return e
	}
	for i := range 5 {
		ask("192.0.2.100", i+2)
	}
	for i := range 12 {
		ask(fmt.Sprintf("192.0.2.%d", i), 1)
	}
	for turn := range 5 * 13 {
		r.settle(under, true)
		got := r.called()
		if len(got) != 1 {
			t.Fatalf("called %v", got)
		}
		source := from1[got[0]]
		if mine := source == "192.0.2.100"; mine != (turn%13 == 0) {
			t.Fatalf("turn %d is of %s", turn, source)
		} else if !mine {
			ask(source, 1)
		}
		under = r.waits[got[0]]
	}
}

// A free place goes to the client that has the fewest, in either lane, so that nobody has more than a fair part of
// them while others wait.
func TestNobodyHasMoreThanAFairPart(t *testing.T) {
	for _, work := range []uint64{0, 1 << 16} {
		r := newRig(t, Options{Concurrent: 6})
		ask := func(source string) *event { return r.ask(from(paying(work), source)) }
		var greedy []*event
		for range 20 {
			greedy = append(greedy, ask("192.0.2.1"))
		}
		var others []*event
		for range 5 {
			others = append(others, ask("192.0.2.2"))
		}
		for i := range 3 { // it has six, five, four
			r.settle(greedy[i], true)
			if got := r.called(); !slices.Equal(got, []int{others[i].n}) {
				t.Fatalf("work %d, place %d: called %v", work, i, got)
			}
		}
		r.settle(greedy[3], true) // three each, and then two against three
		if got := r.called(); !slices.Equal(got, []int{greedy[6].n}) {
			t.Errorf("work %d: called %v", work, got)
		}
	}
}

// A stamp is that of one client, however many addresses it comes from: its requests take one turn in a round.
func TestOneIdFromManyAddresses(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	under := r.admit(0)
	ask := func(source, id string) *event {
		ev := from(used(1<<16, 1), source)
		ev.Client = id
		return r.want(r.ask(ev), weir.Wait, 0)
	}
	a, b := ask("192.0.2.1", "spread"), ask("192.0.2.2", "spread")
	c, d := ask("192.0.2.3", "spread"), ask("192.0.2.4", "other")
	r.order(under, a, d, b, c)
}

// Stamps that are worth half of today's price or less wait for all that are worth more: a stock of cheap ones keeps
// nobody out.
func TestAStockOfCheapStamps(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	under := r.admit(0)
	r.l.Asked(8)
	ask := func(work uint64, source string) *event {
		return r.want(r.ask(from(paying(work), source)), weir.Wait, 0)
	}
	cheap, other := ask(4, "192.0.2.1"), ask(4, "192.0.2.2")
	older, today, second := ask(5, "192.0.2.3"), ask(8, "192.0.2.4"), ask(4, "192.0.2.4")
	r.order(under, older, today, cheap, other, second)
}

// Of four places one goes to an address at which several people wait who paid, if it has less than a fourth of the
// places: sharing an address costs little, and sharing it with oneself gains little. Its people take turns.
func TestPeopleBehindOneAddress(t *testing.T) {
	r := newRig(t, Options{Concurrent: 8})
	var under []*event
	for i := range 8 {
		under = append(under, r.ask(from(used(1, 1), fmt.Sprintf("203.0.113.%d", i))))
	}
	ask := func(source, id string) *event {
		ev := from(used(1<<16, 1), source)
		ev.Client = id
		return r.want(r.ask(ev), weir.Wait, 0)
	}
	var people, others []*event
	for i := range 8 {
		others = append(others, ask(fmt.Sprintf("192.0.2.%d", i), fmt.Sprint("own ", i)))
	}
	for _, id := range []string{"a", "a", "a", "b", "c"} {
		people = append(people, ask("198.51.100.1", id))
	}
	want := []*event{others[0], others[1], others[2], people[0], others[3], others[4], others[5], people[3]}
	for i, e := range want {
		r.settle(under[i], true)
		if got := r.called(); !slices.Equal(got, []int{e.n}) {
			t.Fatalf("place %d: called %v, want %d", i, got, e.n)
		}
	}
	// With a fourth of the places it has its turn like all others.
	for i, e := range []*event{others[6], others[7], people[4], people[1], people[2]} {
		r.settle(want[i], true)
		if got := r.called(); !slices.Equal(got, []int{e.n}) {
			t.Fatalf("then place %d: called %v, want %d", i, got, e.n)
		}
	}
}

// used returns an event with a stamp that has been used so often.
func used(work uint64, uses int) weir.Event {
	var ev weir.Event
	ev.Purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid,
		func()) {
		return weir.Paid{Work: work, Uses: uses}, nil
	})
	ev.Purse.Open(context.Background(), &ev)
	return ev
}

// order settles one after the other and wants them to be called in that order.
func (r *rig) order(under *event, want ...*event) {
	r.t.Helper()
	for i, e := range want {
		r.settle(under, true)
		if got := r.called(); !slices.Equal(got, []int{e.n}) {
			r.t.Fatalf("turn %d: called %v, want %d", i, got, e.n)
		}
		under = e
	}
}

func freeEvent() weir.Event {
	var ev weir.Event
	ev.Purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
		return weir.Paid{Free: true},
			nil
	})
	ev.Purse.Open(context.Background(), &ev)
	return ev
}

// In the general pool clients take turns, and so do those who are held and those who were called.
func TestPoolTakesTurns(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	under := r.admit(0)
	held := func(source string) *event { return r.want(r.ask(from(paying(0), source)), weir.Wait, 0) }
	called := func(source string) *event {
		ev := from(paying(0), source)
		ev.Place = weir.Place{Number: r.l.Number(r.now), Called: true}
		return r.want(r.ask(ev), weir.Wait, 0)
	}
	a1, a2, a3 := held("192.0.2.1"), held("192.0.2.1"), held("192.0.2.1")
	b1 := held("192.0.2.2")
	c1, c2 := called("192.0.2.3"), called("192.0.2.3")
	d1 := called("2001:db8::1")
	r.order(under, c1, a1, d1, b1, c2, a2, a3)
}

// A full pool drops the newest request of the client that holds most. Whoever would then hold as much gets no room.
func TestFullPoolDropsTheGreediest(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, Waiting: 4})
	r.admit(0)
	ask := func(source string) *event { return r.ask(from(paying(0), source)) }
	var greedy []*event
	for range 4 {
		greedy = append(greedy, r.want(ask("192.0.2.1"), weir.Wait, 0))
	}
	r.want(ask("192.0.2.1"), weir.Refuse, weir.LineFull)
	second := r.want(ask("192.0.2.2"), weir.Wait, 0)
	r.called()
	r.want(greedy[3], weir.Refuse, weir.LineFull)
	r.want(ask("192.0.2.3"), weir.Wait, 0)
	r.called()
	r.want(greedy[2], weir.Refuse, weir.LineFull)
	r.want(ask("192.0.2.2"), weir.Refuse, weir.LineFull)
	r.want(second, weir.Wait, 0)
	if s := r.stats(); s.Pool.Waiting != 4 || s.Pool.Full != 4 {
		t.Errorf("%+v", s)
	}
}

func TestStrictGivesThePoolNothingWhileOthersWait(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, Strict: true})
	under, first := r.admit(0), r.wait(0)
	for i := range 50 {
		paid := r.wait(2)
		r.now = r.now.Add(time.Second / 4)
		r.settle(under, true)
		if got := r.called(); !slices.Equal(got, []int{paid.n}) {
			t.Fatalf("round %d: called %v", i, got)
		}
		under = paid
	}
	r.settle(under, true)
	if got := r.called(); !slices.Equal(got, []int{first.n}) {
		t.Fatalf("called %v, want %v", got, first.n)
	}
}

func TestBounds(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, Waiting: 3, PerClient: 2})
	under := r.admit(0)
	for range 3 {
		r.wait(0)
		r.wait(2)
	}
	e := r.refuse(0, weir.LineFull)
	if e.answer.Rule != RuleWaiting || e.answer.Limit != 3 || e.answer.Remaining != 0 {
		t.Errorf("got %+v", e.answer.Figure)
	}
	r.refuse(2, weir.LineFull)
	s := r.stats()
	if s.Pool.Full != 1 || s.Stamped.Full != 1 || s.Pool.Waiting != 3 || s.Stamped.Waiting != 3 {
		t.Errorf("%+v", s)
	}
	r.settle(under, true)
	r.wait(0) // one of them was let in
}

func TestPerClient(t *testing.T) {
	for name, c := range map[string]struct {
		same, other string
		last        weir.Verdict
	}{
		"IPv4":         {"192.0.2.1", "192.0.2.2", weir.Refuse},
		"IPv4 in IPv6": {"192.0.2.1", "192.0.2.3", weir.Refuse},
		"IPv6":         {"2001:db8:1:2::1", "2001:db8:1:3::1", weir.Refuse},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Concurrent: 1, PerClient: 2, Strict: true})
			under := r.admit(0)
			again := map[string]string{"IPv4 in IPv6": "::ffff:192.0.2.1", "IPv6": "2001:db8:1:2:3:4:5:6"}[name]
			if again == "" {
				again = c.same
			}
			r.want(r.ask(from(paying(2), c.same)), weir.Wait, 0)
			if s := r.l.Present(r.l.Number(r.now), netip.MustParseAddr(c.same), 1, r.now); s.State != InLine {
				t.Fatalf("%+v", s)
			}
			e := r.want(r.ask(from(paying(2), again)), weir.Refuse, weir.TooMany)
			if e.answer.Rule != RulePerClient || e.answer.Limit != 2 {
				t.Errorf("got %+v", e.answer.Figure)
			}
			if s := r.l.Present(r.l.Number(r.now), netip.MustParseAddr(again), 1, r.now); s.State != TooMany {
				t.Fatalf("%+v", s)
			}
			if got := r.stats().TooMany; got != 2 {
				t.Errorf("counted %d", got)
			}
			r.want(r.ask(from(paying(2), c.other)), weir.Wait, 0)
			r.settle(under, true)
			r.want(r.ask(from(paying(2), again)), weir.Wait, 0) // one of that client was let in
		})
	}
	r := newRig(t, Options{Concurrent: 1, PerClient: 1})
	r.admit(0)
	for range 5 { // nobody knows whose they are
		r.wait(0)
	}
}

// Of people behind one address who paid, each may have as much waiting as a client, beside what others there have
// waiting without having paid, and whoever has most makes room in a full lane.
func TestNeighboursKeepNobodyOut(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, PerClient: 3, Waiting: 5})
	r.admit(0)
	ask := func(id string, want weir.Verdict, why weir.Reason) *event {
		t.Helper()
		ev := from(paying(0), "192.0.2.1")
		if id != "" {
			ev = from(used(1<<16, 1), "192.0.2.1")
			ev.Client = id
		}
		return r.want(r.ask(ev), want, why)
	}
	for range 3 {
		ask("", weir.Wait, 0)
	}
	ask("", weir.Refuse, weir.TooMany)
	var greedy []*event
	for range 3 {
		greedy = append(greedy, ask("greedy", weir.Wait, 0))
	}
	ask("greedy", weir.Refuse, weir.TooMany)
	ask("a", weir.Wait, 0)
	ask("b", weir.Wait, 0) // now the lane is full
	ask("c", weir.Wait, 0)
	r.called()
	r.want(greedy[2], weir.Refuse, weir.LineFull)
	r.want(greedy[1], weir.Wait, 0)
	ask("a", weir.Refuse, weir.LineFull) // it would have as many
	r.want(r.ask(from(used(1<<16, 1), "192.0.2.2")), weir.Wait, 0)
	r.called()
	r.want(greedy[1], weir.Refuse, weir.LineFull)
	ask("greedy", weir.Refuse, weir.LineFull)
}

func TestHeldTooLong(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, MaxWait: weir.Duration(3 * time.Second)})
	r.admit(0)
	first := r.wait(0)
	if want := epoch.Add(3 * time.Second); !r.due.Equal(want) {
		t.Fatalf("due at %s, want %s", r.due, want)
	}
	r.advance(time.Second)
	second := r.wait(2)
	r.advance(2*time.Second - 1)
	r.want(first, weir.Wait, 0)
	r.advance(1)
	r.want(first, weir.Refuse, weir.WaitTooLong)
	r.want(second, weir.Wait, 0)
	r.advance(time.Second)
	r.want(second, weir.Refuse, weir.WaitTooLong)
	if s := r.stats(); s.Pool.Expired != 1 || s.Stamped.Expired != 1 || s.Pool.Waiting+s.Stamped.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	if !r.due.IsZero() {
		t.Errorf("something is due at %s", r.due)
	}
}

// The lanes have one clock, which no event moves: whoever waits is refused after max_wait, whatever comes meanwhile
// that has been judged for long, or comes from a clock that is ahead.
func TestNoEventMovesTheClock(t *testing.T) {
	r := newRig(t, Options{Concurrent: 2, MaxWait: weir.Duration(8 * time.Second)})
	r.admit(0)
	r.admit(0)
	began := map[*event]time.Time{}
	for second := range 40 {
		began[r.wait(0)] = r.now
		for _, off := range []time.Duration{-8 * time.Second, -time.Hour, time.Hour} {
			ev := from(paying(0), "192.0.2.7")
			ev.Time = r.now.Add(off)
			r.l.Take(&ev, Taking{AtOnce: true}, r.now)
			r.l.HasRoom(&ev, Taking{AtOnce: true}, r.now)
			r.l.TurnedAway(&ev, r.now)
		}
		r.advance(time.Second)
		for e, since := range began {
			waits := e.answer.Verdict == weir.Wait
			if waits != (r.now.Sub(since) < 8*time.Second) {
				t.Fatalf("second %d: waits %v after %s", second, waits, r.now.Sub(since))
			}
			if !waits {
				delete(began, e)
			}
		}
	}
}

func TestPeekTakesNothing(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, Waiting: 1})
	peek := func(work uint64) string {
		var a weir.Answer
		ev := paying(work)
		ev.Time = r.now
		r.l.Peek(&ev, &a)
		return fmt.Sprint(a.Verdict, " ", a.Reason)
	}
	for range 3 {
		if got := peek(0); got != "admit " {
			t.Fatal(got)
		}
	}
	r.admit(0)
	for range 3 {
		if got := peek(0); got != "wait overload" {
			t.Fatal(got)
		}
	}
	r.wait(0)
	if got := peek(0) + ", " + peek(2); got != "refuse line-full, wait overload" {
		t.Fatal(got)
	}
}

func TestEstimate(t *testing.T) {
	r := newRig(t, Options{Concurrent: 2})
	a, b := r.admit(0), r.admit(0)
	if e := r.wait(0); !e.answer.Until.IsZero() {
		t.Errorf("expected at %s, and nobody knows how long a request takes", e.answer.Until)
	}
	r.now = r.now.Add(time.Second)
	r.settle(a, true)
	r.settle(b, true) // a second each
	r.called()
	r.admit(0)
	for i := range 4 {
		e := r.wait(0)
		if want := r.now.Add(time.Duration(i+1) * time.Second / 2); !e.answer.Until.Equal(want) {
			t.Errorf("expected at %s, want %s", e.answer.Until, want)
		}
	}
	e := r.wait(2) // of two places nine tenths are theirs
	if d := e.answer.Until.Sub(r.now).Round(time.Millisecond); d != 556*time.Millisecond {
		t.Errorf("expected after %s", d)
	}
}

func TestConfigure(t *testing.T) {
	r := newRig(t, Options{Concurrent: 2, MaxWait: weir.Duration(time.Minute)})
	a, b := r.admit(0), r.admit(0)
	first, second := r.wait(0), r.wait(0)
	r.wait(2)
	if err := r.l.Configure(Options{}, r.now); err == nil {
		t.Fatal("options without a capacity")
	}
	must(t, r.l.Configure(Options{Concurrent: 1, MaxWait: weir.Duration(10 * time.Second)}, r.now))
	if want := r.now.Add(10 * time.Second); !r.due.Equal(want) {
		t.Errorf("due at %s, want %s", r.due, want)
	}
	r.settle(a, true)
	if got := r.called(); got != nil {
		t.Fatalf("called %v: one is still under way", got)
	}
	must(t, r.l.Configure(Options{Concurrent: 4}, r.now))
	if got := r.called(); len(got) != 3 {
		t.Fatalf("called %v", got)
	}
	for _, e := range []*event{b, first, second} {
		r.settle(e, true)
	}
	if s := r.stats(); s.InUse != 1 || s.Stamped.InUse != 1 || s.Capacity != 4 {
		t.Errorf("%+v", s)
	}
}

func TestRetireLetsEverybodyGo(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	all := []*event{r.admit(0), r.wait(0), r.wait(2), r.wait(0)}
	r.l.Retire(r.now)
	if got := r.called(); len(got) != 3 {
		t.Fatalf("called %v", got)
	}
	all = append(all, r.admit(0))
	for _, e := range all {
		r.settle(e, true)
	}
	r.empty()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
