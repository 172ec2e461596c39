package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/mail/nexthop"
	"weir/store"
)

func TestRetries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(c *carrier) { c.answer = answers(nexthop.Later, 451, "4.7.1", "greylisted") })
	id, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, "a@example.net")
	r.must(err)
	r.idle()
	at := r.now()
	for i, wait := range []time.Duration{1, 5, 15, 30, 30, 30} {
		q, err := r.Show(t.Context(), id)
		r.must(err)
		a := q.To[0]
		if want := at.Add(wait * time.Minute); !a.Due.Equal(want) || a.Attempt != i+1 || a.State != store.Ready ||
			a.Owner != "" ||
			a.Status != "451 4.7.1 greylisted" || !a.Since.Equal(start) {
			t.Fatalf("after attempt %d: %+v, want due at %s", i+1, a, want)
		}
		next, err := r.RunDue(t.Context(), a.Due.Add(-time.Nanosecond))
		if r.must(err); !next.Equal(a.Due) || r.carrier.tries != i+1 {
			t.Fatalf("tried too early (%d), or next is %s", r.carrier.tries, next)
		}
		r.clock.Advance(a.Due.Sub(r.now()))
		r.run()
		at = r.now()
	}
	if r.seen.get(&r.seen.deferred) != 7 {
		t.Errorf("%d deferred", r.seen.deferred)
	}
	r.carrier.set(func(c *carrier) { c.answer = nil })
	if n, err := r.RetryMails(t.Context(), r.now(), []store.MailID{id}); n != 1 || err != nil {
		t.Errorf("flushed %d, %v", n, err)
	}
	r.idle()
	r.wantDelivered(1)
	r.wantStates(nil)
}

// The clock runs for days, and what happens is counted.
func days(r *rig, n int) {
	for end := r.now().Add(time.Duration(n) * 24 * time.Hour); r.now().Before(end); {
		r.pass(time.Hour)
	}
}

func TestGiveUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(c *carrier) {
		c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
			if to.Address == "ann@example.org" {
				return nexthop.Result{}
			}
			return nexthop.Result{Outcome: nexthop.Later, Status: "4.4.1", Text: "no answer"}
		}
	})
	r.sent(ann, "a@example.net", "b@example.net")
	r.idle()
	r.pass(4*time.Hour - time.Minute)
	if n := len(r.carrier.to("ann@example.org")); n != 0 {
		t.Fatalf("told %d times", n)
	}
	days(r, 4)
	told := r.carrier.to("ann@example.org")
	if len(told) != 1 || !strings.Contains(told[0].text, "Action: delayed") ||
		strings.Count(told[0].text, "Final-Recipient") != 2 || told[0].sender != "" {
		t.Fatalf("told %q", told)
	}
	days(r, 2)
	told = r.carrier.to("ann@example.org")
	if len(told) != 2 || !strings.Contains(told[1].text, "Action: failed") ||
		!strings.Contains(told[1].text, "4.4.7") ||
		strings.Count(told[1].text, "Final-Recipient") != 2 {
		t.Fatalf("told %q", told)
	}
	r.wantStates(nil)
}

// The time in the delay queue is not counted.
func TestGiveUpCountsFromReady(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.GiveUp = time.Hour })
	r.sent(ann, recipients("r", 40)...)
	r.idle()
	r.clock.Advance(30 * 24 * time.Hour)
	r.carrier.set(func(c *carrier) { c.answer = answers(nexthop.Later, 450, "4.2.0", "later") })
	if n, err := r.Release(t.Context(), r.now(), ann, ann, Selection{All: true}); n != 25 || err != nil {
		t.Fatal(n, err)
	}
	r.idle()
	r.pass(30 * time.Minute)
	r.wantStates(map[store.State]int{store.Ready: 25})
	r.carrier.set(func(c *carrier) { c.answer = nil })
	r.pass(30 * time.Minute)
	r.wantDelivered(40)
}

func TestBounces(t *testing.T) {
	t.Parallel()
	type want struct{ failed, relayed int }
	for name, c := range map[string]struct {
		sender  string
		notify  []string
		outcome nexthop.Outcome
		want    want
	}{
		"failed":       {"ann@example.org", []string{"", ""}, nexthop.Failed, want{failed: 2}},
		"null sender":  {"", []string{"", ""}, nexthop.Failed, want{}},
		"never":        {"ann@example.org", []string{"NEVER", ""}, nexthop.Failed, want{failed: 1}},
		"delay only":   {"ann@example.org", []string{"DELAY", "FAILURE,DELAY"}, nexthop.Failed, want{failed: 1}},
		"success only": {"ann@example.org", []string{"SUCCESS", "NEVER"}, nexthop.Failed, want{}},
		"relayed": {"ann@example.org", []string{"SUCCESS", "SUCCESS,FAILURE"}, nexthop.Done,
			want{relayed: 2}},
		"relayed, not asked": {"ann@example.org", []string{"", "FAILURE"}, nexthop.Done, want{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.carrier.set(func(cr *carrier) {
				cr.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
					if to.Address == "ann@example.org" {
						if to.Notify != "NEVER" {
							t.Errorf("a bounce with NOTIFY=%s", to.Notify)
						}
						return nexthop.Result{}
					}
					return nexthop.Result{Outcome: c.outcome, Code: 550, Status: "5.1.1", Text: "no such user",
						Relayed: true, Server: "mx.example.net:25"}
				}
			})
			_, _, err := r.mail(&Envelope{User: ann, Sender: c.sender,
				To: []To{{Address: "a@example.net", Notify: c.notify[0], Original: "rfc822;x@example.net"},
					{Address: "b@example.net", Notify: c.notify[1]}}})
			r.must(err)
			r.idle()
			var got want
			for _, d := range r.carrier.to("ann@example.org") {
				got.failed += strings.Count(d.text, "Action: failed")
				got.relayed += strings.Count(d.text, "Action: relayed")
				if !strings.Contains(d.text, "Subject: hello") {
					t.Errorf("without the header of the mail: %s", d.text)
				}
			}
			if got != c.want || len(r.carrier.to("ann@example.org")) > 1 {
				t.Errorf("told %+v, want %+v", got, c.want)
			}
			r.wantStates(nil)
		})
	}
}

// Some are taken, some refused, some later: each goes its own way.
func TestMixedResults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(c *carrier) {
		c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
			switch to.Address {
			case "r2@example.net":
				return nexthop.Result{Outcome: nexthop.Failed, Code: 550, Status: "5.1.1", Text: "no"}
			case "r3@example.net":
				return nexthop.Result{Outcome: nexthop.Later, Code: 450, Status: "4.2.0", Text: "later"}
			}
			return nexthop.Result{}
		}
	})
	r.sent(ann, recipients("r", 4)...)
	r.idle()
	r.wantStates(map[store.State]int{store.Ready: 1})
	r.carrier.set(func(c *carrier) { c.answer = nil })
	r.pass(time.Minute)
	for i, to := range recipients("r", 4) {
		if n := len(r.carrier.to(to)); n != 1 && i != 1 || n != 0 && i == 1 {
			t.Errorf("%s got %d", to, n)
		}
	}
	r.wantStates(nil)
}

func TestAmbiguous(t *testing.T) {
	t.Parallel()
	for policy, want := range map[Ambiguous]map[store.State]int{Retry: {store.Ready: 1}, Hold: {store.Held: 1}} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.gate.Ambiguous = policy })
			r.carrier.set(func(c *carrier) {
				c.answer = answers(nexthop.Ambiguous, 0, "4.4.2",
					"the connection broke")
			})
			id, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, "a@example.net")
			r.must(err)
			r.idle()
			r.wantStates(want)
			if log := r.audit("ambiguous"); len(log) != 1 || log[0].Mail != id || log[0].User != ann ||
				!strings.Contains(log[0].Text, "a@example.net") {
				t.Errorf("audit log %+v", log)
			}
			r.carrier.set(func(c *carrier) { c.answer = nil })
			r.pass(time.Minute)
			if policy == Hold {
				r.wantDelivered(0)
				n, err := r.ReleaseMails(t.Context(), r.now(), "op", []store.MailID{id})
				if n != 1 || err != nil {
					t.Errorf("released %d, %v", n, err)
				}
				r.idle()
			}
			r.wantDelivered(1)
		})
	}
}

// A mail is Sending when the final dot comes, and not before.
func TestClaimBeforeTheDot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var before, after []store.Addressee
	r.carrier.set(func(c *carrier) {
		look := func(j *nexthop.Job) []store.Addressee {
			id, err := store.ParseMailID(j.ID)
			r.must(err)
			q, err := r.Show(context.Background(), id)
			r.must(err)
			return q.To
		}
		c.before = func(_ context.Context, j *nexthop.Job) { before = look(j) }
		c.after = func(_ context.Context, j *nexthop.Job) { after = look(j) }
	})
	r.sent(ann, "a@example.net", "b@example.net")
	r.idle()
	if len(before) != 2 || before[0].State != store.Ready || before[0].Owner != "first" || before[0].Attempt != 0 {
		t.Errorf("before the dot: %+v", before)
	}
	if len(after) != 2 || after[1].State != store.Sending || after[1].Owner != "first" || after[1].Attempt != 1 ||
		!after[1].Due.Equal(start.Add(lease)) {
		t.Errorf("after the dot: %+v", after)
	}
}

// What an operator deletes before the final dot is not sent, and the others are.
func TestDeletedOnTheWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	deleted := false
	r.carrier.set(func(c *carrier) {
		c.before = func(_ context.Context, j *nexthop.Job) {
			if deleted {
				return
			}
			deleted = true
			id, _ := store.ParseMailID(j.ID)
			r.must(r.store.Mail().Update(context.Background(),
				func(tx store.MailTx) error { return tx.RemoveAddressees(id, 0) }))
		}
	})
	r.sent(ann, "a@example.net", "b@example.net")
	r.idle()
	if len(r.carrier.to("a@example.net")) != 0 || len(r.carrier.to("b@example.net")) != 1 {
		t.Errorf("delivered %+v", r.carrier.taken)
	}
	r.wantStates(nil)
}

func TestCrashWhileSending(t *testing.T) {
	t.Parallel()
	for policy, want := range map[Ambiguous]store.State{Retry: store.Ready, Hold: store.Held} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.gate.Ambiguous = policy; r.gate.Connections = 1 })
			reached, die := make(chan struct{}), make(chan struct{})
			r.carrier.set(func(c *carrier) {
				c.after = func(context.Context, *nexthop.Job) {
					reached <- struct{}{}
					<-die
					panic("killed") // the next server has it, and nobody here knows
				}
			})
			for _, to := range recipients("r", 3) {
				_, _,
					err := r.mail(&Envelope{User: ann, Sender: "ann@example.org",
					To: []To{{Address: to, Stamp: freshStamp()}}})
				r.must(err)
			}
			<-reached
			r.wantStates(map[store.State]int{store.Sending: 1, store.Ready: 2})
			copied := r.copyStore()
			r.carrier.set(func(c *carrier) { c.after = nil })
			close(die)
			r.idle()

			crashed := *r
			crashed.folder, crashed.carrier, crashed.opts.Owner = copied, &carrier{}, "second"
			crashed.gate.Carrier = crashed.carrier
			r = &crashed
			r.open()
			if log := r.audit("ambiguous"); len(log) != 1 {
				t.Fatalf("audit log %+v", log)
			}
			states := r.states()
			if states[store.Sending] != 0 || want == store.Held && states[store.Held] != 1 {
				t.Errorf("taken over as %v", states)
			}
			r.run()
			if want == store.Held {
				r.wantDelivered(2)
			} else {
				r.wantDelivered(3)
			}
		})
	}
}

// copyStore copies the store as it is: what is left when a process is killed.
func (r *rig) copyStore() string {
	r.Helper()
	folder := r.TempDir()
	r.must(r.store.Mail().Backup(r.Context(), folder, nil))
	return folder
}

// A lease that is over, and nobody knows of: the process has lost track of it.
func TestLeaseOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(c *carrier) { c.answer = answers(nexthop.Later, 450, "4.2.0", "later") })
	id, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, "a@example.net")
	r.must(err)
	r.idle()
	r.must(r.store.Mail().Update(t.Context(), func(tx store.MailTx) error {
		rows, err := tx.Addressees(id)
		if err != nil {
			return err
		}
		rows[0].State, rows[0].Owner, rows[0].Due = store.Sending, "first", r.now().Add(lease)
		return tx.PutAddressees(rows...)
	}))
	r.carrier.set(func(c *carrier) { c.answer = nil })
	r.pass(lease - 1)
	r.wantStates(map[store.State]int{store.Sending: 1})
	r.pass(1)
	if len(r.audit("ambiguous")) != 1 {
		t.Error("not in the audit log")
	}
	r.pass(time.Minute)
	r.wantDelivered(1)
}

// A store may run a transaction again: what is due is handed over once, with one slot for each message.
func TestPickedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, to := range recipients("r", 3) {
		_, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org",
			To: []To{{Address: to, After: start.Add(time.Hour), Stamp: freshStamp()}}})
		r.must(err)
	}
	again := errors.New("once more")
	b := batch{delivery: r.delivery, now: start.Add(time.Hour), all: r.gates.Load()}
	for range 3 {
		err := r.update(t.Context(), func(tx store.MailTx) error { return cmp.Or(b.pick(tx), again) })
		if err != again {
			t.Fatal(err)
		}
		if slots := b.all.list[0].slots.Load(); len(b.jobs) != 3 || slots != 3 {
			t.Errorf("%d messages have %d slots", len(b.jobs), slots)
		}
	}
	b.giveBack()
	if slots := b.all.list[0].slots.Load(); slots != 0 {
		t.Errorf("%d slots are not given back", slots)
	}
}

// Mail that takes long is left to those who have it.
func TestSlowDeliveryIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Connections = 1 })
	reached, free := make(chan struct{}), make(chan struct{})
	r.carrier.set(func(c *carrier) {
		c.after = func(context.Context, *nexthop.Job) { reached <- struct{}{}; <-free }
	})
	for _, to := range recipients("r", 2) {
		_, _,
			err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", To: []To{{Address: to, Stamp: freshStamp()}}})
		r.must(err)
	}
	<-reached
	for range 10 {
		r.clock.Advance(handOver)
		if _, err := r.RunDue(t.Context(), r.now()); err != nil {
			t.Fatal(err)
		}
	}
	close(free)
	<-reached
	r.idle()
	r.wantDelivered(2)
	if len(r.audit("ambiguous")) != 0 || r.carrier.tries != 2 {
		t.Errorf("%d tries, audit log %v", r.carrier.tries, r.audit(""))
	}
}

func TestQueueBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Queue, r.opts.Bytes, r.gate.Connections = 2, 1, 1 })
	free := make(chan struct{})
	r.carrier.set(func(c *carrier) { c.before = func(context.Context, *nexthop.Job) { <-free } })
	for _, to := range recipients("r", 3) {
		_, _,
			err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", To: []To{{Address: to, Stamp: freshStamp()}}})
		r.must(err)
	}
	if r.seen.bound(BoundQueue) != 1 || r.seen.bound(BoundBytes) != 2 {
		t.Errorf("bounds %v", r.seen.bounds)
	}
	next, err := r.RunDue(t.Context(), r.now())
	if r.must(err); !next.Equal(r.now().Add(soon)) {
		t.Errorf("next is %s", next)
	}
	close(free)
	r.idle()
	r.wantDelivered(2)
	select {
	case <-r.wake:
	default:
		t.Error("nobody was told that there is room again")
	}
	r.run()
	r.wantDelivered(3)
	r.wantStates(nil)
}

// A gate whose queue is full does not keep others from theirs.
func TestFullGateLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Queue = 1 })
	other := r.gate
	done := make(chan struct{})
	other.Name, other.Carrier = "other", &carrier{done: done}
	free := make(chan struct{})
	r.carrier.set(func(c *carrier) { c.before = func(context.Context, *nexthop.Job) { <-free } })
	r.must(r.Configure([]Gate{r.gate}))
	var wg sync.WaitGroup
	for _, to := range recipients("r", handBatch+10) {
		wg.Go(func() {
			if _, _,
				err := r.mail(&Envelope{User: ann, Sender: "ann@example.org",
				To: []To{{Address: to, Stamp: freshStamp()}}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r.must(r.Configure([]Gate{r.gate, other}))
	_, _, err := r.mail(&Envelope{Gate: "other", User: ann, Sender: "ann@example.org",
		To: []To{{Address: "o@example.net", Stamp: freshStamp(), After: r.now().Add(time.Second)}}})
	r.must(err)
	r.clock.Advance(time.Second)
	_, err = r.RunDue(t.Context(), r.now())
	r.must(err)
	<-done
	if n := len(other.Carrier.(*carrier).to("o@example.net")); n != 1 {
		t.Errorf("the other gate has delivered %d", n)
	}
	if n := r.states()[store.Ready]; n < handBatch+10 {
		t.Errorf("%d are left at the full one", n)
	}
	close(free)
	r.idle()
}

func TestStopLeavesWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Connections = 2 })
	reached, free := make(chan struct{}), make(chan struct{})
	r.carrier.set(func(c *carrier) {
		c.before = func(ctx context.Context, j *nexthop.Job) {
			if j.Recipients[0].Address == "before@example.net" {
				reached <- struct{}{}
				<-ctx.Done() // broken off
			}
		}
		c.after = func(ctx context.Context, j *nexthop.Job) {
			reached <- struct{}{}
			<-free
			if ctx.Err() != nil {
				t.Error("broken off after the dot")
			}
		}
	})
	for _, to := range []string{"before@example.net", "after@example.net", "queued@example.net"} {
		_, _,
			err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", To: []To{{Address: to, Stamp: freshStamp()}}})
		r.must(err)
	}
	<-reached
	<-reached
	stopped := make(chan error)
	go func() { stopped <- r.Stop(context.Background()) }()
	<-r.halt.Done()
	close(free)
	r.must(<-stopped)
	r.wantDelivered(1)
	r.wantStates(map[store.State]int{store.Ready: 2})
	if _, err := r.send(ann, "x@example.net"); !errors.Is(err, ErrClosing) {
		t.Errorf("a mail after the end: %v", err)
	}
	r.carrier.set(func(c *carrier) { c.before, c.after = nil, nil })
	r.again("second")
	if len(r.audit("ambiguous")) != 0 {
		t.Errorf("ambiguous: %v", r.audit(""))
	}
	r.run()
	r.wantDelivered(3)
}

func TestStopWithoutPatience(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	reached := make(chan struct{})
	r.carrier.set(func(c *carrier) {
		c.after = func(ctx context.Context, j *nexthop.Job) { reached <- struct{}{}; <-ctx.Done() }
	})
	r.sent(ann, "a@example.net")
	<-reached
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped with %v", err)
	}
}

// A store that fails for a while: what was delivered is not delivered again, and its end is stored when it can be.
func TestEndIsStoredLater(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	broken := &breakable{Mail: r.store.Mail()}
	r.Spool.store = broken
	r.carrier.set(func(c *carrier) { c.after = func(context.Context, *nexthop.Job) { broken.fails.Store(true) } })
	r.sent(ann, "a@example.net")
	r.idle()
	r.wantStates(map[store.State]int{store.Sending: 1})
	if next, err := r.RunDue(t.Context(), r.now()); !errors.Is(err, errBroken) || !next.Equal(r.now().Add(soon)) {
		t.Errorf("next is %s, %v", next, err)
	}
	r.idle()
	broken.fails.Store(false)
	r.pass(time.Hour)
	r.wantStates(nil)
	r.wantDelivered(1)
	if len(r.audit("ambiguous")) != 0 {
		t.Error("ambiguous")
	}
}

func TestGateGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	free := make(chan struct{})
	r.carrier.set(func(c *carrier) { c.before = func(context.Context, *nexthop.Job) { <-free } })
	for _, to := range recipients("r", 10) {
		_, _,
			err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", To: []To{{Address: to, Stamp: freshStamp()}}})
		r.must(err)
	}
	other := r.gate
	other.Name = "other"
	r.must(r.Configure([]Gate{other}))
	close(free)
	r.idle()
	under := r.carrier.theirs() // what had begun
	if under > 4 {
		t.Errorf("%d were delivered by a gate that is gone", under)
	}
	r.pass(time.Hour)
	r.wantDelivered(10) // the others by the gate that is there
	r.wantStates(nil)
	if _, _, err := r.mail(&Envelope{User: ann}, "x@example.net"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a mail for it: %v", err)
	}
	r.must(r.Configure([]Gate{other, r.gate}))
	r.pass(time.Hour)
	r.wantDelivered(10)
}

func TestThrottleGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, "a@example.net")
	r.sent(ann, "b@example.net") // waits
	r.sent("bob", recipients("r", 40)...)
	r.idle()
	r.gate.Throttle = "another"
	r.must(r.Configure([]Gate{r.gate}))
	r.pass(time.Minute)
	r.wantDelivered(17)
	r.wantStates(map[store.State]int{store.Held: 25}) // of a user who was stopped
	if r.Stopped(gateName, "bob") {
		t.Error("stopped by a throttle that is gone")
	}
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, list := range map[string][]Gate{
		"twice":       {r.gate, r.gate},
		"no name":     {{Carrier: r.carrier}},
		"no carrier":  {{Name: "x"}},
		"connections": {{Name: "x", Carrier: r.carrier, Connections: MaxConnections + 1}},
		"ambiguous":   {{Name: "x", Carrier: r.carrier, Ambiguous: "perhaps"}},
		"retries":     {{Name: "x", Carrier: r.carrier, Retries: []time.Duration{0}}},
		"give up":     {{Name: "x", Carrier: r.carrier, GiveUp: -1}},
	} {
		if err := r.Configure(list); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	r.sent(ann, "a@example.net") // and nothing has changed
	for _, n := range []int{1, 7, 2} {
		r.gate.Connections = n
		r.must(r.Configure([]Gate{r.gate}))
		for i := range 20 {
			_, _,
				err := r.mail(&Envelope{User: ann, Sender: "a",
				To: []To{{Address: fmt.Sprintf("r%d-%d@example.net", n, i), Stamp: freshStamp()}}})
			r.must(err)
		}
		r.idle()
	}
	r.wantDelivered(61)
	for name, o := range map[string]Options{
		"store":  {Secret: secret, Signer: r.signer},
		"secret": {Store: r.opts.Store, Signer: r.signer, Secret: secret[:15]},
		"signer": {Store: r.opts.Store, Secret: secret},
		"queue":  {Store: r.opts.Store, Secret: secret, Signer: r.signer, Queue: -1},
		"bytes":  {Store: r.opts.Store, Secret: secret, Signer: r.signer, Bytes: -1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("no mistake in %s", name)
		}
	}
}

// Texts that are too long for memory come from the store.
func TestLongText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := r.Stage()
	body := slices.Repeat([]byte("0123456789abcde\n"), 64<<10)
	text.Write(body)
	_, err := r.Accept(t.Context(), r.now(),
		&Envelope{ID: r.NewID(r.now()), Gate: gateName, User: ann, Sender: "a", To: []To{{Address: "a@example.net"}}},
		text)
	r.must(err)
	r.idle()
	if got := r.carrier.to("a@example.net"); len(got) != 1 || got[0].text != string(body) {
		t.Errorf("%d delivered", len(got))
	}
}
