package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/console"
	"weir/internal/clock"
	"weir/mail/spool"
	"weir/throttle/reach"
)

// A crowd is mail users, as the store has them.
type crowd struct {
	mu    sync.Mutex
	users map[string]spool.UserStanding
	err   error
	reads int
}

func (c *crowd) set(name string, s spool.Standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Throttle = "outgoing"
	c.users[name] = spool.UserStanding{Mail: []spool.Standing{s}}
}

func (c *crowd) read(_ context.Context, _ time.Time, names []string) (list []spool.UserStanding, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	for _, name := range names {
		list = append(list, c.users[name])
	}
	return list, c.err
}

func newUserHistory(t *testing.T) (h *userHistory, c *crowd, now *clock.Fake, full *int) {
	c, now, full = &crowd{users: map[string]spool.UserStanding{}}, clock.NewFake(noon), new(int)
	h = &userHistory{clock: now, read: c.read, full: func() { *full++ }}
	t.Cleanup(h.stop)
	return h, c, now, full
}

func waitings(s console.UserHistory) console.Values { return s.Throttles[0].Columns[console.Waiting] }

// TestUserHistory: figures are kept when they change, for an hour, and the value at its beginning with them. Who is at
// rest for an hour is forgotten, and then nothing is read any more.
func TestUserHistory(t *testing.T) {
	t.Parallel()
	h, c, now, _ := newUserHistory(t)
	if now.Pending() != 0 {
		t.Error("a timer without users")
	}
	for i := range 4 {
		h.sent("ann", true)
		c.set("ann", spool.Standing{Waiting: i / 2, Limit: 20, Slack: 1, MSlack: 15})
		now.Advance(pastEvery)
	}
	s := h.show(t.Context(), "ann")
	if want := (console.Values{0, 1, 1}); !slices.Equal(waitings(s), want) || len(s.Throttles[0].At) != 3 {
		t.Errorf("%v at %v", waitings(s), s.Throttles[0].At)
	}
	if !s.Since.Equal(noon) || !s.At.Equal(noon.Add(4*pastEvery)) || s.Throttles[0].Last(console.StopAbove) != 20 {
		t.Errorf("%+v", s)
	}
	c.mu.Lock()
	c.err = errors.New("the disk is away")
	c.mu.Unlock()
	now.Advance(pastEvery)
	if n := len(h.users["ann"].mail[0].at); n != 2 {
		t.Errorf("%d rows after an error", n)
	}
	c.mu.Lock()
	c.err = nil
	c.mu.Unlock()

	now.Advance(pastSpan)
	if len(h.users) != 0 || now.Pending() != 0 {
		t.Errorf("%d users and %d timers after an hour of rest", len(h.users), now.Pending())
	}
	reads := c.reads
	now.Advance(pastSpan)
	if c.reads != reads {
		t.Error("read with no user")
	}
	// A stopped user whose figures do not change is forgotten, too: there is nothing to draw. A look begins anew.
	c.set("ann", spool.Standing{Stopped: true, Waiting: 25})
	if s := h.show(t.Context(), "ann"); !s.Since.Equal(now.Now()) || !slices.Equal(waitings(s), console.Values{25}) {
		t.Errorf("%+v", s)
	}
}

// TestUserHistoryBounds: a table of users, of lines and of rows, each at its bound and one more.
func TestUserHistoryBounds(t *testing.T) {
	t.Parallel()
	h, c, now, full := newUserHistory(t)
	for i := range maxPastUsers {
		h.sent(fmt.Sprint("user", i), i > 0)
		now.Leap(time.Millisecond)
	}
	h.sent("calm", false)
	if *full != 1 || len(h.users) != maxPastUsers || h.users["calm"] != nil {
		t.Fatalf("%d users, %d found no place", len(h.users), *full)
	}
	h.sent("held", true) // takes the place of the one whose mail passes
	if *full != 1 || len(h.users) != maxPastUsers || h.users["user0"] != nil || h.users["held"] == nil {
		t.Fatalf("%d users, %d found no place", len(h.users), *full)
	}
	h.sent("late", true)
	if *full != 2 || h.users["late"] != nil {
		t.Error("a held user pushed out another one")
	}
	h.show(t.Context(), "late") // an operator looks
	if len(h.users) != maxPastUsers || h.users["late"] == nil || h.users["user1"] != nil {
		t.Error("a user that an operator looks at has no place")
	}
	for i := range 2 * maxPastUsers { // one who looks at all
		h.show(t.Context(), fmt.Sprint("user", i))
	}
	if len(h.users) != maxPastUsers {
		t.Errorf("%d users", len(h.users))
	}

	var s steps
	for i := range console.HourLength + 1 {
		if !s.add(int64(i+1), []float32{float32(i), float32(math.NaN())}) {
			t.Fatal("not new")
		}
	}
	if len(s.at) != console.HourLength || len(s.rows) != 2*console.HourLength || s.at[0] != 2 {
		t.Errorf("%d rows, the first at %d", len(s.at), s.at[0])
	}
	if s.add(1000, []float32{console.HourLength, float32(math.NaN())}) {
		t.Error("the same row again")
	}
	before := len(s.at)
	if s.add(s.at[before-1], []float32{7, 7}); len(s.at) != before || s.rows[len(s.rows)-1] != 7 {
		t.Errorf("%d rows after two at the same time", len(s.at))
	}
	if s.add(5, []float32{1, 1}); len(s.at) != 1 || len(s.rows) != 2 {
		t.Errorf("%d rows after the clock was set back", len(s.at))
	}

	var many spool.UserStanding
	for i := range maxPastLines + 1 {
		many.Mail = append(many.Mail, spool.Standing{Throttle: fmt.Sprint(i)})
		many.Reach = append(many.Reach, spool.ReachStanding{Throttle: fmt.Sprint(i)})
	}
	c.users["user1"] = many
	if s := h.show(t.Context(), "user1"); len(s.Throttles) != 2*maxPastLines {
		t.Errorf("%d lines", len(s.Throttles))
	}
	many.Mail = many.Mail[1:2] // the others are gone
	c.users["user1"] = many
	if s := h.show(t.Context(), "user1"); len(s.Throttles) != 1+maxPastLines || s.Throttles[0].Name != "1" {
		t.Errorf("%d lines", len(s.Throttles))
	}
}

// TestUserHistoryReach: the estimates of windows that a throttle does not have are left out, and so are limits that
// nobody knows.
func TestUserHistoryReach(t *testing.T) {
	t.Parallel()
	h, c, now, _ := newUserHistory(t)
	c.users["ann"] = spool.UserStanding{Reach: []spool.ReachStanding{{Throttle: "contacts", Flagged: true,
		Figures: []reach.Figure{{Window: reach.Hour, New: 12.345, Limit: 10}, {Window: reach.Day, New: 20}}}}}
	h.sent("ann", false)
	now.Advance(pastEvery)
	s := h.show(t.Context(), "ann").Throttles[0]
	_, week := s.Columns[console.NewInWeek]
	if math.Abs(s.Last(console.NewInHour)-12.35) > 0.01 || s.Last(console.HourLimit) != 10 ||
		s.Last(console.NewInDay) != 20 || week || s.Last(console.UserFlagged) != 1 ||
		s.Columns[console.DayLimit] != nil {
		t.Errorf("%+v", s.Columns)
	}
}

// TestUserHistoryUnderLoad: users send while somebody looks and while it stops.
func TestUserHistoryUnderLoad(t *testing.T) {
	t.Parallel()
	h, _, now, _ := newUserHistory(t)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 500 {
				h.sent(fmt.Sprint("user", (i*7+g)%400), i%3 == 0)
				if i%50 == 0 {
					h.show(context.Background(), fmt.Sprint("user", i))
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			now.Advance(pastEvery)
		}
		h.stop()
	})
	all.Wait()
	h.sent("late", true)
	if h.users["late"] != nil || len(h.users) > maxPastUsers {
		t.Errorf("%d users, or somebody after the stop", len(h.users))
	}
}
