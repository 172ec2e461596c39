package stamp

import (
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/testkit/needs"
)

func nofiles(string) ([]byte, error) { return nil, fs.ErrNotExist }

func newThrottle(t testing.TB, o Options) *Throttle {
	t.Helper()
	th, err := NewThrottle(o, start, nofiles)
	if err != nil {
		t.Fatal(err)
	}
	return th
}

// always asks for little, whatever the load.
var always = []Step{{0, 64}}

// visit is an event of somebody who brings a stamp, or nothing.
func visit(th *Throttle, client, address, stamp string) *weir.Event {
	ev := &weir.Event{Time: start, Client: client, Source: netip.MustParseAddr(address), Load: weir.Load{Of: "gate"}}
	ev.Purse = weir.NewPurse(func(ctx context.Context, ev *weir.Event) (weir.Paid, func()) {
		return th.Receive(ctx, ev, stamp, "message")
	})
	return ev
}

func judged(t testing.TB, th *Throttle, ev *weir.Event) (a weir.Answer) {
	t.Helper()
	if err := th.Judge(bg, ev, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// pay asks for a puzzle and solves it.
func pay(t testing.TB, th *Throttle, ev *weir.Event) string {
	t.Helper()
	p, err := th.Ask(ev, ev.Client, "message")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Solve(bg, p.Text, SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatIsAsked(t *testing.T) {
	th := newThrottle(t, Options{Schedule: always, Covers: 2})
	ev := visit(th, "ann", "192.0.2.1", "")
	if a := judged(t, th, ev); a.Verdict != weir.Challenge || a.Reason != weir.Unpaid || a.Limit != 64 {
		t.Fatalf("%+v", a)
	}
	good := pay(t, th, ev)
	for range 2 {
		if a := judged(t, th, visit(th, "ann", "198.51.100.1", good)); a.Verdict != weir.Admit {
			t.Fatalf("%+v", a)
		}
	}
	if a := judged(t, th, visit(th, "ann", "192.0.2.1", good)); a.Verdict != weir.Challenge || a.Ban {
		t.Errorf("used up: %+v", a)
	}
	if a := judged(t, th, visit(th, "bob", "192.0.2.1", pay(t, th, ev))); a.Verdict != weir.Challenge || a.Ban {
		t.Errorf("of somebody else: %+v", a)
	}
}

// TestAskedWithoutLoad: with from_load 0% the first request is asked, at a gate without a capacity too; without the key
// it is not.
func TestAskedWithoutLoad(t *testing.T) {
	for from, want := range map[*weir.Share]weir.Verdict{new(weir.Share(0)): weir.Challenge,
		new(weir.Share(0.01)): weir.Admit, nil: weir.Admit} {
		th := newThrottle(t, Options{FromLoad: from})
		ev := visit(th, "ann", "192.0.2.1", "")
		ev.Load = weir.Load{}
		if a := judged(t, th, ev); a.Verdict != want {
			t.Errorf("from %v: %s", from, a.Verdict)
		}
	}
}

func TestFaults(t *testing.T) {
	ev := func(th *Throttle) *weir.Event { return visit(th, "ann", "192.0.2.1", "") }
	turned := func(t *testing.T, th *Throttle) string {
		before := pay(t, th, ev(th))
		b := []byte(before)
		if b[40] = 'A'; before[40] == 'A' {
			b[40] = 'B' // another letter of the alphabet: a sign outside it is nonsense, not forged
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		o       Options
		bring   func(*testing.T, *Throttle) string
		verdict weir.Verdict
		reason  weir.Reason
		ban     bool
	}{
		"forged":         {Options{}, turned, weir.Refuse, weir.Forged, true},
		"forged, pooled": {Options{OnInvalid: FatePool}, turned, weir.Challenge, weir.Unpaid, false},
		"nonsense": {Options{}, func(*testing.T, *Throttle) string { return "nonsense" }, weir.Challenge,
			weir.Unpaid, false},
		"nonsense, classic": {Options{Classic: true}, func(*testing.T, *Throttle) string { return "nonsense" },
			weir.Refuse, weir.Forged, true},
		"replay of one": {Options{Covers: 1}, replayed, weir.Refuse, weir.Replayed, false},
		"replay of one, pooled": {Options{Covers: 1, OnReplay: FatePool}, replayed, weir.Challenge, weir.Unpaid,
			false},
		"replay of one, classic": {Options{Classic: true}, replayed, weir.Refuse, weir.Replayed, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Schedule = always
			th := newThrottle(t, c.o)
			a := judged(t, th, visit(th, "ann", "192.0.2.1", c.bring(t, th)))
			if a.Verdict != c.verdict || a.Reason != c.reason || a.Ban != c.ban {
				t.Errorf("%s %s, ban %t; want %s %s %t", a.Verdict, a.Reason, a.Ban, c.verdict, c.reason, c.ban)
			}
		})
	}
}

func replayed(t *testing.T, th *Throttle) string {
	s := pay(t, th, visit(th, "ann", "192.0.2.1", ""))
	if a := judged(t, th, visit(th, "ann", "192.0.2.1", s)); a.Verdict != weir.Admit {
		t.Fatalf("%+v", a)
	}
	return s
}

func TestARefundedStampIsGoodAgain(t *testing.T) {
	th := newThrottle(t, Options{Schedule: always, Covers: 1})
	s := pay(t, th, visit(th, "ann", "192.0.2.1", ""))
	for range 3 {
		ev := visit(th, "ann", "192.0.2.1", s)
		if a := judged(t, th, ev); a.Verdict != weir.Admit {
			t.Fatalf("%+v", a)
		}
		ev.Purse.Refund()
	}
}

func TestPatience(t *testing.T) {
	th := newThrottle(t, Options{Schedule: always, Patience: 3})
	ask := func(client, address string, at time.Time) weir.Verdict {
		ev := visit(th, client, address, "")
		ev.Time = at
		return judged(t, th, ev).Verdict
	}
	for range 3 {
		if v := ask("", "192.0.2.1", start); v != weir.Challenge {
			t.Fatal(v)
		}
	}
	price := func(client, address string) uint64 {
		p, err := th.Ask(visit(th, client, address, ""), "new", "")
		if err != nil {
			t.Fatal(err)
		}
		return p.Work
	}
	usual := price("", "192.0.2.1")
	if v := ask("", "192.0.2.1", start); v != weir.Challenge {
		t.Errorf("the fourth: %s", v)
	}
	if got := price("", "192.0.2.1"); got != dearer*usual || price("ann", "192.0.2.1") != usual ||
		price("", "192.0.2.2") != usual {
		t.Errorf("a newcomer there may pay %d, which was %d", got, usual)
	}
	if v := ask("ann", "192.0.2.1", start); v != weir.Challenge {
		t.Errorf("somebody with an id at that address: %s", v)
	}
	if v := ask("", "192.0.2.2", start); v != weir.Challenge {
		t.Errorf("a neighbour: %s", v)
	}
	id, _ := identify.NewClients(nil).New(start)
	for range 3 {
		ask(id, "198.51.100.9", start)
	}
	if ask(id, "198.51.100.9", start) != weir.Refuse || ask(id, "192.0.2.1", start) != weir.Challenge {
		t.Error("the id of somebody else, put into a browser, has no patience left")
	}
	if v := ask("", "192.0.2.1", start.Add(time.Minute)); v != weir.Challenge {
		t.Errorf("a minute later: %s", v)
	}
	ticket := visit(th, "", "192.0.2.1", "")
	ticket.Place.Number = 7
	if a := judged(t, th, ticket); a.Verdict != weir.Challenge {
		t.Errorf("with a ticket: %s", a.Verdict)
	}
	ticket.Pool = poolOf(false)
	if a := judged(t, th, ticket); a.Verdict != weir.Challenge {
		t.Errorf("no room in the pool: %s", a.Verdict)
	}
	ticket.Pool = poolOf(true)
	if a := judged(t, th, ticket); a.Verdict != weir.Admit {
		t.Errorf("taken by the pool: %s", a.Verdict)
	}
}

// poolOf is a general pool that takes everything, or nothing.
type poolOf bool

func (r poolOf) Take() bool { return bool(r) }

// TestShadowAsksNobody: in shadow a throttle says what it would do, and counts nobody as asked, or as one who does not
// pay.
func TestShadowAsksNobody(t *testing.T) {
	th, shadow := newThrottle(t, Options{Schedule: always, Patience: 3}), true
	th.Follow(func() bool { return shadow })
	ask := func() weir.Verdict { return judged(t, th, visit(th, "ann", "192.0.2.1", "")).Verdict }
	for i := range 10 {
		if i == 7 {
			shadow = false
		}
		if v := ask(); v != weir.Challenge {
			t.Errorf("request %d: %s", i, v)
		}
	}
	if got := th.Stats(); ask() != weir.Refuse || got.Challenged != 3 || got.NotPaying != 0 {
		t.Errorf("%+v", got)
	}
}

// TestPoolTakesWhomItCan: whoever the pool takes is not counted as one who does not pay, however often it comes;
// whoever pays does not need it, and whoever forges is not taken.
func TestPoolTakesWhomItCan(t *testing.T) {
	th := newThrottle(t, Options{Schedule: always, Patience: 3})
	for i := range 100 {
		ev := visit(th, "", "192.0.2.1", "")
		ev.Pool = poolOf(true)
		if a := judged(t, th, ev); a.Verdict != weir.Admit {
			t.Fatalf("request %d: %s", i, a.Verdict)
		}
	}
	if got := th.Stats(); got.Held != 100 || got.Challenged != 0 || got.NotPaying != 0 {
		t.Errorf("%+v", got)
	}
	paid := visit(th, "ann", "192.0.2.1", replayed(t, th))
	paid.Pool = poolOf(true)
	if a := judged(t, th, paid); a.Verdict != weir.Admit || th.Stats().Held != 100 || paid.Purse.Paid().Uses != 2 {
		t.Errorf("%+v, %+v", a, paid.Purse.Paid())
	}
}

// TestSeenIsBounded: however many come, the table stays as it is, and nobody is held to more than they did.
func TestSeenIsBounded(t *testing.T) {
	needs.Unwatched(t)
	s := newSeen()
	more := 0
	for i := range 400_000 {
		if s.note(fmt.Sprint(i), start) != 1 {
			more++
		}
	}
	if more > 3 { // one in a thousand runs has two who share the bits that are kept of them
		t.Errorf("%d of those who came once count as more", more)
	}
	for i := range 10 {
		s.note("flood", start)
		if i == 9 && s.note("flood", start) < 2 {
			t.Error("the one who comes all the time is forgotten first")
		}
	}
}

func TestSeenCountsWhoRace(t *testing.T) {
	s := newSeen()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				s.note("one", start)
			}
		})
	}
	all.Wait()
	if n := s.note("one", start); n != 8001 {
		t.Errorf("%d, want 8001", n)
	}
	s.forget("one")
	if n := s.note("one", start); n != 1 {
		t.Errorf("forgiven, and %d", n)
	}
}

func TestGatesHaveTheirOwnDifficulty(t *testing.T) {
	th := newThrottle(t, Options{First: 64})
	busy := weir.Load{Of: "busy", Share: 1}
	if w := th.Observe(busy, start); w != 64 {
		t.Errorf("busy: %d", w)
	}
	if w := th.Observe(weir.Load{Of: "idle"}, start); w != 0 {
		t.Errorf("idle: %d", w)
	}
	if s := th.Stats(); s.Work["busy"] != 64 || s.Work["idle"] != 0 || len(s.Work) != 2 {
		t.Errorf("%v", s.Work)
	}
	th.Forget("busy")
	if s := th.Stats(); len(s.Work) != 1 {
		t.Errorf("%v", s.Work)
	}
}

// TestAskedWhileDormant: another throttle may ask where the load asks for nothing.
func TestAskedWhileDormant(t *testing.T) {
	th := newThrottle(t, Options{First: 64})
	p, err := th.Ask(visit(th, "ann", "192.0.2.1", ""), "ann", "")
	if err != nil || p.Work != 64 || p.Takes <= 0 || !p.Expires.After(start) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestConfiguring(t *testing.T) {
	o := Options{Schedule: always, Covers: 1, Secret: "a secret of some length"}
	th := newThrottle(t, o)
	s := replayed(t, th)
	o.Schedule = []Step{{0, 128}}
	if err := th.Configure(o, start, nofiles); err != nil {
		t.Fatal(err)
	}
	if a := judged(t, th, visit(th, "ann", "192.0.2.1", s)); a.Reason != weir.Replayed {
		t.Errorf("what was spent is good again: %+v", a)
	}
	late := visit(th, "bob", "192.0.2.1", "")
	late.Time = start.Add(time.Second)
	if a := judged(t, th, late); a.Limit != 128 {
		t.Errorf("%+v", a)
	}
	accepted := th.Stats().Accepted
	if accepted == 0 {
		t.Error("the counts began anew")
	}
	bad := o
	bad.NeverAsk = identify.ExemptOptions{Files: []string{"missing"}}
	if err := th.Configure(bad, start, nofiles); err == nil || !strings.Contains(err.Error(), "never_ask.files[0]") {
		t.Errorf("a missing file: %v", err)
	}
	if th.Stats().Accepted != accepted {
		t.Error("a refused change changed something")
	}
}

func TestPeekTakesNothing(t *testing.T) {
	th := newThrottle(t, Options{Schedule: always, Patience: 1})
	judged(t, th, visit(th, "warm", "192.0.2.9", ""))
	for range 5 {
		opened := false
		ev := visit(th, "ann", "192.0.2.1", "")
		ev.Purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid,
			func()) {
			opened = true
			return weir.Paid{}, nil
		})
		var a weir.Answer
		th.Peek(ev, &a)
		if a.Verdict != weir.Challenge || opened {
			t.Errorf("%s, opened %t", a.Verdict, opened)
		}
	}
}

// TestNothingIsAllocated on the way of a request that is not asked, or that is asked and has nothing.
func TestNothingIsAllocated(t *testing.T) {
	for name, o := range map[string]Options{"dormant": {}, "asked": {Schedule: always, Patience: MaxPatience}} {
		th := newThrottle(t, o)
		ev := visit(th, "ann", "192.0.2.1", "")
		var a weir.Answer
		if n := testing.AllocsPerRun(100, func() {
			a.Clear()
			_ = th.Judge(bg, ev, &a)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	for name, o := range map[string]Options{"dormant": {}, "asked": {Schedule: always, Patience: MaxPatience}} {
		b.Run(name, func(b *testing.B) {
			th := newThrottle(b, o)
			ev := visit(th, "ann", "192.0.2.1", "")
			var a weir.Answer
			b.ReportAllocs()
			for b.Loop() {
				a.Clear()
				_ = th.Judge(bg, ev, &a)
			}
		})
	}
}

// TestAFullMemory: at the bound of stamps that are remembered, the next one is not taken, told to come again, and
// counted.
func TestAFullMemory(t *testing.T) {
	th := newThrottle(t, Options{Schedule: always, Covers: 1, MaxSpent: 1})
	replayed(t, th)
	s := pay(t, th, visit(th, "bob", "192.0.2.2", ""))
	if a := judged(t, th, visit(th, "bob", "192.0.2.2", s)); a.Verdict != weir.Refuse || a.Reason != weir.Overload ||
		a.Ban {
		t.Errorf("%+v", a)
	}
	if got := th.Stats(); got.Full != 1 || got.Spent != 1 {
		t.Errorf("%+v", got)
	}
}
