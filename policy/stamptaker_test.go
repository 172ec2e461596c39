package policy

import (
	"context"
	"testing"
	"time"

	"weir"
)

// stamp takers and upstreams are throttles with a role in their chain.
type takers struct{ *script }

func (takers) Receive(context.Context, *weir.Event, string, string) (weir.Paid, func()) {
	return weir.Paid{}, nil
}
func (takers) Ask(*weir.Event, string, string) (weir.Puzzle, error) { return weir.Puzzle{}, nil }
func (takers) Terms() weir.Terms                                    { return weir.Terms{} }

type upstreams struct{ *script }

func (upstreams) Enter(*weir.Hold, time.Time, *weir.Answer) {}
func (upstreams) TurnedAway(*weir.Event, time.Time)         {}

// The chain says which of its links is the stamp taker and which the lanes, and whether an answer is theirs.
func TestRoles(t *testing.T) {
	plain := NewLink("plain", &script{}, Closed)
	first, second := NewLink("first", takers{&script{}}, Closed), NewLink("second", takers{&script{}}, Closed)
	capacity := NewLink("capacity", upstreams{&script{}}, Open)
	c, err := New([]*Link{plain, first, second, capacity}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.StampTakerLink() != first || c.StampTaker() != first.Throttle.(StampTaker) || c.LanesLink() != capacity {
		t.Errorf("the stamp taker is %v, the lanes are %v", c.StampTakerLink(), c.LanesLink())
	}
	for _, by := range []string{"", "plain", "first", "second", "capacity"} {
		a := &weir.Answer{Figure: weir.Figure{By: by}}
		if c.ByStampTaker(a) != (by == "first") || c.ByLanes(a) != (by == "capacity") {
			t.Errorf("%q: by the stamp taker %v, by the lanes %v", by, c.ByStampTaker(a), c.ByLanes(a))
		}
	}
	none, _ := New([]*Link{plain}, nil)
	if none.StampTaker() != nil || none.StampTakerLink() != nil || none.LanesLink() != nil {
		t.Error("a chain without a stamp taker has one")
	}
	if a := new(weir.Answer); none.ByStampTaker(a) || none.ByLanes(a) {
		t.Error("an answer that nobody gave is theirs")
	}
}
