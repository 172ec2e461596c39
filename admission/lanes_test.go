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

// Those who paid go first, by the work that each use of their stamps cost. Exempt clients go with those who pay what is
// asked.
func TestStampedGoByWorkPerUse(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, Strict: true})
	r.l.Asked(1 << 12)
	under := r.admit(0)
	use := func(work uint64, uses int) *event { return r.want(r.ask(from(used(work, uses), "")), weir.Wait, 0) }
	poor, tenth, little := r.wait(0), use(1<<12, 10), use(1<<10, 1)
	second, first := use(1<<12, 2), use(1<<12, 1)
	rich, free := use(1<<20, 1), r.want(r.ask(freeEvent()), weir.Wait, 0)
	r.order(under, rich, first, free, second, little, tenth, poor)
}

// Clients take turns: whoever sends a hundred requests is in nobody's way, from however many connections.
func TestStampedTakeTurns(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	r.l.Asked(1 << 16)
	under := r.admit(0)
	var greedy []*event
	for i := range 20 {
		greedy = append(greedy, r.want(r.ask(from(used(1<<16, 1+i), "192.0.2.1")), weir.Wait, 0))
	}
	a := r.want(r.ask(from(used(1<<16, 1), "192.0.2.2")), weir.Wait, 0)
	b := r.want(r.ask(from(used(1<<16, 2), "192.0.2.2")), weir.Wait, 0)
	c := r.want(r.ask(from(used(1<<16, 1), "192.0.2.3")), weir.Wait, 0)
	r.order(under, greedy[0], a, c, greedy[1], b, greedy[2])
	if _, delay := r.l.Load(r.now.Add(time.Second)); delay > 0 {
		t.Errorf("a newcomer waits %s", delay)
	}
	// A new stamp for each request helps no more: after a page of them comes whoever else pays.
	r = newRig(t, Options{Concurrent: 1})
	r.l.Asked(1 << 16)
	under = r.admit(0)
	for i := range greedy {
		greedy[i] = r.want(r.ask(from(used(1<<16, 1), "192.0.2.1")), weir.Wait, 0)
	}
	a = r.want(r.ask(from(used(1<<16, 1), "192.0.2.2")), weir.Wait, 0)
	r.order(under, slices.Concat(greedy[:pageful], []*event{a}, greedy[pageful:pageful+2])...)
}

// The parts of a page go together, although each of them uses the page's stamp once more: before the next request of
// whoever has many waiting and a new stamp for each.
func TestAPageGoesTogether(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	r.l.Asked(1 << 16)
	fresh := func(source string) *event { return r.want(r.ask(from(used(1<<16, 1), source)), weir.Wait, 0) }
	under := r.admit(0)
	var greedy []*event
	for range 2 * pageful {
		greedy = append(greedy, fresh("192.0.2.1"))
	}
	r.order(under, greedy[:pageful+1]...) // from now on each of the greedy one's requests is a turn
	var parts []*event
	for i := 2; i <= pageful; i++ {
		parts = append(parts, r.want(r.ask(from(used(1<<16, i), "192.0.2.2")), weir.Wait, 0))
	}
	r.order(greedy[pageful], append(parts, greedy[pageful+1])...)
}

// Whoever takes care to have no more waiting than a page has, always with new stamps, gets a page for each turn of the
// others and not more.
func TestAPageAfterTheOtherTakesTurns(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	r.l.Asked(1 << 16)
	under, mine := r.admit(0), map[int]*event{}
	ask := func(source string) *event {
		e := r.want(r.ask(from(used(1<<16, 1), source)), weir.Wait, 0)
		mine[e.n] = e
		return e
	}
	for range pageful - 1 {
		ask("192.0.2.1")
	}
	other, turns := ask("192.0.2.2"), 0
	const calls = 20 * (pageful + 1)
	for range calls {
		r.settle(under, true)
		got := r.called()
		if len(got) != 1 {
			t.Fatalf("called %v", got)
		}
		if under = mine[got[0]]; under == other {
			turns++
			other = ask("192.0.2.2")
		} else {
			ask("192.0.2.1")
		}
	}
	if turns < calls/(pageful+1)-1 {
		t.Errorf("the other one had %d of %d turns", turns, calls)
	}
}

// A page that comes while something of the same client still waits goes together, too, if others had turns meanwhile.
func TestTheNextPageGoesTogether(t *testing.T) {
	p := newPayers()
	join := func(who uint64, rank float64) *waiter {
		w := &waiter{client: client{who, 4}}
		p.join(w, rank)
		return w
	}
	join(1, 100) // uses a stamp for the last time, and waits long
	for range pageful - 2 {
		join(1, 0)
		p.take()
	}
	for range 2 * pageful {
		join(2, 0)
	}
	for range pageful + 2 {
		p.take()
	}
	first, second := join(1, 0), join(1, 0)
	if first.begins == 0 || second.begins != first.begins {
		t.Errorf("the page begins at %v, its first part at %v", first.begins, second.begins)
	}
}

// Whoever sends page after page, with a new stamp for each request and the next page when the last one is in, does not
// keep others waiting who use their stamps a second time.
func TestPagesOfNewStampsStarveNobody(t *testing.T) {
	p := newPayers()
	join := func(who uint64, uses int) *waiter {
		w := &waiter{client: client{who, 4}}
		p.join(w, rank(1, 1, uses))
		return w
	}
	last := join(1, pageful)
	for range 3 {
		for range pageful {
			join(2, 1)
		}
		for range pageful {
			if p.take() == last {
				return
			}
		}
	}
	t.Errorf("after three pages of the other one, who is due at %v still waits at %v", last.due, p.now)
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

func TestClockSetBack(t *testing.T) {
	for _, back := range []time.Duration{time.Millisecond, 4 * time.Second, time.Hour, 30 * 365 * 24 * time.Hour} {
		r := newRig(t, Options{Concurrent: 1, MaxWait: weir.Duration(10 * time.Second), Strict: true})
		under := r.admit(0)
		r.now = r.now.Add(time.Second)
		r.wait(2)
		r.l.Present(r.l.Number(r.now), address(1), 1, r.now)
		r.now = r.now.Add(-back)
		r.tick()
		late := r.wait(2)
		share, delay := r.l.Load(r.now)
		if !(share >= 0 && share < 10) || delay < 0 || delay > time.Minute {
			t.Errorf("%s: load %s, delay %s", back, share, delay)
		}
		// Nobody waits longer for that than the little that may be mistaken for calls that overtook each other.
		if r.due.IsZero() || r.due.Sub(r.now) > 15*time.Second {
			t.Errorf("%s: due %s from now", back, r.due.Sub(r.now))
		}
		r.settle(under, true)
		r.called()
		r.want(late, weir.Wait, 0)
		r.advance(16 * time.Second)
		r.want(late, weir.Refuse, weir.WaitTooLong)
		if s := r.stats(); s.NoShows != 1 || s.InUse != 1 {
			t.Errorf("%s: %+v", back, s)
		}
		if share, _ = r.l.Load(r.now); share < 0.9 || share > 1.1 {
			t.Errorf("%s: load %s", back, share)
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
