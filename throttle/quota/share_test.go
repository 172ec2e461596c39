package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/needs"
)

// shares are the nodes of a farm that divide a limit.
func shares(t *testing.T, o Options, of int) (nodes []*rig) {
	t.Helper()
	for rank := range of {
		r := newRig(t, o)
		r.q.Divide(of, rank, 1<<rank)
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
	r.q.Divide(2, 1, 2)
	r.q.Divide(2, 1, 2)
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
		r.q.Divide(2, 0, 1)
		r.q.Divide(whole[0], whole[1], 1)
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
		q.Divide(i%4, i%3, 1)
	}
	<-done
	<-done
}
