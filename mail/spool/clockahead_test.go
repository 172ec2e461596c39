package spool

import (
	"testing"
	"time"

	"weir/mail/nexthop"
	"weir/store"
)

// What was stored while the clock was a day ahead does not wait for a day when it is put right: neither in this run nor
// in the next.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	const ahead = 24 * time.Hour
	for name, back := range map[string]func(*rig){
		"while it runs": func(r *rig) { r.clock.Leap(-ahead) },
		"while it is down": func(r *rig) {
			r.clock.Leap(-ahead)
			r.again("second")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			busy := answers(nexthop.Later, 451, "4.7.1", "busy")
			r.carrier.set(func(c *carrier) {
				c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
					if to.Address == "old@example.net" || to.Address == "retried@example.net" {
						return busy(j, to)
					}
					return nexthop.Result{}
				}
			})
			free := func(user string, to To) {
				t.Helper()
				to.Stamp = freshStamp()
				_, _, err := r.mail(&Envelope{User: user, Sender: user + "@example.org", To: []To{to}})
				r.must(err)
			}
			free(ann, To{Address: "old@example.net"}) // came before, and is tried again while the clock is ahead
			r.idle()
			r.clock.Leap(ahead)
			r.run()
			free(ann, To{Address: "retried@example.net"})
			free(ann, To{Address: "quota@example.net", After: r.now().Add(time.Hour)})
			r.sent("bob", recipients("r", 20)...)
			r.idle()
			delayed := r.states()[store.Delayed]
			if r.wantStates(map[store.State]int{store.Ready: 3, store.Delayed: delayed}); delayed == 0 {
				t.Fatal("nothing waits")
			}
			at := r.carrier.theirs()
			r.carrier.set(func(c *carrier) { c.answer = nil })
			back(r)
			r.run()
			r.wantDelivered(at + 2) // those that are tried again
			for range 59 {
				r.pass(time.Minute)
			}
			r.wantDelivered(at + 2 + delayed)
			r.wantStates(map[store.State]int{store.Ready: 1})
			r.pass(time.Minute)
			r.wantStates(nil)
		})
	}
}

// A mail under way is left to who has it.
func TestCorrected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now, day := start, 24*time.Hour
	const others = "another"
	for name, c := range map[string]struct {
		state    store.State
		owner    string
		attempt  int
		received time.Duration // from now
		due      time.Duration
		want     time.Duration
	}{
		"due": {state: store.Ready, due: 0, want: 0},
		"a retry": {state: store.Ready, attempt: 3, received: -day, due: 30 * time.Minute,
			want: 30 * time.Minute},
		"a retry, ahead":             {state: store.Ready, attempt: 3, received: -day, due: day, want: 0},
		"a mail that waits for long": {state: store.Ready, received: -day, due: 20 * day, want: 20 * day},
		"one of then":                {state: store.Ready, received: day, due: 20 * day, want: 19 * day},
		"handed over": {state: store.Ready, owner: "first", received: day, due: day + handOver,
			want: handOver},
		"handed over by another": {state: store.Ready, owner: others, received: day, due: day + handOver, want: 0},
		"being sent": {state: store.Sending, owner: "first", attempt: 1, received: day, due: day + lease,
			want: lease},
		"being sent, in time": {state: store.Sending, owner: "first", attempt: 1, received: -day, due: time.Minute,
			want: time.Minute},
		"delayed":     {state: store.Delayed, received: day, due: day, want: 0},
		"in the pool": {state: store.Pooled, received: day, due: day, want: 0},
	} {
		a := store.Addressee{State: c.state, Owner: c.owner, Attempt: c.attempt, Due: now.Add(c.due),
			Since: now.Add(c.received)}
		changed := r.corrected(&store.Message{Gate: gateName, Received: now.Add(c.received)}, &a, now)
		if got := a.Due.Sub(now); got != c.want || changed != (c.want != c.due) || changed && a.Since.After(a.Due) {
			t.Errorf("%s: due after %s (changed: %v), since %s, want %s", name, got, changed, a.Since, c.want)
		}
	}
}
