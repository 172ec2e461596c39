package spool

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/mail/notice"
	"weir/store"
)

// stopped returns a rig with a stopped user who holds tickets: 22 mails, of which the first has left.
func stoppedRig(t *testing.T, change ...func(*rig)) (r *rig, forMail, forPage string) {
	r = newRig(t, change...)
	for _, to := range recipients("r", 22) {
		r.sent(ann, to)
	}
	r.idle()
	if !r.Stopped(gateName, ann) {
		t.Fatal("not stopped")
	}
	r.wantDelivered(1)
	forMail, forPage = r.tickets()
	return r, forMail, forPage
}

func (r *rig) answer() string {
	r.Helper()
	all := r.carrier.to(contact)
	return all[len(all)-1].text
}

func TestCommandReleasesOnce(t *testing.T) {
	t.Parallel()
	r, ticket, _ := stoppedRig(t)
	told := len(r.carrier.to(contact))
	r.must(r.Command(t.Context(), r.now(), gateName, ticket, reply("release 1, 3", "delete 2", "", "> release all")))
	r.idle()
	r.wantDelivered(3)
	if len(r.carrier.to("r2@example.net")) != 1 || len(r.carrier.to("r3@example.net")) != 0 ||
		len(r.carrier.to("r4@example.net")) != 1 {
		t.Error("not those that were meant")
	}
	r.wantStates(map[store.State]int{store.Held: 18})
	if n := len(r.carrier.to(contact)); n != told+1 {
		t.Fatalf("%d answers", n-told)
	}
	for _, want := range []string{"auto-replied", "In-Reply-To: <1@home.example>", "released for 2 recipients",
		"deleted for 1 recipient"} {
		if !strings.Contains(r.answer(), want) {
			t.Errorf("%q is not in the answer:\n%s", want, r.answer())
		}
	}
	if log := r.audit("released"); len(log) != 2 || log[0].By != "ann, by mail" {
		t.Errorf("audit log %+v", log)
	}
	// A second reply does nothing, and is answered once.
	for range 3 {
		if err := r.Command(t.Context(), r.now(), gateName, ticket, reply("release all")); !errors.Is(err, ErrSpent) {
			t.Errorf("a second reply: %v", err)
		}
	}
	r.idle()
	r.wantDelivered(3)
	if n := len(r.carrier.to(contact)); n != told+2 {
		t.Errorf("%d answers", n-told)
	}
}

func TestCommandReleaseAllAndResume(t *testing.T) {
	t.Parallel()
	r, ticket, _ := stoppedRig(t)
	r.must(r.Command(t.Context(), r.now(), gateName, ticket, reply("release all", "resume")))
	r.idle()
	r.wantDelivered(22)
	if r.Stopped(gateName, ann) {
		t.Error("not resumed")
	}
	if !strings.Contains(r.answer(), "send mail again") {
		t.Errorf("answer:\n%s", r.answer())
	}
	r.wantStates(nil)
}

// TestResumeIsNotRelease: by mail, on the page and by an operator, who may send again has not released anything. The
// answer lists what is left, and can be answered.
func TestResumeIsNotRelease(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"resume", "release 1, resume", "resume and release 1", "resume release 1",
		"delete 2 resume release 1"} {
		r, ticket, _ := stoppedRig(t)
		told := len(r.carrier.to(contact))
		r.must(r.Command(t.Context(), r.now(), gateName, ticket, reply(line)))
		r.pass(24 * time.Hour)
		left := 21 - strings.Count(line, "release") - strings.Count(line, "delete")
		r.wantStates(map[store.State]int{store.Held: left})
		r.wantDelivered(1 + strings.Count(line, "release"))
		if r.Stopped(gateName, ann) || !strings.Contains(r.answer(), fmt.Sprintf("Mail to %d recipients is still on hold",
			left)) || strings.Contains(r.answer(), "  resume") {
			t.Errorf("%s: %s", line, r.answer())
		}
		next, page := r.tickets()
		if len(r.carrier.to(contact)) != told+1 || next == ticket {
			t.Fatalf("%s: no further ticket", line)
		}
		if v, err := r.Page(t.Context(), r.now(), page); err != nil || len(v.Held) != left || v.Stopped {
			t.Errorf("%s: page %+v, %v", line, v, err)
		}
		r.must(r.Command(t.Context(), r.now(), gateName, next, reply("delete all")))
		r.idle()
		r.wantStates(nil)
		if text := r.answer(); strings.Contains(text, "on hold, until") || strings.Contains(text, "By mail") {
			t.Errorf("%s: %s", line, text)
		}
	}
	r, ticket, page := stoppedRig(t)
	r.must(r.Command(t.Context(), r.now(), gateName, ticket, reply("release all")))
	r.idle()
	if !strings.Contains(r.answer(), "still cannot send") || !strings.Contains(r.answer(), "  resume") {
		t.Errorf("released, and stopped: %s", r.answer())
	}
	done, err := r.Act(t.Context(), r.now(), page, "form", Action{Resume: true})
	if r.must(err); done != (Done{Resumed: true}) {
		t.Errorf("%+v", done)
	}
}

func TestCommandDeleteAll(t *testing.T) {
	t.Parallel()
	r, ticket, _ := stoppedRig(t)
	r.must(r.Command(t.Context(), r.now(), gateName, ticket, reply("delete all")))
	r.idle()
	r.wantDelivered(1)
	r.wantStates(nil)
	if !r.Stopped(gateName, ann) {
		t.Error("resumed")
	}
}

func TestCommandForgedOldAuto(t *testing.T) {
	t.Parallel()
	r, ticket, page := stoppedRig(t)
	told := len(r.carrier.to(contact))
	for name, c := range map[string]struct {
		ticket string
		reply  io.Reader
		want   error
	}{
		"none":        {"", reply("release all"), notice.ErrForged},
		"forged":      {strings.Repeat("a", len(ticket)), reply("release all"), notice.ErrForged},
		"of the page": {page, reply("release all"), notice.ErrForged},
		"unknown": {r.signer.Sign(notice.ForMail, notice.NewNonce(), r.now().Add(time.Hour)),
			reply("release all"), notice.ErrOld},
		"by a machine": {ticket, strings.NewReader("Auto-Submitted: auto-replied\r\n\r\nrelease all\r\n"),
			notice.ErrAuto},
		"another's key": {notice.NewSigner([]byte("other")).Sign(notice.ForMail, notice.NewNonce(),
			r.now().Add(time.Hour)), reply("release all"), notice.ErrForged},
	} {
		if err := r.Command(t.Context(), r.now(), gateName, c.ticket, c.reply); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.idle()
	if n := len(r.carrier.to(contact)); n != told {
		t.Errorf("%d answers", n-told)
	}
	if err := r.Command(t.Context(), r.now(), "nowhere", ticket, reply("release all")); !errors.Is(err, ErrUnknown) {
		t.Errorf("no gate: %v", err)
	}
	r.pass(7*24*time.Hour + time.Second)
	for range 2 {
		if err := r.Command(t.Context(), r.now(), gateName, ticket, reply("release all")); !errors.Is(err,
			notice.ErrOld) {
			t.Errorf("an old one: %v", err)
		}
	}
	r.idle()
	if n := len(r.carrier.to(contact)); n != told+1 || !strings.Contains(r.answer(), "too old") {
		t.Errorf("%d answers", n-told)
	}
	r.wantDelivered(1)
	r.wantStates(map[store.State]int{store.Held: 21})
}

func TestCommandHelp(t *testing.T) {
	t.Parallel()
	r, ticket, _ := stoppedRig(t)
	told := len(r.carrier.to(contact))
	for i := range maxHelp + 2 {
		text := []string{"what is this?", "release seven of them", "release 1", "delete 1"}
		text = text[:1+i%2] // the second is wrong, the first says nothing
		if err := r.Command(t.Context(), r.now(), gateName, ticket, reply(text...)); err == nil {
			t.Errorf("%q was done", text)
		}
	}
	r.idle()
	if n := len(r.carrier.to(contact)) - told; n != maxHelp || r.seen.bound(BoundHelp) != 2 {
		t.Errorf("%d answers", n)
	}
	var wrong *notice.CommandError
	if err := r.Command(t.Context(), r.now(), gateName, ticket, reply("release 1", "delete 1")); !errors.As(err,
		&wrong) {
		t.Errorf("a contradiction: %v", err)
	}
	// And the ticket is still good.
	r.must(r.Command(t.Context(), r.now(), gateName, ticket, reply("release 1", "delete 99")))
	r.idle()
	r.wantDelivered(2)
	if !strings.Contains(r.answer(), "no number 99") {
		t.Errorf("answer:\n%s", r.answer())
	}
}

// Nobody acts on the mail of another, and all means what the notice told of.
func TestCommandIsAboutTheNotice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent("bob", recipients("b", 17)...)
	for _, to := range recipients("r", 3) {
		r.sent(ann, to)
	}
	r.idle()
	ticket, _ := r.tickets()
	r.sent(ann, "later@example.net")
	r.must(r.Command(t.Context(), r.now(), gateName, ticket, reply("release all")))
	r.idle()
	// The notice was written at the first delay: of r2.
	if len(r.carrier.to("r2@example.net")) != 1 || len(r.carrier.to("r3@example.net")) != 0 ||
		len(r.carrier.to("later@example.net")) != 0 {
		t.Errorf("delivered %+v", r.carrier.taken)
	}
	if len(r.carrier.to("b17@example.net")) != 0 {
		t.Error("mail of another was released")
	}
}

func TestOperatorsStopIsNotTheUsers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, "a@example.net")
	r.sent(ann, "b@example.net")
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, ""))
	r.idle()
	ticket, page := r.tickets()
	r.must(r.Command(t.Context(), r.now(), gateName, ticket, reply("resume")))
	r.idle()
	if !r.Stopped(gateName, ann) || !strings.Contains(r.answer(), "have stopped your account") {
		t.Errorf("answer:\n%s", r.answer())
	}
	v, err := r.Page(t.Context(), r.now(), page)
	r.must(err)
	done, err := r.Act(t.Context(), r.now(), page, "form", Action{Resume: true})
	if r.must(err); !done.Refused || done.Resumed || !v.ByOperator || !r.Stopped(gateName, ann) {
		t.Errorf("done %+v", done)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	r, mailTicket, ticket := stoppedRig(t)
	v, err := r.Page(t.Context(), r.now(), ticket)
	r.must(err)
	if v.User != ann || !v.Stopped || !v.Since.Equal(start) || v.Waiting != 21 || v.Limit != 20 || len(v.Held) != 21 ||
		v.More ||
		v.Held[0].Subject != "hello" || v.Held[0].To[0].Address != "r2@example.net" || v.Last != v.Held[20].ID ||
		!v.Until.Equal(start.Add(7*24*time.Hour)) {
		t.Errorf("page %+v", v)
	}
	_, err = r.Act(t.Context(), r.now(), ticket, "first",
		Action{Release: []store.MailID{v.Held[0].ID}, Delete: []store.MailID{v.Held[0].ID}})
	if !errors.Is(err, notice.ErrNothing) {
		t.Errorf("a contradiction: %v", err)
	}
	done, err := r.Act(t.Context(), r.now(), ticket, "first",
		Action{Release: []store.MailID{v.Held[0].ID}, Delete: []store.MailID{v.Held[1].ID}})
	if r.must(err); done != (Done{Released: 1, Deleted: 1, Held: 19, Stopped: true}) {
		t.Errorf("done %+v", done)
	}
	if _, err := r.Act(t.Context(), r.now(), ticket, "first", Action{ReleaseAll: true}); !errors.Is(err, ErrSpent) {
		t.Errorf("the same form again: %v", err)
	}
	next, err := r.Page(t.Context(), r.now(), ticket)
	r.must(err)
	if len(next.Held) != 19 {
		t.Errorf("%d held", len(next.Held))
	}
	// Forms and tickets are good for what they are made for.
	_, _, otherTicket := stoppedRig(t)
	for name, c := range map[string][2]string{
		"no form":           {ticket, ""},
		"a long one":        {ticket, strings.Repeat("x", maxForm+1)},
		"the mail's ticket": {mailTicket, "second"},
	} {
		if _, err := r.Act(t.Context(), r.now(), c[0], c[1], Action{ReleaseAll: true}); !errors.Is(err,
			notice.ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.Act(t.Context(), r.now(), otherTicket, "second", Action{ReleaseAll: true}); !errors.Is(err,
		notice.ErrOld) {
		t.Errorf("another's: %v", err)
	}
	if _, err := r.Page(t.Context(), r.now(), otherTicket); !errors.Is(err, notice.ErrOld) {
		t.Errorf("a page that this store does not know: %v", err)
	}
	done, err = r.Act(t.Context(), r.now(), ticket, "second",
		Action{Delete: []store.MailID{next.Held[0].ID}, ReleaseAll: true, UpTo: next.Held[17].ID, Resume: true})
	if r.must(err); done != (Done{Released: 17, Deleted: 1, Resumed: true, Held: 1}) {
		t.Errorf("done %+v", done)
	}
	r.idle()
	r.wantDelivered(1 + 1 + 17)
	r.wantStates(map[store.State]int{store.Held: 1})
	if r.Stopped(gateName, ann) {
		t.Error("not resumed")
	}
	if log := r.audit("resumed"); len(log) != 1 || log[0].By != "ann, on the page" {
		t.Errorf("audit log %+v", log)
	}
	r.clock.Advance(7*24*time.Hour + time.Second)
	if _, err := r.Page(t.Context(), r.now(), ticket); !errors.Is(err, notice.ErrOld) {
		t.Errorf("an old page: %v", err)
	}
}

func TestNoticesAreRare(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for day := range 3 {
		for hour := range 6 {
			r.sent(ann, recipients("x", 16)...)
			r.pass(4 * time.Hour)
			if n := len(r.carrier.to(contact)); n != day+1 {
				t.Fatalf("day %d, hour %d: told %d times", day, hour, n)
			}
		}
	}
	// Without an address nobody is told, and with a wrong one no mail is lost.
	r.user(store.User{Name: "bob"})
	r.user(store.User{Name: "carol", Contact: "no address"})
	for _, user := range []string{"bob", "carol"} {
		if receipt := r.sent(user, recipients("r", 40)...); !receipt.Stopped {
			t.Errorf("%s: %+v", user, receipt)
		}
	}
	r.idle()
	if n := len(r.carrier.to(admin)); n != 2 {
		t.Errorf("the admin was told %d times", n)
	}
}

// A notice of many mails has a bound.
func TestLongNotice(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 60) + "@" + strings.Repeat(strings.Repeat("b", 60)+".", 3) + "example.net"
	r := newRig(t, func(r *rig) { r.gate.Mail.Stop, r.gate.Mail.Recipients = new(120), 1000 })
	for i := range 120 {
		_, _, err := r.mail(&Envelope{User: ann, Sender: "a", Subject: strings.Repeat("ü", 128)},
			strings.Replace(long, "aa", string(rune('a'+i%26)), 1))
		r.must(err)
	}
	r.sent(ann, recipients("r", 60)...)
	r.idle()
	if !r.Stopped(gateName, ann) {
		t.Fatal("not stopped")
	}
	forMail, _ := r.tickets()
	if n := len(r.answer()); n > store.MaxInline {
		t.Errorf("a notice of %d bytes", n)
	}
	waiting := r.states()[store.Held]
	r.must(r.Command(t.Context(), r.now(), gateName, forMail, reply("release all")))
	r.idle()
	r.wantStates(nil)
	if waiting < 120 {
		t.Errorf("%d waited", waiting)
	}
}

// TestTicketsEndWithTheUser: a ticket is not for another user who gets the same name, nor for the former
// address.
func TestTicketsEndWithTheUser(t *testing.T) {
	t.Parallel()
	void := func(r *rig, forMail, forPage string) {
		t.Helper()
		if v, err := r.Page(t.Context(), r.now(), forPage); !errors.Is(err, notice.ErrOld) {
			t.Errorf("the page shows %d mails, %v", len(v.Held), err)
		}
		if done, err := r.Act(t.Context(), r.now(), forPage, "form",
			Action{ReleaseAll: true, Resume: true}); !errors.Is(err, notice.ErrOld) {
			t.Errorf("the page does %+v, %v", done, err)
		}
		if err := r.Command(t.Context(), r.now(), gateName, forMail, reply("release all")); !errors.Is(err,
			notice.ErrOld) {
			t.Errorf("a reply: %v", err)
		}
		r.idle()
		r.wantDelivered(1)
	}
	r, forMail, forPage := stoppedRig(t)
	r.must(r.RemoveUser(t.Context(), r.now(), "op", ann))
	void(r, forMail, forPage)
	r.clock.Advance(time.Minute)
	r.user(store.User{Name: ann, Contact: contact})
	if _, err := r.send(ann, recipients("n", 37)...); err != nil {
		t.Fatal(err)
	}
	r.idle()
	r.carrier.set(func(c *carrier) {
		c.taken = slices.DeleteFunc(c.taken, func(d handed) bool { return strings.HasPrefix(d.to, "n") })
	})
	void(r, forMail, forPage)
	// And what the other had sent is not for the new one.
	_, forPage = r.tickets()
	v, err := r.Page(t.Context(), r.now(), forPage)
	if r.must(err); v.Waiting != 22 || len(v.Held) != 1 {
		t.Errorf("%d wait in %d mails", v.Waiting, len(v.Held))
	}
	all, err := r.Queue(t.Context(), store.MessageQuery{User: ann, State: store.Held}, 10)
	r.must(err)
	done, err := r.Act(t.Context(), r.now(), forPage, "form",
		Action{Delete: []store.MailID{all[0].ID}, ReleaseAll: true})
	if r.must(err); done.Deleted != 0 || done.Released != 22 {
		t.Errorf("done %+v", done)
	}
	r.idle()
	r.wantStates(map[store.State]int{store.Held: 21})

	r, forMail, forPage = stoppedRig(t)
	// which changes nothing about them
	r.user(store.User{Name: ann, Contact: contact, Senders: []string{"ann@example.org"}, Password: "x"})
	if _, err := r.Page(t.Context(), r.now(), forPage); err != nil {
		t.Error(err)
	}
	r.user(store.User{Name: ann, Contact: "ann@elsewhere.example"})
	r.idle()
	if len(r.carrier.to("ann@elsewhere.example")) != 1 || len(r.carrier.to(admin)) != 1 {
		t.Error("who is stopped was not told at the new address, or the admin twice")
	}
	r.carrier.set(func(c *carrier) {
		c.taken = slices.DeleteFunc(c.taken, func(d handed) bool { return d.to == "ann@elsewhere.example" })
	})
	void(r, forMail, forPage)
	r.user(store.User{Name: ann, Contact: contact}) // as it was before: it is another one all the same
	r.idle()
	if old := r.carrier.to("ann@elsewhere.example"); len(old) != 1 || !strings.Contains(old[0].text, "the last one that comes here") ||
		strings.Contains(old[0].text, "/held/") || strings.Contains(old[0].text, contact) {
		t.Errorf("the old contact is told %+v", old)
	}
	r.carrier.set(func(c *carrier) {
		c.taken = slices.DeleteFunc(c.taken, func(d handed) bool { return d.to == "ann@elsewhere.example" })
	})
	void(r, forMail, forPage)
	_, forPage = r.tickets()
	if v, err := r.Page(t.Context(), r.now(), forPage); err != nil || v.Waiting != 21 {
		t.Errorf("the new link: %d wait, %v", v.Waiting, err)
	}
}
