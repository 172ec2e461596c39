package app_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"weir/console"
)

// TestUserHistoryOfMail: the past of a user who sends over SMTP: the queue grows and shrinks, slack is spent and comes
// back, the working set fills.
func TestUserHistoryOfMail(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	m := p.mailer("ann")
	for _, to := range many(4) { // the first passes, three wait
		if err := m.send("hello", to); err != nil {
			t.Fatal(err)
		}
	}
	for range 6 * 6 {
		p.runs(10 * time.Second)
	}
	h, err := console.UserHistoryCall.Ask(context.Background(), p.control, console.Name{Name: "Ann"})
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Throttles) != 1 || h.User != "ann" || h.At.Sub(h.Since) != 6*time.Minute {
		t.Fatalf("%+v", h)
	}
	s := h.Throttles[0]
	if s.Name != "outgoing" || s.Kind != "mail" || s.Unit != "recipients" {
		t.Errorf("%+v", s)
	}
	column := func(m console.Measure) (all []float32) {
		for _, v := range s.Columns[m] {
			if len(all) == 0 || all[len(all)-1] != v {
				all = append(all, v)
			}
		}
		return all
	}
	for _, c := range []struct {
		of   console.Measure
		want []float32
	}{
		{console.Waiting, []float32{3, 2, 1, 0}}, {console.WorkingSet, []float32{1, 2, 3, 4}},
		{console.Slack, []float32{0, 1}}, {console.StopAbove, []float32{20}}, {console.UserStopped, []float32{0}},
	} {
		if got := column(c.of); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.of, got, c.want)
		}
	}
}
