package outbreak

import (
	"fmt"
	"testing"
	"time"
)

// epoch is when the tests begin.
var epoch = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// standard are the document's parameters.
func standard() Params {
	return Params{
		Every: time.Minute, MultiEvery: time.Minute, WorkingSet: 4, MaxSlack: 1, MaxMSlack: 15, Stop: 20,
		Recipients: 100, Slow: 4,
	}
}

// A rig is a user whose mails and clock a test has in its hand.
type rig struct {
	t    testing.TB
	p    Params
	s    State
	now  time.Time
	mail uint64
	left []Item // by the clock
	key  uint64 // the latest that was made up
}

func newRig(t testing.TB, p Params) *rig { return &rig{t: t, p: p, now: epoch, key: 1 << 32} }

// wait lets time pass.
func (r *rig) wait(d time.Duration) *rig {
	r.now = r.now.Add(d)
	r.left = r.s.Tick(&r.p, r.now, r.left)
	return r
}

// send sends a mail and returns what Submit said.
func (r *rig) send(keys ...uint64) Decision {
	r.wait(0)
	r.mail++
	fates := make([]Fate, len(keys))
	d := r.s.Submit(&r.p, r.now, r.mail, keys, nil, fates)
	passed, delayed := 0, 0
	for _, p := range fates {
		switch p {
		case Pass:
			passed++
		case Delay:
			delayed++
		}
	}
	if !d.Refused && (passed != d.Passed || delayed != d.Delayed) {
		r.t.Errorf("mail %d: %+v, but %v", r.mail, d, fates)
	}
	return d
}

// many returns n recipients nobody has written to.
func (r *rig) many(n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		r.key++
		keys[i] = r.key
	}
	return keys
}

// fresh sends a mail to somebody new.
func (r *rig) fresh() Decision { return r.send(r.many(1)...) }

func (r *rig) credit(slack, mSlack int) {
	r.t.Helper()
	if a, b := r.s.Credit(&r.p, r.now); a != slack || b != mSlack {
		r.t.Errorf("at %s: slack %d and mSlack %d, want %d and %d", r.now.Sub(epoch), a, b, slack, mSlack)
	}
}

func (r *rig) waiting(n int) {
	r.t.Helper()
	if got := len(r.s.Waiting()); got != n {
		r.t.Errorf("at %s: %d wait, want %d", r.now.Sub(epoch), got, n)
	}
}

func (r *rig) due(after time.Duration) {
	r.t.Helper()
	want := "never"
	if after >= 0 {
		want = epoch.Add(after).Sub(epoch).String()
	}
	got := "never"
	if due := r.s.Due(&r.p); !due.IsZero() {
		got = due.Sub(epoch).String()
	}
	if got != want {
		r.t.Errorf("at %s: due %s, want %s", r.now.Sub(epoch), got, want)
	}
}

func (r *rig) stopped(want bool) {
	r.t.Helper()
	if _, got := r.s.Stopped(); got != want {
		r.t.Errorf("at %s: stopped %v, want %v", r.now.Sub(epoch), got, want)
	}
}

// numbers are those of the items that have left since the last call, as mail/number.
func (r *rig) gone() (all []string) {
	for _, it := range r.left {
		all = append(all, fmt.Sprintf("%d/%d", it.Mail, it.Number))
	}
	r.left = nil
	return all
}
