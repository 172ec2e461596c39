package spool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/shown"
	"weir/mail/nexthop"
	"weir/store"
)

const victim = "victim@elsewhere.example"

// Who is told, and how much, depends on whose address the sender is.
func TestWhomBouncesReach(t *testing.T) {
	t.Parallel()
	const text = "Hello." // in every mail of the rig
	for name, c := range map[string]struct {
		user, sender string
		stopped      bool
		change       func(*rig)
		told         string // nobody else is
		full         bool
	}{
		"his own address": {user: ann, sender: "ann@example.org", told: "ann@example.org", full: true},
		"his own address, stopped": {user: ann, sender: "Ann@Example.org", stopped: true, told: "Ann@Example.org",
			full: true},
		"his contact": {user: ann, sender: contact, told: contact, full: true},
		"internal": {user: "bob", sender: "x@internal.example", told: "x@internal.example",
			full: true},
		"not really internal": {user: "bob", sender: "victim%elsewhere.example@internal.example",
			told: "victim%elsewhere.example@internal.example"},
		"a server":                     {user: "192.0.2.1", sender: victim, told: victim, full: true},
		"a network":                    {user: "2001:db8::/64", sender: victim, told: victim, full: true},
		"a stranger, contact":          {user: ann, sender: victim, told: contact, full: true},
		"a stranger, contact, stopped": {user: ann, sender: victim, stopped: true, told: contact, full: true},
		"a stranger":                   {user: "bob", sender: victim, told: victim},
		"a stranger, stopped":          {user: "bob", sender: victim, stopped: true, told: victim},
		"nobody is counted": {user: "bob", sender: victim, change: func(r *rig) { r.gate.Mail = nil },
			told: victim, full: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(r *rig) {
				r.gate.Admin = ""
				if c.change != nil {
					c.change(r)
				}
			})
			if c.stopped {
				r.must(r.StopUser(t.Context(), r.now(), "op", c.user, "stolen"))
				r.idle()
			}
			r.carrier.set(func(c *carrier) {
				c.taken = nil
				c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
					switch {
					case j.Sender == "":
						return nexthop.Result{}
					case to.Address == "no@internal.example":
						return nexthop.Result{Outcome: nexthop.Failed, Code: 550, Status: "5.1.1", Text: "no"}
					}
					return nexthop.Result{Relayed: true, Code: 250, Status: "2.0.0", Text: "ok"}
				}
			})
			_, _, err := r.mail(&Envelope{User: c.user, Sender: c.sender, Return: "FULL",
				To: []To{{Address: "no@internal.example"}, {Address: "yes@internal.example", Notify: "SUCCESS"}}})
			r.must(err)
			r.idle()
			told := 0
			for _, d := range r.carrier.taken {
				if d.sender != "" {
					continue
				}
				told++
				failed := strings.Contains(d.text, "Action: failed")
				if d.to != c.told || !strings.Contains(d.text, "Subject: hello") {
					t.Errorf("%s is told %s", d.to, d.text)
				}
				if got := strings.Contains(d.text, text); got != (failed && c.full) {
					t.Errorf("the text was returned: %v\n%s", got, d.text)
				}
			}
			if told != 2 {
				t.Errorf("told %d times", told)
			}
		})
	}
}

// What is sent to unknown has a bound, for each user and for all.
func TestStrangersAreToldLittle(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(c *carrier) {
		c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
			if j.Sender == "" {
				return nexthop.Result{}
			}
			return nexthop.Result{Outcome: nexthop.Failed, Code: 550, Status: "5.1.1", Text: "no"}
		}
	})
	r.must(r.StopUser(t.Context(), r.now(), "op", "bob", "stolen"))
	send := func(n int) {
		t.Helper()
		for range n {
			_, _, err := r.mail(&Envelope{User: "bob", Sender: victim}, "no@internal.example")
			r.must(err)
		}
		r.idle()
	}
	send(maxUnknown + 3)
	if n := len(r.carrier.to(victim)); n != maxUnknown {
		t.Errorf("told %d times", n)
	}
	if n := len(r.audit("not told")); n != 1 {
		t.Errorf("noted %d times: %v", n, r.audit(""))
	}
	if n, m := r.seen.bound(BoundBounces), r.seen.get(&r.seen.bounced); n != 3 || m != maxUnknown {
		t.Errorf("%d were at the bound, and %d told", n, m)
	}
	r.clock.Advance(unknownEach)
	send(1)
	if n := len(r.carrier.to(victim)); n != maxUnknown+1 {
		t.Errorf("told %d times after an hour", n)
	}
	r.wantStates(nil)
}

// A bounceTarget that cannot be stored at once counts once.
func TestTellingCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	broken := &breakable{Mail: r.store.Mail()}
	r.carrier.set(func(c *carrier) {
		c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
			if j.Sender == "" {
				return nexthop.Result{}
			}
			broken.fails.Store(true)
			return nexthop.Result{Outcome: nexthop.Failed, Code: 550, Status: "5.1.1", Text: "no"}
		}
	})
	r.Spool.store = broken
	_, _, err := r.mail(&Envelope{User: "bob", Sender: victim}, "no@internal.example")
	r.must(err)
	r.idle()
	for range 2 * maxUnknown {
		_, _ = r.RunDue(t.Context(), r.now())
		r.idle()
	}
	broken.fails.Store(false)
	r.run()
	if n := len(r.carrier.to(victim)); n != 1 || len(r.audit("not told")) != 0 {
		t.Errorf("told %d times: %v", n, r.audit(""))
	}
}

func TestStrangersBound(t *testing.T) {
	t.Parallel()
	var c unknown
	for i := range maxUnknownUsers {
		if ok, _ := c.take(fmt.Sprint(i), 1, start); !ok {
			t.Fatalf("user %d is not told", i)
		}
	}
	if ok, first := c.take("one more", 1, start); ok || first || len(c.told) != maxUnknownUsers {
		t.Errorf("one more: %v, %v, and %d are known", ok, first, len(c.told))
	}
	if ok, _ := c.take("0", maxUnknown-1, start); !ok {
		t.Error("who is known has no more")
	}
	if ok, first := c.take("0", 1, start); ok || !first {
		t.Errorf("over it: %v, %v", ok, first)
	}
	if ok, first := c.take("0", 1, start); ok || first {
		t.Errorf("over it again: %v, %v", ok, first)
	}
	for _, at := range []time.Time{start.Add(unknownEach), start} { // an hour later, and when the clock was set back
		if ok, _ := c.take("one more", maxUnknown, at); !ok || len(c.told) != 1 {
			t.Errorf("at %s nobody is told", at)
		}
	}
}

// Whether somebody is stopped matters where nobody else is counted, too.
func TestStoppedWithoutThrottle(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail = nil })
	r.must(r.StopUser(t.Context(), r.now(), "op", "bob", "stolen"))
	got, err := r.bounceTo(r.gates.Load().of(gateName), &store.Message{User: "bob", Sender: victim}, 1, false, r.now())
	if r.must(err); got.full || got.to != victim {
		t.Errorf("%+v", got)
	}
}

// Mail that fails for want of SMTPUTF8 is never lost unnoticed: a notification to an address in ASCII needs none, and
// where nobody has one the mail is held until the next hop has learnt it.
func TestWithoutSMTPUTF8(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		user, sender, contact string
		told                  string // empty: it is held
	}{
		"his own":                   {user: ann, sender: "ann@example.org", told: "ann@example.org"},
		"his contact":               {user: ann, sender: "änn@example.org", told: contact},
		"internal, no contact":      {user: "bob", sender: "ä@internal.example"},
		"a contact that is no help": {user: "carl", sender: victim, contact: "cärl@example.org", told: victim},
		"neither":                   {user: "carl", sender: "ä@elsewhere.example", contact: "cärl@example.org"},
		"a server":                  {user: "192.0.2.1", sender: "ä@elsewhere.example"},
		"no sender":                 {user: "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(r *rig) { r.gate.Admin = "" })
			if c.contact != "" {
				r.user(store.User{Name: c.user, Contact: c.contact, Made: r.now(), Changed: r.now()})
			}
			r.carrier.set(func(cr *carrier) {
				cr.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
					if j.UTF8 || !shown.ASCII(j.Sender) || !shown.ASCII(to.Address) {
						return nexthop.Result{Outcome: nexthop.Failed, Status: nexthop.StatusUTF8, Text: "no SMTPUTF8"}
					}
					return nexthop.Result{}
				}
			})
			id, _, err := r.mail(&Envelope{User: c.user, Sender: c.sender, UTF8: true}, "ü@internal.example")
			r.must(err)
			r.idle()
			if c.told != "" {
				if told := r.carrier.to(c.told); len(told) != 1 ||
					!strings.Contains(told[0].text, `Final-Recipient: utf-8; \x{FC}@internal.example`) {
					t.Errorf("%s is told %+v", c.told, told)
				}
				r.wantStates(nil)
				return
			}
			r.wantStates(map[store.State]int{store.Held: 1})
			if log := r.audit("held"); len(log) != 1 || log[0].Mail != id || log[0].User != c.user {
				t.Errorf("audit log %+v", log)
			}
			if log := r.audit("not told"); len(log) != 0 {
				t.Errorf("nothing has failed, but %+v", log)
			}
			r.carrier.set(func(c *carrier) { c.answer = nil })
			if n, err := r.ReleaseMails(t.Context(), r.now(), "op", []store.MailID{id}); n != 1 || err != nil {
				t.Errorf("released %d, %v", n, err)
			}
			r.idle()
			r.wantDelivered(1)
		})
	}
}

// TestNoSenderIsToldOf: a mail without a sender that a server refuses is not answered, but the log and the audit log
// tell.
func TestNoSenderIsToldOf(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(cr *carrier) {
		cr.answer = func(*nexthop.Job, nexthop.Recipient) nexthop.Result {
			return nexthop.Result{Outcome: nexthop.Failed, Code: 550, Status: "5.1.1", Text: "no such user"}
		}
	})
	id, _, err := r.mail(&Envelope{User: "192.0.2.1"}, "x@internal.example", "y@internal.example")
	r.must(err)
	r.idle()
	r.wantStates(nil)
	log := r.audit("not told")
	want := "2 not delivered, x@internal.example among them: 5.1.1 no such user; nobody is told, as it has no sender"
	if len(log) != 1 || log[0].Mail != id || log[0].Text != want {
		t.Errorf("audit log %+v", log)
	}
}

// A mail that failed for want of 8BITMIME is not returned in full, and its header only in ASCII: the notification would
// fail as well.
func TestWithout8BITMIME(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(cr *carrier) {
		cr.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
			if j.Sender == "" {
				return nexthop.Result{}
			}
			return nexthop.Result{Outcome: nexthop.Failed, Status: nexthop.StatusEightBit, Text: "no 8BITMIME"}
		}
	})
	_, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", Return: "FULL", EightBit: true,
		Subject: "Grüße"}, "a@internal.example")
	r.must(err)
	r.idle()
	told := r.carrier.to("ann@example.org")
	if len(told) != 1 || strings.Contains(told[0].text, "Hello.") || !shown.ASCII(told[0].text) ||
		!strings.Contains(told[0].text, "Content-Type: text/rfc822-headers") {
		t.Errorf("told %+v", told)
	}
}
