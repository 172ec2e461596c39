package quota

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/farm"
	"weir/internal/testkit/needs"
)

// placed is the place of a node that has its part, among nodes that agree.
func placed(of, rank int, up uint64) farm.Standing {
	up |= 1 << max(rank, 0)
	return farm.Standing{Of: of, Rank: rank, Up: up, Parts: up, Agreed: true}
}

// shares are the nodes of a farm that divide a limit.
func shares(t *testing.T, o Options, of int) (nodes []*rig) {
	t.Helper()
	for rank := range of {
		r := newRig(t, o)
		r.q.Divide(placed(of, rank, 1<<rank))
		nodes = append(nodes, r)
	}
	return nodes
}

func divided(p Policy) Policy {
	p.OnLoss = LossShare
	return p
}

// drain sends events to a node until one is refused, and returns how many were admitted.
func (r *rig) drain(account string, at time.Time, most int) (n int) {
	r.t.Helper()
	r.now = at
	for ; n <= most; n++ {
		if r.ask(account).answer.Verdict != weir.Admit {
			return n
		}
	}
	return n
}

// In each period all nodes together grant exactly the limit, and each has its turn.
func TestSharesAddUp(t *testing.T) {
	needs.Unwatched(t)
	berlin := weir.Period{Calendar: weir.Day}
	for _, c := range []struct {
		name   string
		period weir.Period
		zone   string
	}{
		{"second", weir.Period{Length: time.Second}, ""},
		{"7s", weir.Period{Length: 7 * time.Second}, ""},
		{"day", berlin, "Europe/Berlin"},
		{"week", weir.Period{Calendar: weir.Week}, ""},
		{"month", weir.Period{Calendar: weir.Month}, ""},
		{"year", weir.Period{Calendar: weir.Year}, ""},
	} {
		for _, of := range []int{1, 2, 3, 5} {
			for _, limit := range []int64{1, 2, 4, 5, 17} {
				name := fmt.Sprintf("%s/%d of %d", c.name, limit, of)
				nodes := shares(t, one(divided(Policy{Name: "p", Limit: Count(limit), Period: c.period,
					TimeZone: c.zone})), of)
				loc := time.UTC
				if c.zone != "" {
					loc, _ = time.LoadLocation(c.zone)
				}
				turns := make([]int64, of)
				at := epoch
				for range of {
					start, end := c.period.Bounds(at, loc)
					sum := int64(0)
					for i, r := range nodes {
						n := int64(r.drain("a", start.Add(end.Sub(start)/3), 20))
						turns[i] += n
						sum += n
					}
					if sum != limit {
						t.Errorf("%s: %d were granted in a period", name, sum)
					}
					at = end
				}
				for _, n := range turns {
					if n != limit {
						t.Errorf("%s: the turns are not fair: %v", name, turns)
						break
					}
				}
			}
		}
	}
}

// Without its turn a node says when it comes, and whoever waits gets in then.
func TestSharesSayWhenTheTurnComes(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding} {
		p := divided(perSecond(1))
		p.Window = w
		for rank, r := range shares(t, one(p), 3) {
			r.drain("a", r.now, 1)
			for range 10 {
				a := r.ask("a").answer
				if a.Verdict != weir.Refuse || a.Reason != weir.OverLimit || a.Until.IsZero() {
					t.Fatalf("%s %d: %+v", w, rank, a)
				}
				if r.now = a.Until.Add(-1); r.ask("a").answer.Verdict != weir.Refuse {
					t.Errorf("%s %d: admitted before it said", w, rank)
				}
				if r.now = a.Until; r.ask("a").answer.Verdict != weir.Admit {
					t.Errorf("%s %d: not admitted when it said", w, rank)
				}
			}
		}
	}
	for _, r := range shares(t, one(delayed(divided(perSecond(1)), 5, 10*time.Second)), 3) {
		r.drain("a", r.now, 1)
		if got := r.ask("a").answer; got.Verdict != weir.Wait {
			t.Errorf("%+v", got)
		}
		r.advance(6 * time.Second)
		if len(r.line) != 0 {
			t.Error("it still waits")
		}
	}
}

// No stretch of one period sees more than the limit, over all nodes.
func TestSharesOfASlidingWindow(t *testing.T) {
	needs.Unwatched(t)
	for _, of := range []int{2, 3, 5} {
		for _, limit := range []int64{1, 2, 4, 7} {
			p := divided(perSecond(limit))
			p.Window = Sliding
			nodes := shares(t, one(p), of)
			var granted []time.Time
			each := make([]int, of)
			for at := epoch; at.Before(epoch.Add(20 * time.Second)); at = at.Add(31 * time.Millisecond) {
				for i, r := range nodes {
					n := r.drain("a", at, 20)
					each[i] += n
					for range n {
						granted = append(granted, at)
					}
				}
			}
			for i, first := range granted {
				n, _ := slices.BinarySearchFunc(granted[i:], first.Add(time.Second), time.Time.Compare)
				if int64(n) > limit {
					t.Fatalf("%d of %d: %d in a second", limit, of, n)
				}
			}
			if slices.Contains(each, 0) {
				t.Errorf("%d of %d: somebody has no turn: %v", limit, of, each)
			}
		}
	}
}

// A side of several nodes grants in the turn of one of them no more than that, whatever came before.
func TestTurnsOfASideInASlidingWindow(t *testing.T) {
	for _, up := range [][2]uint64{{0b00011, 0b11100}, {0b00101, 0b11010}, {0b00111, 0b11000}} {
		for _, limit := range []int64{1, 2, 3, 4} {
			p := divided(perSecond(limit))
			p.Window = Sliding
			var granted []time.Time
			var sides [2]*rig
			for i, ranks := range up {
				sides[i] = newRig(t, one(p))
				sides[i].q.Divide(farm.Standing{Of: 5, Rank: bits.TrailingZeros64(ranks), Up: ranks, Parts: ranks,
					Agreed: true})
			}
			for at := epoch; at.Before(epoch.Add(25 * time.Second)); at = at.Add(37 * time.Millisecond) {
				for _, r := range sides {
					for range r.drain("a", at, 20) {
						granted = append(granted, at)
					}
				}
			}
			for i, first := range granted {
				n, _ := slices.BinarySearchFunc(granted[i:], first.Add(time.Second), time.Time.Compare)
				if int64(n) > limit {
					t.Fatalf("%d, sides %05b: %d in a second", limit, up, n)
				}
			}
			if len(granted) < int(limit)*10 {
				t.Errorf("%d, sides %05b: %d in 25 seconds", limit, up, len(granted))
			}
		}
	}
}

// A node without a part grants nothing of what is divided, and while nodes do not agree on their ranks nobody has a
// turn.
func TestWithoutAPart(t *testing.T) {
	for _, c := range []struct {
		onLoss  OnLoss
		stands  farm.Standing
		granted int
	}{
		{LossShare, farm.Standing{Of: 1, Up: 1}, 0},
		{LossClosed, farm.Standing{Of: 1, Up: 1}, 0},
		{LossOpen, farm.Standing{Of: 1, Up: 1}, 10},
		{LossShare, farm.Standing{Of: 1, Up: 1, Parts: 1, Agreed: true}, 10},
		{LossClosed, farm.Standing{Of: 1, Up: 1, Parts: 1}, 10},
		{LossShare, farm.Standing{Of: 3, Rank: 1, Up: 0b010}, 0},
		{LossShare, farm.Standing{Of: 3, Rank: 1, Up: 0b011, Parts: 0b001}, 3},
		{LossShare, farm.Standing{Of: 3, Rank: 1, Up: 0b111, Parts: 0b001}, 10}, // nobody is lost
		{LossClosed, farm.Standing{Of: 3, Rank: 1, Up: 0b111, Parts: 0b001}, 10},
		{LossClosed, farm.Standing{Of: 3, Rank: 1, Up: 0b111}, 0},
		{LossShare, farm.Standing{Of: 3, Rank: 1, Up: 0b011, Parts: 0b011}, 6},
	} {
		for _, w := range []WindowKind{Fixed, Sliding} {
			r := newRig(t, one(Policy{Name: "p", Limit: Count(10), Window: w, Period: weir.Period{Length: time.Hour},
				OnLoss: c.onLoss}))
			r.q.Divide(c.stands)
			if n := r.drain("a", r.now, 20); n != c.granted {
				t.Errorf("%s %s %+v: %d", c.onLoss, w, c.stands, n)
			}
		}
	}
}

// A node that does not know what was used before it started grants nothing of that, unless on_loss says so; what begins
// later it knows.
func TestUnaware(t *testing.T) {
	for _, c := range []struct {
		onLoss        OnLoss
		window        WindowKind
		before, after int
	}{
		{LossOpen, Fixed, 9, 9}, {LossShare, Fixed, 0, 3}, {LossClosed, Fixed, 0, 0},
		{LossOpen, Sliding, 9, 9}, {LossShare, Sliding, 0, 3},
		{LossOpen, GCRA, 9, 9}, {LossShare, GCRA, 0, 3},
	} {
		r := newRig(t, one(Policy{Name: "p", Limit: Count(9), Window: c.window, Period: weir.Period{Length: time.Hour},
			OnLoss: c.onLoss}))
		began := epoch.Add(10 * time.Minute)
		r.q.Divide(farm.Standing{Of: 3, Up: 1, Parts: 1, Agreed: true})
		r.q.Unaware(began, began)
		if n := r.drain("a", began.Add(time.Minute), 20); n != c.before {
			t.Errorf("%s %s: %d before", c.onLoss, c.window, n)
		}
		later := began.Add(2 * time.Hour)
		r.q.Unaware(began, later)
		if n := r.drain("b", later, 20); n != c.after {
			t.Errorf("%s %s: %d after", c.onLoss, c.window, n)
		}
		r.q.Unaware(began, began)
		r.q.Unaware(time.Time{}, began)
		if n := r.drain("c", began, 20); n != c.after {
			t.Errorf("%s %s: %d when it knows", c.onLoss, c.window, n)
		}
	}
}

// The rate is divided as it is, and bursts as far as each has one.
func TestSharesOfASteadyRate(t *testing.T) {
	for _, of := range []int{2, 3, 5} {
		for _, limit := range []int64{1, 2, 4, 10} {
			p := divided(perSecond(limit))
			p.Window = GCRA
			first, total := 0, 0
			const seconds = 60
			for _, r := range shares(t, one(p), of) {
				own := r.drain("a", epoch, 20)
				first += own
				for at := epoch; at.Before(epoch.Add(seconds * time.Second)); at = at.Add(50 * time.Millisecond) {
					own += r.drain("a", at, 20)
				}
				total += own
			}
			if most := max(int(limit), of); first > most || total > most+int(limit)*seconds ||
				total < int(limit)*seconds*9/10 {
				t.Errorf("%d of %d: %d at once, %d in a minute", limit, of, first, total)
			}
		}
	}
}

func TestSharesOfPlacesAndBytes(t *testing.T) {
	places, began := 0, 0
	for _, r := range shares(t, one(divided(Policy{Name: "p", Kind: Concurrent, Limit: Count(7)})), 3) {
		n := r.drain("a", epoch, 10)
		places += n
		began = max(began, n)
	}
	if places != 7 || began != 3 {
		t.Errorf("%d places, %d at one node", places, began)
	}
	for _, limit := range []int64{1, 2, 1000} {
		for second := range 6 {
			sum := int64(0)
			for _, r := range shares(t, one(divided(Policy{Name: "p", Kind: Volume, Limit: Bytes(weir.Size(limit)),
				Period: weir.Period{Length: time.Second}})), 3) {
				r.now = epoch.Add(time.Duration(second) * time.Second)
				if e := r.ask("a"); e.answer.Verdict == weir.Admit {
					sum += e.answer.Figures[0].Remaining
					// A debt is paid off by this node's share, and then it goes on.
					r.q.Flow(e.answer.Hold, 10*limit, r.now)
					again := r.ask("a").answer
					if again.Verdict != weir.Refuse || !again.Until.After(r.now.Add(20*time.Second)) {
						t.Errorf("%d bytes: %+v", limit, again)
					}
					if r.now = again.Until; r.ask("a").answer.Verdict != weir.Admit {
						t.Errorf("%d bytes: it does not go on", limit)
					}
				}
			}
			if sum != limit {
				t.Errorf("%d bytes in second %d, want %d", sum, second, limit)
			}
		}
	}
}

// Clients are told the share; plans and overrides are divided as the limit is; what was used stays used.
func TestSharesOfPlansWhileServing(t *testing.T) {
	o := one(divided(perSecond(10)))
	o.Policies = append(o.Policies, Policy{Name: "open", Limit: Count(100), Period: weir.Period{Length: time.Second}})
	o.Plans = map[string]map[string]Override{"gold": {"per-second": {Limit: Count(20)}}}
	o.Members = map[string]string{"g": "gold"}
	o.Overrides = map[string]map[string]Override{"o": {"per-second": {Limit: Count(40)}},
		"x": {"per-second": {Exempt: true}}}
	r := newRig(t, o)
	figure := func(account string) weir.Figure { return r.ask(account).answer.Figures[0] }
	for account, want := range map[string]int64{"a": 10, "g": 20, "o": 40} {
		if f := figure(account); f.Limit != want || f.Remaining != want-1 {
			t.Errorf("%s: %+v", account, f)
		}
	}
	r.q.Divide(placed(2, 1, 2))
	r.q.Divide(placed(2, 1, 2))
	for account, want := range map[string]int64{"a": 5, "g": 10, "o": 20} {
		a := r.ask(account).answer
		if f := a.Figures[0]; f.Limit != want || f.Remaining != want-2 {
			t.Errorf("%s: %+v", account, f)
		}
		if a.Figures[1].Limit != 100 {
			t.Errorf("a policy without on_loss is divided: %+v", a.Figures[1])
		}
		state, _ := r.q.Account(account, r.now)
		if state.Rules[0].Limit != want {
			t.Errorf("%s: %+v", account, state)
		}
	}
	if f := figure("x"); f.Rule != "open" {
		t.Errorf("exempt: %+v", f)
	}
	if err := r.q.Configure(o, r.now); err != nil || figure("a").Limit != 5 {
		t.Error("a reload forgets the share", err)
	}
	for _, whole := range [][2]int{{1, 0}, {0, 0}, {2, 2}, {2, -1}} {
		r.q.Divide(placed(2, 0, 1))
		r.q.Divide(placed(whole[0], whole[1], 1))
		if f := figure("a"); f.Limit != 10 {
			t.Errorf("%v: %+v", whole, f)
		}
	}
}

// A gap cannot be divided.
func TestSharesAreChecked(t *testing.T) {
	for text, p := range map[string]Policy{
		"cannot be divided": {Name: "p", Kind: Idle, Gap: weir.Duration(time.Second), OnLoss: LossShare},
		"misses no other node": {Name: "p", Limit: Count(1), Period: weir.Period{Length: time.Second}, Farm: FarmLocal,
			OnLoss: LossClosed},
		"half": {Name: "p", Limit: Count(1), Period: weir.Period{Length: time.Second}, OnLoss: "half"},
	} {
		err := one(p).Validate()
		var field *weir.FieldError
		if !errors.As(err, &field) || !strings.Contains(err.Error(), text) ||
			!strings.HasSuffix(field.Path, "on_loss") {
			t.Errorf("%v", err)
		}
	}
}

// Shares may change while events are judged.
func TestSharesWhileOthersAsk(t *testing.T) {
	q, err := New(one(divided(perSecond(1000))))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			var a weir.Answer
			for i := range 2000 {
				a.Clear()
				ev := weir.Event{Account: fmt.Sprint(i % 7), Time: epoch.Add(time.Duration(i) * time.Millisecond)}
				_ = q.Judge(context.Background(), &ev, &a)
			}
		}()
	}
	for i := range 200 {
		q.Divide(placed(i%4, i%3, 1))
	}
	<-done
	<-done
}
