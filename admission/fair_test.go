package admission

import (
	"fmt"
	"testing"
	"time"

	"weir"
)

// takes reports whether the pool takes a request of which a stamp is asked.
func (r *rig) takes(source string) bool {
	ev := from(paying(0), source)
	ev.Time = r.now
	_, ok := r.l.Take(&ev, Taking{Covers: 1}, r.now)
	return ok
}

func TestTheTenthIsLeft(t *testing.T) {
	r := newRig(t, Options{Concurrent: 25})
	if !r.takes("192.0.2.1") { // from now on stamps are asked for
		t.Fatal("there is no room")
	}
	for range 23 {
		r.admit(0)
	}
	waits := r.wait(0) // two places are left to those who pay
	r.admit(2)
	if got := r.advance(time.Second); len(got) != 1 || got[0] != waits.n {
		t.Errorf("called %v: a second later nothing is asked any more", got)
	}
	r.wait(0)
	for places, left := range map[int]int{1: 0, 2: 1, 9: 1, 20: 2} { // a single place is divided by time
		small := newRig(t, Options{Concurrent: places})
		small.takes("192.0.2.1")
		for range places - left {
			small.admit(0)
		}
		small.wait(0)
	}
}

// TestPoolWait: a request is held where it would wait for no longer than pool_wait, by how many clients are before it.
func TestPoolWait(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, PoolWait: new(weir.Duration(time.Second))})
	e := r.admit(0)
	r.now = r.now.Add(100 * time.Millisecond) // so long a request takes
	r.settle(e, true)
	r.admit(0)
	for range 30 { // one client with much more than that
		r.ask(from(paying(0), "192.0.2.1"))
	}
	if r.takes("192.0.2.1") {
		t.Error("the client that has 30 waiting is held for seconds")
	}
	for i := range 9 {
		if source := fmt.Sprintf("198.51.100.%d", i); !r.takes(source) {
			t.Fatalf("client %d is not taken", i)
		} else {
			r.ask(from(paying(0), source))
		}
	}
	if r.takes("203.0.113.1") {
		t.Error("the eleventh client would wait for more than a second")
	}
	ev := from(paying(0), "203.0.113.2")
	ev.Time = r.now
	if _, ok := r.l.Take(&ev, Taking{Covers: 1, AtOnce: true}, r.now); ok || ev.Place.Held {
		t.Error("who cannot be held was taken")
	}
}

func TestPoolIsNotTakenByRule(t *testing.T) {
	for name, c := range map[string]struct {
		o   Options
		how Taking
	}{
		"the document's flow": {Options{Concurrent: 1}, Taking{Always: true}},
		"one too many":        {Options{Concurrent: 1, PerClient: 1}, Taking{}},
	} {
		r := newRig(t, c.o)
		r.admit(0)
		if name == "one too many" {
			r.ask(from(paying(0), "192.0.2.1"))
		}
		ev := from(paying(0), "192.0.2.1")
		ev.Time = r.now
		if _, ok := r.l.Take(&ev, c.how, r.now); ok {
			t.Errorf("%s: it was taken", name)
		}
	}
	// Strict: while somebody who paid waits, the pool goes nowhere.
	r := newRig(t, Options{Concurrent: 1, Strict: true})
	r.admit(0)
	r.wait(2)
	if r.takes("192.0.2.1") {
		t.Error("strict: it was taken")
	}
}

// TestWhoIsTakenLeavesTheLine: a ticket and a held request are not two places.
func TestWhoIsTakenLeavesTheLine(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, PoolWait: new(weir.Duration(30 * time.Second)),
		MaxWait: weir.Duration(time.Minute)})
	e := r.admit(0)
	r.now = r.now.Add(10 * time.Second) // so long a request takes: one is called ahead at most
	r.settle(e, true)
	r.admit(0)
	r.ask(weir.Event{Place: weir.Place{Number: 1, Called: true}})
	n := r.l.Number(r.now)
	ev := weir.Event{Time: r.now, Source: address(int(n)), Place: weir.Place{Number: n}}
	s, ok := r.l.Take(&ev, Taking{Covers: 3}, r.now)
	if !ok || !ev.Place.Held || s.State != InLine || r.stats().InLine != 0 {
		t.Errorf("%+v %v %+v, %d in line", s, ok, ev.Place, r.stats().InLine)
	}
}

// A mover is an exchange that tells how it gets on.
type mover struct {
	moved int64
	waits bool // for the service
	lost  bool
}

func (m *mover) Moved() (int64, bool) { return m.moved, !m.waits }
func (m *mover) Lose()                { m.lost = true }

// A client that owes bytes, or does not take them, more slowly than slowest loses its place while somebody waits, paid
// or not. The time that the service takes costs it nothing.
func TestTooSlow(t *testing.T) {
	for _, work := range []uint64{0, 2} {
		r := newRig(t, Options{Concurrent: 5, Slowest: 1000})
		enter := func(source string, m *mover) *event {
			ev := from(paying(work), source)
			ev.Holder = m
			return r.want(r.ask(ev), weir.Admit, 0)
		}
		slow, quick, late, waits := new(mover), new(mover), new(mover), &mover{waits: true}
		player := new(mover)
		stands := enter("192.0.2.1", slow)
		enter("192.0.2.2", quick)
		enter("192.0.2.3", late)
		enter("192.0.2.4", waits)
		enter("192.0.2.5", player)
		r.advance(time.Minute)
		if slow.lost || late.lost {
			t.Fatal("nobody waits")
		}
		r.wait(0)
		late.waits = true
		player.moved = 100_000 // it takes more than it needs, and pauses
		for second := range 20 {
			slow.moved += 500
			quick.moved += 1000
			late.waits = second < 10
			r.advance(time.Second)
			if late.lost != (second >= 14) {
				t.Errorf("work %d, second %d: late %v", work, second, late.lost)
			}
		}
		if !slow.lost || quick.lost || waits.lost || player.lost {
			t.Errorf("work %d: slow %v, quick %v, waits %v", work, slow.lost, quick.lost, waits.lost)
		}
		if n := r.stats().Lost; n != 2 {
			t.Errorf("%d lost", n)
		}
		r.held = nil // their time is over
		before := r.l.service
		r.settle(stands, true)
		if r.l.service != before {
			t.Error("how long somebody took who did nothing says nothing about the upstream")
		}
	}
}

// A client with more than its fair part of the places loses what waits for it however fast it is, and what stands
// still, until it has its part.
func TestFairPartOfThePlaces(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := newRig(t, Options{Concurrent: 8, MaxWait: weir.Duration(5 * time.Minute)})
		var all []*mover
		for range 8 {
			m := &mover{waits: waits}
			ev := from(paying(2), "192.0.2.1")
			ev.Holder = m
			r.want(r.ask(ev), weir.Admit, 0)
			all = append(all, m)
		}
		for i := range 3 {
			ev := from(paying(0), fmt.Sprintf("198.51.100.%d", i))
			r.want(r.ask(ev), weir.Wait, 0)
		}
		for range 40 {
			for _, m := range all {
				if !waits {
					m.moved += 1 << 20
				}
			}
			r.advance(time.Second)
		}
		lost := 0
		for _, m := range all {
			if m.lost {
				lost++
			}
		}
		if lost != 6 { // four clients share eight places
			t.Errorf("for the service %v: %d lost", waits, lost)
		}
	}
}

func TestARetryIsNoNewDemand(t *testing.T) {
	r := newRig(t, Options{Concurrent: 10})
	for range 300 { // a hundred clients, each of them three times a second, for ten minutes
		for i := range 100 {
			r.l.TurnedAway(&weir.Event{Time: r.now, Source: address(i)}, r.now)
		}
		r.now = r.now.Add(2 * time.Second)
		r.load(0, 0)
	}
	r.l.TurnedAway(&weir.Event{Time: r.now, Source: address(1000)}, r.now)
	r.now = r.now.Add(time.Second / 2)
	if share, _ := r.l.Load(r.now); share == 0 {
		t.Error("a new one is demand")
	}
	// Whoever has been in is new when it comes again.
	e := r.ask(weir.Event{Source: address(1)})
	r.settle(e, false)
	r.now = r.now.Add(5 * time.Second)
	r.load(0, 0)
	r.l.TurnedAway(&weir.Event{Time: r.now, Source: address(1)}, r.now)
	r.now = r.now.Add(time.Second / 2)
	if share, _ := r.l.Load(r.now); share == 0 {
		t.Error("a new visit is demand")
	}
	r.now = r.now.Add((awayFor + 2) * time.Second)
	r.l.TurnedAway(&weir.Event{Time: r.now, Source: address(2)}, r.now)
	r.now = r.now.Add(time.Second / 2)
	if share, _ := r.l.Load(r.now); share == 0 {
		t.Error("who stayed away for minutes is new")
	}
}

func TestAChallengeAndItsReturnAreOneVisit(t *testing.T) {
	r := newRig(t, Options{Concurrent: 10})
	var under []*event
	for i := range 200 { // 20 a second, each challenged, back after a second, and done after 250 ms: five places
		r.l.TurnedAway(&weir.Event{Time: r.now, Source: address(i)}, r.now)
		if i >= 20 {
			ev := paying(2)
			ev.Source = address(i - 20)
			under = append(under, r.ask(ev))
		}
		if len(under) > 5 {
			r.settle(under[0], true)
			under = under[1:]
		}
		r.now = r.now.Add(50 * time.Millisecond)
	}
	r.load(0.5, 0.06)
}

// TestAwayIsBounded: however many are turned away, the table stays as it is, and those who come all the time are known.
func TestAwayIsBounded(t *testing.T) {
	r := newRig(t, Options{Concurrent: 10})
	for i := range 2 * awaySets * awayWays {
		r.l.TurnedAway(&weir.Event{Time: r.now, Source: address(i)}, r.now)
		if i%1000 == 0 {
			r.now = r.now.Add(20 * time.Millisecond)
		}
	}
	if n := r.stats().TurnedAway; n != 2*awaySets*awayWays {
		t.Errorf("%d", n)
	}
}

// In a full lane the client that has most waiting makes room for another one, and among equals work decides.
func TestFullLaneKeepsThoseWhoPayMost(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1, Waiting: 3})
	r.admit(0)
	ask := func(source string, work uint64) *event { return r.ask(from(paying(work), source)) }
	first, second := ask("192.0.2.1", 1<<20), ask("192.0.2.1", 1<<20)
	cheap := ask("192.0.2.2", 1<<10)
	third := r.want(ask("192.0.2.3", 1<<12), weir.Wait, 0) // a newcomer, however much the greedy one paid
	r.called()
	r.want(second, weir.Refuse, weir.LineFull)
	r.want(ask("192.0.2.4", 1<<10), weir.Refuse, weir.LineFull)
	r.want(ask("192.0.2.5", 1<<11), weir.Wait, 0)
	r.called()
	r.want(cheap, weir.Refuse, weir.LineFull)
	r.want(first, weir.Wait, 0)
	r.want(third, weir.Wait, 0)
	if s := r.stats(); s.Stamped.Full != 3 || s.Stamped.Waiting != 3 {
		t.Errorf("%+v", s)
	}
}

func TestAccepted(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	event := func(source, account string) *weir.Event {
		ev := from(weir.Event{Account: account, Time: r.now}, source)
		return &ev
	}
	who := func(source, account string) client { return r.l.client(event(source, account)) }
	accept := func(source, account string, good bool) {
		r.l.Accepted(event(source, account).Source, account, good, r.now)
	}
	address := who("192.0.2.1", "")
	if who("192.0.2.1", "acme") != address {
		t.Error("an account that nobody has accepted is an address")
	}
	accept("192.0.2.1", "acme", true)
	acme := who("192.0.2.1", "acme")
	if acme == address || acme.family != byAccount || who("192.0.2.1", "other") != address ||
		who("192.0.2.1", "") != address {
		t.Errorf("%v", acme)
	}
	if who("192.0.2.2", "acme") == acme {
		t.Error("from another network it has yet to be accepted: anybody can write down a name")
	}
	accept("192.0.2.2", "acme", true)
	if who("192.0.2.2", "acme") != acme {
		t.Error("an account is one client, wherever it comes from")
	}
	accept("2001:db8::1", "six", true)
	if six := who("2001:db8::ffff", "six"); six.family != byAccount {
		t.Error("a /64 is one network")
	}
	accept("192.0.2.1", "acme", false)
	if who("192.0.2.1", "acme") != address || who("192.0.2.2", "acme") != acme {
		t.Error("it was turned away there, and only there")
	}
	r.l.Accepted(weir.Event{}.Source, "acme", true, r.now) // a socket of this machine has no network
	if (r.l.client(&weir.Event{Account: "acme", Time: r.now}) != client{}) {
		t.Error("nobody is somebody")
	}
	// One network has no more than eight, and none of them is pushed out.
	r = newRig(t, Options{Concurrent: 1}) // with no other network that could share the place in the table
	for i := range acceptedWays + 1 {
		accept("203.0.113.1", fmt.Sprint(i), true)
	}
	for i := range acceptedWays + 1 {
		if known := who("203.0.113.1", fmt.Sprint(i)).family == byAccount; known != (i < acceptedWays) {
			t.Errorf("account %d: %v", i, known)
		}
	}
	r.now = r.now.Add(time.Duration(acceptedFor))
	if who("203.0.113.1", "1").family == byAccount {
		t.Error("after ten minutes it has to be accepted again")
	}
	accept("203.0.113.1", "8", true)
	if who("203.0.113.1", "8").family != byAccount {
		t.Error("what has run out makes room")
	}
}

// TestTheDocumentLeavesNoTenth: in the flow of the source document all places are for whoever comes.
func TestTheDocumentLeavesNoTenth(t *testing.T) {
	r := newRig(t, Options{Concurrent: 20})
	ev := from(paying(0), "192.0.2.1")
	ev.Time = r.now
	if _, ok := r.l.Take(&ev, Taking{Always: true}, r.now); ok {
		t.Fatal("it was taken")
	}
	for range 20 {
		r.admit(0)
	}
}
