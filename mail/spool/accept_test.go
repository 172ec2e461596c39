package spool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/mail/nexthop"
	"weir/store"
	"weir/throttle/outbreak"
)

// The document's example.
func TestOneMailToForty(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	receipt := r.sent(ann, recipients("r", 40)...)
	if receipt != (Receipt{Passed: 15, Held: 25, Stopped: true}) {
		t.Errorf("receipt %+v", receipt)
	}
	r.idle()
	r.wantDelivered(15)
	r.wantStates(map[store.State]int{store.Held: 25})
	if !r.Stopped(gateName, ann) || r.seen.get(&r.seen.stopped) != 1 {
		t.Error("the user is not known to be stopped")
	}
	if _, err := r.send(ann, "other@example.net"); !errors.Is(err, ErrStopped) {
		t.Errorf("a mail after the stop: %v", err)
	}
	if len(r.audit("stopped")) != 1 {
		t.Errorf("audit log %v", r.audit(""))
	}
	r.pass(time.Hour)
	r.wantDelivered(15)
	// The user is told, and so is the admin.
	notices := r.carrier.to(contact)
	if len(notices) != 1 || notices[0].sender != "" ||
		!strings.Contains(notices[0].text, "Auto-Submitted: auto-generated") {
		t.Errorf("notices %q", notices)
	}
	if len(r.carrier.to(admin)) != 1 {
		t.Error("the admin does not know")
	}
	n, err := r.Release(t.Context(), r.now(), "ann", ann, Selection{All: true})
	if n != 25 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
	r.idle()
	r.wantDelivered(40)
	if !r.Stopped(gateName, ann) {
		t.Error("releasing his mail has resumed him")
	}
	r.wantStates(nil)
}

func TestDelayedLeaveOneByOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, to := range recipients("r", 4) {
		receipt := r.sent(ann, to)
		if want := (Receipt{Passed: 1}); i == 0 && receipt != want {
			t.Errorf("the first: %+v", receipt)
		} else if want := (Receipt{Delayed: 1}); i > 0 && receipt != want {
			t.Errorf("number %d: %+v", i+1, receipt)
		}
	}
	r.idle()
	r.wantDelivered(1)
	r.wantStates(map[store.State]int{store.Delayed: 3})
	for i := range 3 {
		next, err := r.RunDue(t.Context(), r.now())
		r.must(err)
		if want := start.Add(time.Duration(i+1) * time.Minute); !next.Equal(want) {
			t.Errorf("next is %s, want %s", next, want)
		}
		r.pass(time.Minute)
		r.wantDelivered(i + 2)
	}
	if n := len(r.carrier.to(contact)); n != 1 {
		t.Errorf("told %d times that mail is delayed, want once", n)
	}
}

// A mail that comes lets the clock run first: what leaves the queue is ready with it.
func TestAcceptTicks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, "a@example.net")
	r.sent(ann, "b@example.net")
	r.clock.Advance(time.Minute)
	if receipt := r.sent(ann, "c@example.net"); receipt.Delayed != 1 {
		t.Errorf("receipt %+v", receipt)
	}
	r.idle()
	if len(r.carrier.to("b@example.net")) != 1 {
		t.Error("what was due has not left")
	}
}

func TestNotCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 { // once as usual, once while stopped
		for name, e := range map[string]*Envelope{
			"null sender": {User: "192.0.2.1", To: []To{{Address: "x@example.net"}}},
			"internal":    {User: ann, Sender: "a", To: []To{{Address: "x@internal.example"}}},
			"listed":      {User: ann, Sender: "a", To: []To{{Address: "Support@Example.org"}}},
			"contact":     {User: ann, Sender: "a", To: []To{{Address: contact}}},
			"himself":     {User: ann, Sender: "a", To: []To{{Address: "ANN@example.org"}}},
			"postmaster":  {User: ann, Sender: "a", To: []To{{Address: "postmaster@mail.example.org"}}},
			"admin":       {User: ann, Sender: "a", To: []To{{Address: admin}}},
			"command":     {User: ann, Sender: "a", To: []To{{Address: "weir+abc@mail.example.org"}}},
			"several free": {User: ann, Sender: "a",
				To: []To{{Address: "x@internal.example"}, {Address: "support@example.org"}}},
		} {
			for range 3 {
				_, receipt, err := r.mail(&Envelope{User: e.User, Sender: e.Sender, To: e.To})
				if err != nil || receipt.Passed != len(e.To) {
					t.Errorf("%s: %+v, %v", name, receipt, err)
				}
			}
		}
		r.must(r.StopUser(t.Context(), r.now(), "op", ann, "why not"))
	}
	if _, _, err := r.mail(&Envelope{User: ann, To: []To{{Address: "x@internal.example"}}}); err != nil {
		t.Errorf("a notification to somebody who is free: %v", err)
	}
	if _, err := r.send(ann, "x@internal.example", "x@example.net"); !errors.Is(err, ErrStopped) {
		t.Errorf("a mail to others too: %v", err)
	}
	if _, _,
		err := r.mail(&Envelope{User: ann, Sender: "a",
		To: []To{{Address: "x@example.net", Stamp: freshStamp()}}}); !errors.Is(err, ErrStopped) {
		t.Errorf("a stamp of a stopped user: %v", err)
	}
}

func TestDoublesCountOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// One recipient, three times: a mail to one.
	if receipt := r.sent(ann, "a@example.net", "A@Example.net", "a@example.net"); receipt.Passed != 3 {
		t.Errorf("receipt %+v", receipt)
	}
	r.idle()
	if len(r.carrier.to("a@example.net")) != 2 || len(r.carrier.to("A@Example.net")) != 1 {
		t.Error("not everybody got it as he was written")
	}
	if receipt := r.sent(ann, "b@example.net", "B@example.net"); receipt.Delayed != 2 {
		t.Errorf("receipt %+v", receipt)
	}
	standing, err := r.Standing(t.Context(), r.now(), ann)
	r.must(err)
	if standing[0].Waiting != 1 {
		t.Errorf("%d wait, want 1", standing[0].Waiting)
	}
	r.pass(time.Minute)
	r.wantDelivered(5)
	if len(r.carrier.to("b@example.net")) != 1 || len(r.carrier.to("B@example.net")) != 1 {
		t.Error("not everybody got it as he was written")
	}
	r.wantStates(nil)
}

func TestPaidPooledAfter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, "a@example.net") // the slack
	_, receipt,
		err := r.mail(&Envelope{User: ann, Sender: "a",
		To: []To{{Address: "p@example.net", Stamp: freshStamp()}, {Address: "q@example.net", Stamp: freshStamp()}}})
	if err != nil || receipt.Passed != 2 {
		t.Errorf("paid: %+v, %v", receipt, err)
	}
	r.pass(2 * time.Minute)
	_, receipt,
		err = r.mail(&Envelope{User: ann, Sender: "a",
		To: []To{{Address: "late@example.net", After: r.now().Add(time.Hour)}}})
	if err != nil || receipt != (Receipt{Delayed: 1}) {
		t.Errorf("after: %+v, %v", receipt, err)
	}
	r.pass(59 * time.Minute)
	if len(r.carrier.to("late@example.net")) != 0 {
		t.Error("it went before its time")
	}
	r.pass(time.Minute)
	if len(r.carrier.to("late@example.net")) != 1 {
		t.Error("it did not go at its time")
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	held := make(chan struct{})
	r.carrier.set(func(c *carrier) { c.before = func(context.Context, *nexthop.Job) { <-held } })
	for _, to := range recipients("busy", 4) { // all connections
		if _, receipt,
			err := r.mail(&Envelope{User: ann, Sender: "a",
			To: []To{{Address: to, Stamp: freshStamp()}}}); err != nil || receipt.Passed != 1 {
			t.Fatalf("%+v, %v", receipt, err)
		}
	}
	if load := r.Load(gateName); load != 1 {
		t.Errorf("load %v", load)
	}
	_, receipt,
		err := r.mail(&Envelope{User: "bob", Sender: "b", To: []To{{Address: "pool@example.net", Pooled: true}}})
	if err != nil || receipt != (Receipt{Pooled: 1}) {
		t.Errorf("%+v, %v", receipt, err)
	}
	next, err := r.RunDue(t.Context(), r.now())
	r.must(err)
	r.wantStates(map[store.State]int{store.Ready: 4, store.Pooled: 1})
	if next.After(r.now().Add(soon)) {
		t.Errorf("the pool is looked at again at %s", next)
	}
	close(held)
	r.idle()
	r.run()
	r.wantDelivered(5)
	r.wantStates(nil)
}

func TestReview(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail.Large = outbreak.LargeHold })
	if receipt := r.sent(ann, recipients("r", 40)...); receipt != (Receipt{Held: 40}) {
		t.Errorf("receipt %+v", receipt)
	}
	if r.Stopped(gateName, ann) {
		t.Error("the user is stopped")
	}
	r.idle()
	if len(r.carrier.to(contact)) != 1 {
		t.Error("he was not told")
	}
	r.sent(ann, recipients("r", 41)...)
	r.idle()
	if len(r.carrier.to(contact)) != 1 {
		t.Error("he was told again at once")
	}
	r.pass(time.Hour)
	r.wantDelivered(0)
	r.sent(ann, recipients("r", 42)...)
	r.idle()
	if len(r.carrier.to(contact)) != 2 {
		t.Error("he was not told an hour later")
	}
	n, err := r.Release(t.Context(), r.now(), ann, ann, Selection{All: true})
	if n != 123 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
	r.idle()
	r.wantDelivered(123)
}

func TestRecipientsCap(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail.Recipients = 10 })
	r.sent(ann, recipients("r", 10)...)
	if _, err := r.send(ann, recipients("r", 11)...); !errors.Is(err, ErrRecipients) {
		t.Errorf("one more: %v", err)
	}
	if _, err := r.send(ann, recipients("r", MaxRecipients+1)...); !errors.Is(err, ErrRecipients) {
		t.Errorf("far more: %v", err)
	}
	if r.seen.bound(BoundRecipients) != 2 {
		t.Errorf("%d told", r.seen.bound(BoundRecipients))
	}
	if _, _, err := r.mail(&Envelope{Gate: "nowhere", User: ann}, "a@example.net"); !errors.Is(err, ErrUnknown) {
		t.Errorf("no gate: %v", err)
	}
	r.idle()
	r.wantStates(nil)
}

func TestOwnLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.user(store.User{Name: "bulk", Limits: `{"exempt":true}`})
	r.user(store.User{Name: "slow", Limits: `{"stop":2}`})
	for range 50 {
		r.sent("bulk", recipients("r", 20)...)
	}
	for i, to := range recipients("s", 4) {
		if receipt := r.sent("slow", to); receipt.Stopped != (i == 3) {
			t.Errorf("mail %d: %+v", i+1, receipt)
		}
	}
	if err := r.limits("slow", "{nonsense"); err == nil {
		t.Error("nonsense is taken for limits")
	}
	if err := r.limits("nobody", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("limits of nobody: %v", err)
	}
}

func TestShadow(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.shadow = true })
	for range 3 {
		if receipt := r.sent(ann, recipients("r", 40)...); receipt.Passed != 40 || !receipt.Shadow ||
			receipt.WouldWait+receipt.WouldRefuse < 25 {
			t.Fatalf("receipt %+v", receipt)
		}
	}
	if receipt := r.sent(ann, "one@example.net"); receipt.WouldRefuse != 1 {
		t.Errorf("receipt %+v", receipt)
	}
	r.pass(time.Minute)
	r.wantDelivered(121)
	standing, err := r.Standing(t.Context(), r.now(), ann)
	r.must(err)
	if !standing[0].Stopped || !standing[0].Shadow || r.Stopped(gateName, ann) || len(r.carrier.to(contact)) != 0 {
		t.Errorf("in shadow: %+v", standing)
	}
	// Out of shadow, the user begins without what only would have been.
	r.shadow = false
	r.clock.Advance(time.Hour)
	if receipt := r.sent(ann, "new@example.net"); receipt.Passed != 1 {
		t.Errorf("after the shadow: %+v", receipt)
	}
	if receipt := r.sent(ann, "newer@example.net"); receipt.Delayed != 1 {
		t.Errorf("after the shadow: %+v", receipt)
	}
	// And what waits does not wait for long when the throttle is put into shadow.
	r.shadow = true
	r.pass(time.Minute)
	r.wantStates(nil)
	r.wantDelivered(123)
}

// A user who was stopped before the shadow stays so in it, as far as held mail is concerned.
func TestShadowAfterStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, recipients("r", 40)...)
	r.idle()
	r.shadow = true
	if r.Stopped(gateName, ann) {
		t.Error("refused in shadow")
	}
	if receipt := r.sent(ann, "x@example.net"); receipt.Passed != 1 {
		t.Errorf("receipt %+v", receipt)
	}
	r.pass(time.Hour)
	r.wantStates(map[store.State]int{store.Held: 25})
	r.shadow = false
	if _, err := r.send(ann, "x@example.net"); !errors.Is(err, ErrStopped) {
		t.Errorf("after the shadow: %v", err)
	}
}

func TestNoThrottle(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail = nil })
	for range 3 {
		r.sent(ann, recipients("r", 90)...)
	}
	r.idle()
	r.wantDelivered(270)
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, "left the company"))
	if _, err := r.send(ann, "x@example.net"); !errors.Is(err, ErrStopped) {
		t.Errorf("stopped by an operator: %v", err)
	}
	r.must(r.ResumeUser(t.Context(), r.now(), "op", ann, false))
	r.sent(ann, "x@example.net")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ask := func(commit, count bool, to ...string) Verdict {
		t.Helper()
		v, err := r.Decide(t.Context(), r.now(), gateName, ann, "a@example.org", to, commit, count)
		r.must(err)
		return v
	}
	for range 3 {
		if v := ask(false, false, "a@example.net"); !v.Pass {
			t.Errorf("a look: %+v", v)
		}
	}
	if v := ask(true, false, "a@example.net"); !v.Pass {
		t.Errorf("the first: %+v", v)
	}
	for range 30 {
		if v := ask(true, false, "b@example.net"); v.Pass || v.Delayed != 1 || v.Refused {
			t.Fatalf("not charged: %+v", v)
		}
	}
	for i := range 21 {
		if v := ask(true, true, "b@example.net"); v.Pass || v.Refused {
			t.Fatalf("charged, number %d: %+v", i, v)
		}
	}
	if v := ask(true, true, "c@example.net"); !v.Refused || !r.Stopped(gateName, ann) {
		t.Errorf("stopped: %+v", v)
	}
	if v := ask(true, true, "x@internal.example"); !v.Pass {
		t.Errorf("free while stopped: %+v", v)
	}
	r.idle()
	if len(r.carrier.to(contact)) != 1 {
		t.Error("he was not told")
	}
	if _, err := r.Decide(t.Context(), r.now(), "nowhere", ann, "a", nil, true, true); !errors.Is(err, ErrUnknown) {
		t.Errorf("no gate: %v", err)
	}
}

func TestAcceptLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, ""))
	r.idle()
	text := r.Stage()
	text.Write(make([]byte, 1<<20)) // a file
	e := &Envelope{ID: r.NewID(r.now()), Gate: gateName, User: ann, Sender: "a", To: []To{{Address: "x@example.net"}}}
	if _, err := r.Accept(t.Context(), r.now(), e, text); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	if n, err := r.store.Mail().Sweep(t.Context(), time.Now().Add(time.Hour)); n != (store.Swept{}) || err != nil {
		t.Errorf("%d files are left, %v", n, err)
	}
	if _, err := r.Show(t.Context(), e.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the mail: %v", err)
	}
}

// TestNullSender: mail without a sender is how servers write notifications, and how a thief may try to get around the
// throttle.
func TestNullSender(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		user    string
		counted outbreak.NullSender
		passed  int
	}{
		{ann, outbreak.NullFree, 30}, {ann, outbreak.NullCounted, 1}, {ann, "", 1}, {"192.0.2.1", "", 30},
		{"2001:db8::1", outbreak.NullServers, 30},
		{"192.0.2.1", outbreak.NullCounted, 1},
	} {
		r := newRig(t)
		r.gate.Mail = &outbreak.Options{NullSender: c.counted}
		r.must(r.Configure([]Gate{r.gate}))
		for _, to := range recipients("r", 30) {
			if _, _, err := r.mail(&Envelope{User: c.user, To: []To{{Address: to}}}); err != nil &&
				!errors.Is(err, ErrStopped) {
				t.Fatal(err)
			}
		}
		r.idle()
		r.wantDelivered(c.passed)
	}
}

// TestNullSendersHaveACap: a server sends so many messages without a sender that nobody counts, and those over it are
// put off: at the SMTP gate and for Postfix, together. Recipients who are free need none of them, and a quiet time
// gives them back.
func TestNullSendersHaveACap(t *testing.T) {
	t.Parallel()
	const server = "192.0.2.1"
	r := newRig(t, func(r *rig) { r.gate.Mail.NullRate = weir.Rate{Count: 4, Per: time.Hour} })
	send := func(user, to string) error {
		_, _, err := r.mail(&Envelope{User: user}, to)
		return err
	}
	ask := func(commit bool) Verdict {
		t.Helper()
		v, err := r.Decide(t.Context(), r.now(), gateName, server, "", []string{"p@example.net"}, commit, true)
		r.must(err)
		return v
	}
	for _, to := range recipients("a", 3) {
		r.must(send(server, to))
	}
	for _, commit := range []bool{false, false, true} {
		if v := ask(commit); !v.Pass {
			t.Errorf("the fourth: %+v", v)
		}
	}
	if err := send(server, "e@example.net"); !errors.Is(err, ErrNulls) {
		t.Errorf("the fifth: %v", err)
	}
	for _, commit := range []bool{false, true} {
		if v := ask(commit); v.Pass || !v.Refused || v.Why != ErrNulls {
			t.Errorf("asked about it: %+v", v)
		}
	}
	if n := r.seen.bound(BoundNulls); n != 2 {
		t.Errorf("the bound was reached %d times", n)
	}
	r.must(send(server, "x@internal.example"))
	r.must(send("192.0.2.2", "e@example.net")) // another server
	if r.Stopped(gateName, server) {
		t.Error("the server is stopped")
	}
	r.idle()
	r.wantDelivered(5)
	r.pass(15 * time.Minute)
	r.must(send(server, "e@example.net"))
	if err := send(server, "f@example.net"); !errors.Is(err, ErrNulls) {
		t.Error(err)
	}
	// In shadow it would be put off, which has no consequences later.
	r.shadow = true
	if _, got, err := r.mail(&Envelope{User: server}, "f@example.net"); err != nil || got.WouldRefuse != 1 ||
		!got.Shadow {
		t.Errorf("in shadow: %+v, %v", got, err)
	}
	r.shadow = false
	r.must(send(server, "g@example.net"))
	// Its ordinary mail is counted as before.
	if got := r.sent(server, "h@example.net"); got.Passed != 1 {
		t.Errorf("%+v", got)
	}
}

// TestNullSenderOfTheStopped: who is stopped has no notifications to send either, whatever is free.
func TestNullSenderOfTheStopped(t *testing.T) {
	t.Parallel()
	for _, user := range []string{ann, "192.0.2.1"} {
		r := newRig(t, func(r *rig) { r.gate.Mail.NullSender, r.gate.Mail.Resume = outbreak.NullFree, 24*3600e9 })
		ask := func(commit bool, to string) Verdict {
			t.Helper()
			v, err := r.Decide(t.Context(), r.now(), gateName, user, "", []string{to}, commit, true)
			r.must(err)
			return v
		}
		send := func(to string) error {
			_, _, err := r.mail(&Envelope{User: user}, to)
			return err
		}
		r.sent(user, recipients("r", 40)...)
		if !r.Stopped(gateName, user) {
			t.Fatal("not stopped")
		}
		for _, commit := range []bool{false, true} {
			if v := ask(commit, "x@example.net"); v.Pass || !v.Refused {
				t.Errorf("%s: a decision says %+v", user, v)
			}
			if v := ask(commit, "x@internal.example"); !v.Pass {
				t.Errorf("%s: a decision about somebody who is free says %+v", user, v)
			}
		}
		if err := send("x@example.net"); !errors.Is(err, ErrStopped) {
			t.Errorf("%s: %v", user, err)
		}
		r.must(send("x@internal.example"))
		// The mail that shows that the time is over counts no recipient again.
		r.clock.Advance(25 * time.Hour)
		if v := ask(true, "y@example.net"); !v.Pass || r.Stopped(gateName, user) {
			t.Errorf("%s: after his time: %+v", user, v)
		}
		r.must(r.StopUser(t.Context(), r.now(), "op", user, ""))
		if err := send("x@example.net"); !errors.Is(err, ErrStopped) {
			t.Errorf("%s, by an operator: %v", user, err)
		}
		r.must(r.ResumeUser(t.Context(), r.now(), "op", user, false))
		r.must(send("x@example.net"))
		if standing, err := r.Standing(t.Context(), r.now(), user); err != nil || standing[0].Waiting != 0 {
			t.Errorf("%s: %+v, %v", user, standing, err)
		}
	}
}

// TestTenThousandWait: the largest stop there is.
func TestTenThousandWait(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.gate.Mail.Stop, r.gate.Mail.MaxMSlack, r.gate.Mail.Recipients = new(outbreak.MaxStop), new(0),
			outbreak.MaxRecipients
	})
	r.must(r.gate.Mail.Validate())
	for i := range 10 {
		if receipt := r.sent(ann, recipients(string(rune('a'+i)),
			outbreak.MaxStop/10)...); receipt.Delayed != outbreak.MaxStop/10 || receipt.Stopped {
			t.Fatalf("receipt %+v", receipt)
		}
	}
	r.sent(ann, "one@example.net") // the credit
	if receipt := r.sent(ann, "more@example.net"); receipt.Held != 1 || !receipt.Stopped || !r.Stopped(gateName, ann) {
		t.Fatalf("receipt %+v", receipt)
	}
	r.idle()
	r.wantStates(map[store.State]int{store.Held: outbreak.MaxStop + 1})
	if n, err := r.Delete(t.Context(), r.now(), "op", ann, Selection{All: true}); n != outbreak.MaxStop+1 ||
		err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}

// TestFullQueue: a queue that has no room is no fault of the mail. The largest memory there is fits into the store.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := outbreak.Params{Every: time.Minute, Stop: outbreak.MaxItems, WorkingSet: outbreak.MaxWorkingSet}
	m := memory{told: start, shadow: true, wouldStop: true, suspended: true}
	for i := range outbreak.MaxItems {
		// As long as items get: each of another mail, and with the greatest number. The multiple recipients of a mail
		// stand together.
		m.state.Submit(&p, start, 1<<62+uint64(i), []uint64{uint64(i) << 20}, []int{outbreak.MaxRecipients - 1},
			make([]outbreak.Fate, 1))
	}
	if len(m.state.Waiting()) != outbreak.MaxItems {
		t.Fatalf("%d wait", len(m.state.Waiting()))
	}
	b, err := m.append(nil)
	r.must(err)
	if room := store.MaxMemory - len(b); room < 8*outbreak.MaxWorkingSet+64 { // the working set, times and credits
		t.Errorf("%d bytes, at most %d", len(b), store.MaxMemory)
	}
	m.shadow, m.wouldStop, m.suspended = false, false, false
	m.state.Resume(&p, start, false)
	b, err = m.append(nil)
	r.must(err)
	r.must(r.update(t.Context(), func(tx store.MailTx) error {
		return tx.Remember(store.Memory{Throttle: "outgoing", User: ann, State: b})
	}))
	_, err = r.send(ann, recipients("r", 30)...)
	if !errors.Is(err, ErrQueue) || errors.Is(err, ErrRecipients) || r.seen.bound(BoundWaiting) == 0 {
		t.Errorf("a full queue: %v", err)
	}
	v, err := r.Decide(t.Context(), r.now(), gateName, ann, "a", recipients("r", 30), true, true)
	if err != nil || v.Pass || v.Refused || v.Delayed != 30 {
		t.Errorf("a decision with a full queue: %+v, %v", v, err)
	}
}
