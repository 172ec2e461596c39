package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/mail/nexthop"
	"weir/store"
)

// Twenty users send, others release, delete, stop and resume at random, the next server is moody, and the clock runs.
// In the end every recipient that was accepted has the mail exactly once, or it was deleted, or its sender was told.
func TestNothingIsLostOrDoubled(t *testing.T) {
	t.Parallel()
	const users, mails = 20, 12
	r := newRig(t, func(r *rig) { r.opts.Queue, r.gate.Connections = 64, 8 })
	var moods atomic.Uint64
	r.carrier.set(func(c *carrier) {
		c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
			if j.Sender == "" {
				return nexthop.Result{}
			}
			switch moods.Add(1) % 11 {
			case 3:
				return nexthop.Result{Outcome: nexthop.Later, Code: 450, Status: "4.2.0", Text: "later"}
			case 7:
				return nexthop.Result{Outcome: nexthop.Failed, Code: 550, Status: "5.1.1", Text: "no"}
			}
			return nexthop.Result{}
		}
	})
	var mu sync.Mutex
	accepted := map[string]bool{} // "mail to" of everybody
	var wg sync.WaitGroup
	for u := range users {
		user := fmt.Sprintf("user%d", u)
		// or the user is not told of everything
		r.user(store.User{Name: user, Senders: []string{user + "@example.org"}})
		wg.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(u), 1))
			for m := range mails {
				to := make([]string, 1+chance.IntN(4))
				for i := range to {
					to[i] = fmt.Sprintf("%s-%d-%d@example.net", user, m, i)
				}
				id, _, err := r.mail(&Envelope{User: user, Sender: user + "@example.org"}, to...)
				switch {
				case errors.Is(err, ErrStopped):
					if err := r.ResumeUser(t.Context(), r.now(), "op", user, false); err != nil {
						t.Error(err)
					}
				case err != nil:
					t.Error(err)
				default:
					mu.Lock()
					for _, a := range to {
						accepted[id.String()+" "+a] = true
					}
					mu.Unlock()
				}
				switch chance.IntN(8) {
				case 0:
					_, err = r.Release(t.Context(), r.now(), user, user, Selection{All: true})
				case 1:
					_, err = r.Delete(t.Context(), r.now(), user, user, Selection{Mails: []store.MailID{id}})
				case 2:
					_, err = r.RetryMails(t.Context(), r.now(), nil)
				case 3:
					_, err = r.RunDue(t.Context(), r.now())
				case 4:
					_, err = r.DeleteMails(t.Context(), r.now(), "op", []store.MailID{id})
				case 5:
					r.clock.Advance(time.Duration(chance.IntN(90)) * time.Second)
					err = nil
				default:
					err = nil
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for range 300 {
		for u := range users {
			if user := fmt.Sprintf("user%d", u); r.Stopped(gateName, user) {
				r.must(r.ResumeUser(t.Context(), r.now(), "op", user, false))
			}
			_, err := r.Release(t.Context(), r.now(), "op", fmt.Sprintf("user%d", u), Selection{All: true})
			r.must(err)
		}
		r.pass(30 * time.Minute)
		if len(r.states()) == 0 {
			break
		}
	}
	r.wantStates(nil)
	got := map[string]int{}
	bounced := 0
	for _, d := range r.carrier.taken {
		if d.sender == "" {
			bounced += strings.Count(d.text, "Final-Recipient:")
			continue
		}
		got[d.id+" "+d.to]++
	}
	for key, n := range got {
		if n != 1 || !accepted[key] {
			t.Errorf("%s was delivered %d times", key, n)
		}
	}
	deleted := r.seen.get(&r.seen.deleted)
	if len(got)+bounced+deleted != len(accepted) {
		t.Errorf("%d accepted, but %d delivered, %d bounced, %d deleted", len(accepted), len(got), bounced, deleted)
	}
	if len(r.audit("ambiguous")) != 0 {
		t.Errorf("ambiguous: %v", r.audit("ambiguous"))
	}
	if n := r.flight.size(); n != 0 || r.bytes.Load() != 0 || r.Load(gateName) != 0 ||
		r.gates.Load().byName[gateName].slots.Load() != 0 {
		t.Errorf("%d are in flight, %d bytes, load %v", n, r.bytes.Load(), r.Load(gateName))
	}
}

func (f *flight) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.in)
}

// Run does by itself what RunDue does.
func TestRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	done := make(chan struct{})
	r.carrier.set(func(c *carrier) { c.done = done })
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.Run(ctx) })
	r.sent(ann, "a@example.net")
	<-done
	r.sent(ann, "b@example.net")
	<-done // the notice
	needs.Wait(t, "Run waits for the clock", func() bool { return r.clock.Pending() > 0 })
	r.clock.Advance(time.Minute)
	<-done
	if len(r.carrier.to("b@example.net")) != 1 {
		t.Error("it did not leave")
	}
	r.carrier.set(func(c *carrier) { c.done = nil })
	cancel()
	wg.Wait()
}
