package policy

import (
	"context"
	"testing"
	"time"

	"weir"
)

// rationer is a throttle with a number of bytes to grant.
type rationer struct {
	left, flowed int64
}

func (r *rationer) Judge(_ context.Context, _ *weir.Event, a *weir.Answer) error {
	a.Hold = weir.Hold{Ref: r, N: 1}
	return nil
}
func (r *rationer) Settle(weir.Hold, weir.Outcome) {}
func (r *rationer) Peek(*weir.Event, *weir.Answer) {}
func (r *rationer) Rations() bool                  { return true }
func (r *rationer) Flow(_ weir.Hold, n int64, _ time.Time) time.Time {
	r.flowed += n
	return time.Time{}
}
func (r *rationer) Return(_ weir.Hold, n int64, _, _ time.Time) { r.left += n }
func (r *rationer) Ask(_ weir.Hold, most int64, whole bool, now time.Time) (int64, time.Time) {
	n := min(most, r.left)
	if whole && n < most {
		return 0, time.Time{}
	}
	if r.left -= n; n == 0 {
		return 0, now.Add(time.Second)
	}
	return n, time.Time{}
}

// Of several throttles the one with the least decides, and the others get back what they granted beyond it. What was
// granted is not charged again when it flows; who is in shadow is charged then.
func TestAsk(t *testing.T) {
	rich, poor, shadow := &rationer{left: 1000}, &rationer{left: 300}, &rationer{left: 10}
	links := []*Link{NewLink("rich", rich, Closed), NewLink("poor", poor, Closed), NewLink("shadow", shadow, Closed),
		NewLink("quiet", quiet{}, Closed)} // which counts no bytes
	links[2].Shadow.Store(true)
	c, err := New(links, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	var p Pass
	c.Judge(context.Background(), &weir.Event{Time: now}, &p)
	left := func(what string, a, b int64) {
		t.Helper()
		if rich.left != a || poor.left != b || shadow.left != 10 {
			t.Errorf("%s: %d, %d and %d left, want %d and %d", what, rich.left, poor.left, shadow.left, a, b)
		}
	}
	if n, again := p.Ask(400, true, now); n != 0 || !again.IsZero() {
		t.Errorf("%d granted of a whole that is not there, again at %s", n, again)
	}
	left("a whole that is not there", 1000, 300)
	if n, _ := p.Ask(400, false, now); n != 300 {
		t.Errorf("%d granted, want 300", n)
	}
	left("granted", 700, 0)
	p.Return(100, now, now)
	left("given back", 800, 100)
	if p.Flow(200, now); rich.flowed != 0 || poor.flowed != 0 || shadow.flowed != 200 {
		t.Errorf("charged %d, %d and %d when 200 flowed", rich.flowed, poor.flowed, shadow.flowed)
	}
	p.Return(100, now, now) // nothing is granted any more
	left("given back twice", 800, 100)
	if p.Flow(50, now); rich.flowed != 50 || poor.flowed != 50 {
		t.Errorf("charged %d and %d for what nobody asked for", rich.flowed, poor.flowed)
	}
	poor.left = 0
	if n, again := p.Ask(400, false, now); n != 0 || !again.Equal(now.Add(time.Second)) {
		t.Errorf("%d granted, again at %s", n, again)
	}
	left("nothing granted", 800, 0)
	if !c.Rations() {
		t.Error("bytes are not limited")
	}
	links[0].Shadow.Store(true)
	links[1].Shadow.Store(true)
	if c.Rations() {
		t.Error("limited by what is in shadow")
	}
	p.Settle(weir.Outcome{Time: now, Done: true})
	p.Return(1, now, now)
	left("after the end", 800, 0)
}

// idler could ration bytes, and has no limit on them.
type idler struct{ rationer }

func (*idler) Rations() bool { return false }

// A chain whose throttles have no limit on bytes need not be told of them.
func TestMetersNow(t *testing.T) {
	for want, throttle := range map[bool]weir.Throttle{true: &rationer{}, false: &idler{}} {
		c, err := New([]*Link{{Name: "one", Throttle: throttle}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.MetersNow(); got != want || !c.Meters() {
			t.Errorf("%T: %t", throttle, got)
		}
	}
}
