package policy

import (
	"context"
	"testing"
	"time"

	"weir"
)

// tills and upstreams are throttles with a role in their chain.
type tills struct{ *script }

func (tills) Receive(context.Context, *weir.Event, string, string) (weir.Paid, func()) {
	return weir.Paid{}, nil
}
func (tills) Ask(*weir.Event, string, string) (weir.Puzzle, error) { return weir.Puzzle{}, nil }
func (tills) Terms() weir.Terms                                    { return weir.Terms{} }

type upstreams struct{ *script }

func (upstreams) Enter(*weir.Hold, time.Time, *weir.Answer) {}
func (upstreams) TurnedAway(*weir.Event, time.Time)         {}

// The chain says which of its links is the till and which the lanes, and whether an answer is theirs.
func TestRoles(t *testing.T) {
	plain := NewLink("plain", &script{}, Closed)
	first, second := NewLink("first", tills{&script{}}, Closed), NewLink("second", tills{&script{}}, Closed)
	capacity := NewLink("capacity", upstreams{&script{}}, Open)
	c, err := New([]*Link{plain, first, second, capacity}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.TillLink() != first || c.Till() != first.Throttle.(Till) || c.LanesLink() != capacity {
		t.Errorf("the till is %v, the lanes are %v", c.TillLink(), c.LanesLink())
	}
	for _, by := range []string{"", "plain", "first", "second", "capacity"} {
		a := &weir.Answer{Figure: weir.Figure{By: by}}
		if c.ByTill(a) != (by == "first") || c.ByLanes(a) != (by == "capacity") {
			t.Errorf("%q: by the till %v, by the lanes %v", by, c.ByTill(a), c.ByLanes(a))
		}
	}
	none, _ := New([]*Link{plain}, nil)
	if none.Till() != nil || none.TillLink() != nil || none.LanesLink() != nil {
		t.Error("a chain without a till has one")
	}
	if a := new(weir.Answer); none.ByTill(a) || none.ByLanes(a) {
		t.Error("an answer that nobody gave is theirs")
	}
}
