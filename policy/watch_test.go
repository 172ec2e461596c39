package policy

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
)

// watched is a chain of throttles, all of them watched, at a gate.
func watched(t *testing.T, throttles ...*script) *Chain {
	t.Helper()
	c := chain(t, throttles...)
	for _, l := range c.Links() {
		l.Watch = new(Watch)
	}
	c.At(&GateFigures{Gate: ":8080"})
	return c
}

var over = weir.Answer{Verdict: weir.Refuse, Reason: weir.OverLimit, Until: start.Add(time.Minute),
	Figure: weir.Figure{Rule: "per-second", Unit: "requests", Limit: 5}}

func names(all []Heavy) string {
	var s []string
	for _, h := range all {
		name := h.Party.Name
		if h.Party.Kind == Network {
			name = h.Party.Network.String()
		}
		s = append(s, fmt.Sprintf("%s %s %d", h.Party.Kind, name, h.Count))
	}
	return strings.Join(s, ", ")
}

// TestWhoIsHeldBack: a client is named as the throttle knows it, and nobody who is admitted is.
func TestWhoIsHeldBack(t *testing.T) {
	source, six := netip.MustParseAddr("::ffff:192.0.2.77"), netip.MustParseAddr("2001:db8:1:2:3::4")
	for _, c := range []struct {
		naming Naming
		ev     weir.Event
		want   string
	}{
		{Naming{}, weir.Event{Account: "acme", Source: source}, "account acme 1"},
		{Naming{}, weir.Event{Account: "ann", Source: source, Message: &weir.Message{User: "ann@example.com"}},
			"user ann@example.com 1"},
		{Naming{}, weir.Event{Source: source}, "network 192.0.2.77/32 1"},
		{Naming{}, weir.Event{Source: six}, "network 2001:db8:1:2::/64 1"},
		{Naming{Sources: true, V4: 24, V6: 48}, weir.Event{Account: "acme", Source: source}, "network 192.0.2.0/24 1"},
		{Naming{Sources: true, V4: 24, V6: 48}, weir.Event{Source: six}, "network 2001:db8:1::/48 1"},
		{Naming{Sources: true, V4: 64, V6: 128}, weir.Event{Source: source}, "network 192.0.2.77/32 1"},
		{Naming{Sources: true, V4: 64, V6: 128}, weir.Event{Source: six}, "network 2001:db8:1:2:3::4/128 1"},
		{Naming{Sources: true}, weir.Event{Account: "acme"}, ""},
		{Naming{}, weir.Event{}, ""},
	} {
		for _, v := range weir.Verdicts {
			s := &script{answer: over}
			s.answer.Verdict = v
			chain := watched(t, s)
			link := chain.Links()[0]
			link.Names, c.ev.Time = c.naming, start
			p := new(Pass)
			chain.Judge(context.Background(), &c.ev, p)
			want := c.want
			if v == weir.Admit {
				want = ""
			}
			if got := names(link.Watch.Top(start, 9, false)); got != want {
				t.Errorf("%+v of %+v: %q, want %q", c.naming, c.ev, got, want)
			}
			if got := link.Watch.Top(start, 9, true); len(got) != 0 {
				t.Errorf("%v would be held back, and it is", got)
			}
			if p.event != nil {
				t.Error("the event is kept")
			}
		}
	}
	for _, text := range []string{"0.0.0.0/0", "192.0.2.1/32", "::/0", "2001:db8::1/128"} {
		var key [networkKey]byte
		if got := unpackNetwork(string(packNetwork(&key, netip.MustParsePrefix(text)))); got.String() != text {
			t.Errorf("%s came back as %s", text, got)
		}
	}
}

// TestWouldBeHeldBack: what throttles in shadow would do is kept apart, and counts once at the gate.
func TestWouldBeHeldBack(t *testing.T) {
	a, b, c := &script{answer: over}, &script{answer: verdict(weir.Wait)}, &script{}
	chain := watched(t, a, b, c)
	for _, l := range chain.Links() {
		l.Shadow.Store(true)
	}
	p := new(Pass)
	for range 3 {
		chain.Judge(context.Background(), &weir.Event{Time: start, Account: "acme", ID: "r1"}, p)
		p.Settle(weir.Outcome{Time: start, Done: true})
	}
	for i, want := range []string{"account acme 3", "account acme 3", ""} {
		w := chain.Links()[i].Watch
		if got := names(w.Top(start, 9, true)); got != want || len(w.Top(start, 9, false)) != 0 {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	if n := chain.gate.Would.Load(); n != 3 {
		t.Errorf("%d events at the gate", n)
	}
	all, left := chain.Links()[0].Watch.Refusals()
	if len(all) != 3 || left != 0 || !all[0].Shadow || all[0].By != "a" {
		t.Errorf("%d left, %+v", left, all)
	}
	if all, _ := chain.Links()[1].Watch.Refusals(); len(all) != 0 {
		t.Errorf("a wait is no refusal: %+v", all)
	}
}

// TestRefusals: the latest first, with its figures and what the gate knows.
func TestRefusals(t *testing.T) {
	chain := watched(t, &script{answer: over})
	source := netip.MustParseAddr("192.0.2.1")
	for i := range 2 {
		chain.Judge(context.Background(), &weir.Event{Time: start.Add(time.Duration(i) * time.Second),
			Account: "acme", ID: fmt.Sprintf("r%d", i), Source: source}, new(Pass))
	}
	all, left := chain.Links()[0].Watch.Refusals()
	want := Refusal{Time: start.Add(time.Second), Gate: ":8080", Verdict: weir.Refuse, Reason: weir.OverLimit,
		Figure: weir.Figure{By: "a", Rule: "per-second", Unit: "requests", Limit: 5}, Until: start.Add(time.Minute),
		Who: Party{Kind: Account, Name: "acme"}, Source: source, ID: "r1"}
	if len(all) != 2 || all[0] != want || all[1].ID != "r0" || left != 0 {
		t.Errorf("%d left, %+v", left, all)
	}
}

// TestRefusedAfterAWait: whoever waited in vain is refused under the name it came with, although its event is gone.
func TestRefusedAfterAWait(t *testing.T) {
	waiting := waits(time.Second)
	chain := watched(t, &script{answer: waiting})
	ev := &weir.Event{Time: start, Account: "acme", ID: "r1"}
	p := new(Pass)
	chain.Judge(context.Background(), ev, p)
	*ev = weir.Event{Account: "somebody else", ID: "r2"}
	waiting.Turn.Refuse(weir.WaitTooLong)
	if err := p.Await(context.Background(), now); err != nil {
		t.Fatal(err)
	}
	w := chain.Links()[0].Watch
	all, _ := w.Refusals()
	if len(all) != 1 || all[0].Who.Name != "acme" || all[0].ID != "r1" || all[0].Reason != weir.WaitTooLong ||
		all[0].Rule != "1s" {
		t.Errorf("%+v", all)
	}
	if got := names(w.Top(start, 9, false)); got != "account acme 1" {
		t.Errorf("%s: the wait and its end are one event", got)
	}
}

// TestRefusedAtTheEnd: whoever waited and then finds no place.
func TestRefusedAtTheEnd(t *testing.T) {
	waiting := waits(time.Second)
	entry := &script{answer: weir.Answer{Hold: weir.Hold{Enter: true}}, enter: over}
	chain := watched(t, &script{answer: waiting}, entry)
	p := new(Pass)
	chain.Judge(context.Background(), &weir.Event{Time: start, Account: "acme"}, p)
	waiting.Turn.Grant()
	if err := p.Await(context.Background(), now); err != nil || p.Answer.Verdict != weir.Refuse {
		t.Fatal(err, p.Answer.Explain())
	}
	if all, _ := chain.Links()[1].Watch.Refusals(); len(all) != 1 || all[0].Who.Name != "acme" ||
		!all[0].Time.Equal(now()) {
		t.Errorf("%+v", all)
	}
}

// TestRefusalsAreSampled: of a flood the first few are kept, then a few a second, and the rest is counted.
func TestRefusalsAreSampled(t *testing.T) {
	w := new(Watch)
	const seconds, each = 100, 1000
	for i := range seconds * each {
		w.Refused(&Refusal{Time: start.Add(time.Duration(i) * time.Second / each), ID: fmt.Sprint(i)})
	}
	all, left := w.Refusals()
	if len(all) != RefusalsKept {
		t.Errorf("%d are kept", len(all))
	}
	if kept := seconds*each - left; kept < RefusalsAtOnce+RefusalsPerSecond*(seconds-1) ||
		kept > RefusalsAtOnce+RefusalsPerSecond*seconds {
		t.Errorf("%d were kept at some time", kept)
	}
	if newest := start.Add(seconds * time.Second).Sub(all[0].Time); newest > time.Second {
		t.Errorf("the newest is %s old", newest)
	}
	// The clock is set back: refusals are kept again at once.
	w.Refused(&Refusal{Time: start.Add(-time.Hour), ID: "early"})
	if all, _ := w.Refusals(); all[0].ID != "early" {
		t.Errorf("%+v", all[0])
	}
}

// TestRefusalBounds: names and ids that are too long lose their end.
func TestRefusalBounds(t *testing.T) {
	w := new(Watch)
	long := strings.Repeat("x", maxPartyName)
	w.Refused(&Refusal{Time: start, Who: Party{Kind: Account, Name: long + "y"}, ID: long[:maxRefusalID] + "y"})
	all, _ := w.Refusals()
	if all[0].Who.Name != long || all[0].ID != long[:maxRefusalID] {
		t.Errorf("%+v", all[0])
	}
	for i := range RefusalsKept + 1 {
		w.Refused(&Refusal{Time: start.Add(time.Duration(i+1) * time.Second), ID: fmt.Sprint(i)})
	}
	if all, _ = w.Refusals(); len(all) != RefusalsKept || all[0].ID != fmt.Sprint(RefusalsKept) || all[255].ID != "1" {
		t.Errorf("%d, from %s to %s", len(all), all[0].ID, all[len(all)-1].ID)
	}
}

// TestRefusedWithoutAChain: a gate that asks a throttle itself.
func TestRefusedWithoutAChain(t *testing.T) {
	link := NewLink("a", nil, Closed)
	ev := &weir.Event{Time: start, Account: "acme"}
	link.Refused(ev, over.Figure, ":8081", false) // nobody watches
	link.Watch = new(Watch)
	link.Refused(ev, over.Figure, ":8081", true)
	all, _ := link.Watch.Refusals()
	if len(all) != 1 || all[0].By != "a" || all[0].Gate != ":8081" || !all[0].Shadow || all[0].Limit != 5 ||
		names(link.Watch.Top(start, 9, true)) != "account acme 1" {
		t.Errorf("%+v", all)
	}
}

// TestWatchAges: names are gone some half-lives after they were held back for the last time.
func TestWatchAges(t *testing.T) {
	w := new(Watch)
	w.Held(start, Party{Kind: Account, Name: "acme"}, 3, false)
	w.Held(start, Party{Kind: Account, Name: "acme"}, 3, true)
	w.Age(start.Add(2 * HeldHalfLife))
	if len(w.Top(start.Add(2*HeldHalfLife), 9, false)) != 0 || len(w.Top(start.Add(2*HeldHalfLife), 9, true)) != 1 {
		t.Error("not aged")
	}
	w.Age(start.Add(2 * WouldHalfLife))
	if len(w.Top(start.Add(2*WouldHalfLife), 9, true)) != 0 {
		t.Error("not aged in shadow")
	}
	var nobody *Watch
	nobody.Held(start, Party{Kind: Account, Name: "acme"}, 3, false)
	nobody.Refused(&Refusal{})
	nobody.Age(start)
	if all, left := nobody.Refusals(); len(nobody.Top(start, 9, false)) != 0 || len(all) != 0 || left != 0 {
		t.Error("nobody has seen something")
	}
}

// TestWhoPays: of those who are admitted only payers are remembered, by their source, and forgotten when they stop.
func TestWhoPays(t *testing.T) {
	chain := watched(t, &script{}, &script{})
	asks, other := chain.Links()[0], chain.Links()[1]
	asks.Names = Naming{Sources: true, Payers: true}
	for i, work := range []uint64{64, 64, 0} {
		ev := &weir.Event{Time: start, Account: "acme", Source: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i/2)}),
			Purse: weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
				return weir.Paid{Work: work}, nil
			})}
		ev.Purse.Open(t.Context(), ev)
		chain.Judge(t.Context(), ev, new(Pass))
	}
	if got := names(asks.Watch.Payers(start, 9)); got != "network 192.0.2.1/32 2" {
		t.Errorf("paid: %q", got)
	}
	if got := names(other.Watch.Payers(start, 9)) + names(asks.Watch.Top(start, 9, false)); got != "" {
		t.Errorf("paid elsewhere, or held back: %q", got)
	}
	later := start.Add(2 * HeldHalfLife)
	asks.Watch.Age(later)
	if got := asks.Watch.Payers(later, 9); len(got) != 0 {
		t.Errorf("not forgotten: %v", got)
	}
	var nobody *Watch
	nobody.Paid(start, Party{Kind: Network})
	if nobody.Payers(start, 9) != nil {
		t.Error("nobody has seen a payment")
	}
}

// TestDoorCounts: who came to a gate's door, and who was turned away.
func TestDoorCounts(t *testing.T) {
	chain := watched(t, &script{answer: over})
	source := netip.MustParseAddr("192.0.2.1")
	door := NewDoor(chain, func(a netip.Addr) bool { return a != source })
	for range 3 {
		door.Admit(source, start)
	}
	door.Admit(netip.MustParseAddr("10.0.0.1"), start)
	if e := chain.gate; e.Connections.Load() != 4 || e.TurnedAway.Load() != 3 {
		t.Errorf("%d connections, %d turned away", e.Connections.Load(), e.TurnedAway.Load())
	}
}

// TestWatchAtOnce: whoever is refused, looks and forgets at once.
func TestWatchAtOnce(t *testing.T) {
	chain := watched(t, &script{answer: over})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			p := new(Pass)
			for i := range 2000 {
				chain.Judge(context.Background(), &weir.Event{Time: start.Add(time.Duration(i) * time.Millisecond),
					Account: fmt.Sprint(i % 9)}, p)
			}
		})
	}
	w := chain.Links()[0].Watch
	all.Go(func() {
		for range 100 {
			w.Top(start, 9, false)
			w.Refusals()
			w.Age(start)
		}
	})
	all.Wait()
	if got := w.Top(start, 99, false); len(got) != 9 {
		t.Errorf("%s", names(got))
	}
}

// TestRefusalAllocatesNothing, once the sketch is in use.
func TestRefusalAllocatesNothing(t *testing.T) {
	chain := watched(t, &script{answer: over})
	p, ev := new(Pass), &weir.Event{Time: start, Account: "acme", ID: "r1"}
	chain.Judge(context.Background(), ev, p)
	if n := testing.AllocsPerRun(1000, func() {
		ev.Time = ev.Time.Add(100 * time.Millisecond)
		chain.Judge(context.Background(), ev, p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRefuse(b *testing.B) {
	for name, w := range map[string]*Watch{"watched": {}, "unwatched": nil} {
		b.Run(name, func(b *testing.B) {
			link := NewLink("a", refusing{}, Closed)
			link.Watch = w
			c, err := New([]*Link{link}, nil)
			if err != nil {
				b.Fatal(err)
			}
			p, ev := new(Pass), &weir.Event{Time: start, Account: "acme", ID: "r1"}
			b.ReportAllocs()
			for b.Loop() {
				ev.Time = ev.Time.Add(time.Microsecond)
				c.Judge(context.Background(), ev, p)
			}
		})
	}
}

type refusing struct{ quiet }

func (refusing) Judge(_ context.Context, _ *weir.Event, a *weir.Answer) error {
	a.Verdict, a.Reason = weir.Refuse, weir.OverLimit
	return nil
}
