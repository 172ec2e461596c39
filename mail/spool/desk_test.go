package spool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/store"
	"weir/throttle/outbreak"
)

func TestReleaseAndDeleteSome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var ids []store.MailID
	for _, to := range recipients("r", 6) {
		id, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, to)
		r.must(err)
		ids = append(ids, id)
	}
	bobs, _, err := r.mail(&Envelope{User: "bob", Sender: "b"}, recipients("b", 20)...)
	r.must(err)
	r.idle()
	r.wantStates(map[store.State]int{store.Delayed: 10})
	if n, err := r.Release(t.Context(), r.now(), ann, ann,
		Selection{Mails: []store.MailID{ids[3], bobs, 12345}}); n != 1 || err != nil {
		t.Errorf("released %d, %v; want his own", n, err)
	}
	if n, err := r.Delete(t.Context(), r.now(), ann, ann, Selection{Mails: []store.MailID{ids[4], bobs}}); n != 1 ||
		err != nil {
		t.Errorf("deleted %d, %v; want his own", n, err)
	}
	if n, err := r.Release(t.Context(), r.now(), ann, ann, Selection{Mails: ids[3:5]}); n != 0 || err != nil {
		t.Errorf("released %d again, %v", n, err)
	}
	r.idle()
	r.wantDelivered(17)
	if n := len(r.carrier.to("r4@example.net")); n != 1 {
		t.Errorf("what was released arrived %d times", n)
	}
	// The others are still in order.
	r.pass(time.Minute)
	if len(r.carrier.to("r2@example.net")) != 1 || len(r.carrier.to("r3@example.net")) != 0 {
		t.Error("the queue is not in order")
	}
	r.pass(time.Hour)
	r.wantDelivered(1 + 15 + 1 + 3 + 5)
	if len(r.audit("released")) != 1 || len(r.audit("deleted")) != 1 || r.seen.get(&r.seen.released) != 1 ||
		r.seen.get(&r.seen.deleted) != 1 {
		t.Errorf("audit log %v", r.audit(""))
	}
	if len(r.carrier.to("ann@example.org")) != 0 {
		t.Error("a bounce for what was deleted")
	}
	if _, err := r.Release(t.Context(), r.now(), "op", "", Selection{All: true}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("all of nobody: %v", err)
	}
	if _, err := r.Release(t.Context(), r.now(), ann, ann,
		Selection{Mails: make([]store.MailID, maxAct+1)}); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("too many: %v", err)
	}
}

func TestReleaseUpTo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var last store.MailID
	for i, to := range recipients("r", 6) {
		id, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, to)
		r.must(err)
		if i == 3 {
			last = id
		}
	}
	if n, err := r.Release(t.Context(), r.now(), ann, ann, Selection{All: true, UpTo: last}); n != 3 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
}

// TestReleaseVeryMuch: all is all, in as many transactions as it takes.
func TestReleaseVeryMuch(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	r := newRig(t)
	const all = maxAct + 7
	r.must(r.update(t.Context(), func(tx store.MailTx) error {
		for range all {
			l := store.Message{ID: r.NewID(r.now()), Gate: gateName, User: ann, Received: r.now()}
			if err := tx.PutMessage(l, store.Text{},
				[]store.Addressee{{Address: "a@example.net", State: store.Held}}); err != nil {
				return err
			}
		}
		return nil
	}))
	if n, err := r.Delete(t.Context(), r.now(), "op", ann, Selection{All: true}); n != all || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	r.wantStates(nil)
}

func TestStopAndResume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, "a@example.net")
	r.sent(ann, "b@example.net")
	r.sent(ann, "c@example.net")
	r.idle()
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, "strange mail"))
	r.idle()
	r.wantStates(map[store.State]int{store.Held: 2})
	if log := r.audit("stopped"); len(log) != 1 || log[0].By != "op" || log[0].Text != "strange mail" {
		t.Errorf("audit log %+v", log)
	}
	if len(r.carrier.to(admin)) != 1 {
		t.Error("the admin was not told")
	}
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, "again"))
	if len(r.audit("stopped")) != 1 {
		t.Error("stopped twice")
	}
	r.pass(time.Hour)
	r.wantDelivered(1)
	r.must(r.ResumeUser(t.Context(), r.now(), "op", ann, false))
	r.wantStates(map[store.State]int{store.Held: 2})
	if r.Stopped(gateName, ann) || len(r.audit("resumed")) != 1 {
		t.Error("not resumed")
	}
	r.must(r.ResumeUser(t.Context(), r.now(), "op", ann, false))
	if len(r.audit("resumed")) != 1 {
		t.Error("resumed twice")
	}
	r.pass(time.Hour)
	r.wantDelivered(1)
	if n, err := r.Release(t.Context(), r.now(), "op", ann, Selection{All: true}); n != 2 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
	r.idle()
	r.wantDelivered(3)
}

// Mails held for review stay so when the user is resumed.
func TestResumeLeavesReviewAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail.Large = outbreak.LargeHold })
	r.sent(ann, recipients("r", 40)...)
	r.sent(ann, "a@example.net")
	r.sent(ann, "b@example.net")
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, ""))
	r.wantHeld(41)
	r.must(r.ResumeUser(t.Context(), r.now(), "op", ann, false))
	r.wantHeld(41)
}

func (r *rig) wantHeld(n int) {
	r.Helper()
	if got := r.states()[store.Held]; got != n {
		r.Errorf("%d held, want %d", got, n)
	}
}

func TestAutoResume(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail.Resume = 24 * 3600e9 })
	r.sent(ann, recipients("r", 40)...)
	r.idle()
	r.pass(24*time.Hour - time.Minute)
	r.wantStates(map[store.State]int{store.Held: 25})
	r.pass(time.Minute)
	if r.Stopped(gateName, ann) || len(r.audit("resumed")) != 1 || r.seen.get(&r.seen.resumed) != 1 {
		t.Fatalf("not tried again: %v", r.audit(""))
	}
	r.wantStates(map[store.State]int{store.Held: 25})
	r.pass(time.Hour)
	r.wantDelivered(15)
	// An operator's stop has no end.
	r.must(r.StopUser(t.Context(), r.now(), "op", ann, ""))
	r.pass(48 * time.Hour)
	if !r.Stopped(gateName, ann) {
		t.Error("resumed though an operator had stopped him")
	}
}

func TestStoppedIsLearnt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, recipients("r", 40)...)
	r.idle()
	r.again("second")
	if !r.Stopped(gateName, ann) || r.Stopped(gateName, "bob") {
		t.Error("who is stopped is not known after a restart")
	}
}

func TestStoppedBound(t *testing.T) {
	t.Parallel()
	var u userSet
	for i := range MaxStopped {
		if !u.set(throttleUser{"x", strconv.Itoa(i)}, true) {
			t.Fatal("no room")
		}
	}
	if u.set(throttleUser{"x", "one more"}, true) || u.has("x", "one more") {
		t.Error("no bound")
	}
	if !u.set(throttleUser{"x", "0"}, true) || !u.set(throttleUser{"x", "one more"}, false) ||
		!u.set(throttleUser{"x", "0"}, false) ||
		!u.set(throttleUser{"x", "one more"}, true) {
		t.Error("who is known has a place, and who leaves makes one")
	}
}

func TestOperators(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var ids []store.MailID
	for _, to := range recipients("r", 4) {
		id, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", Subject: "to " + to}, to)
		r.must(err)
		ids = append(ids, id)
	}
	r.idle()
	list, err := r.Queue(t.Context(), store.MessageQuery{User: ann, State: store.Delayed}, 100)
	if r.must(err); len(list) != 3 || list[0].ID != ids[1] || list[0].Subject != "to r2@example.net" {
		t.Errorf("queue %+v", list)
	}
	if _, err := r.Show(t.Context(), 77); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a mail that is not there: %v", err)
	}
	if n, err := r.DeleteMails(t.Context(), r.now(), "op", []store.MailID{ids[1], 77}); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if n, err := r.ReleaseMails(t.Context(), r.now(), "op", ids); n != 2 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
	r.idle()
	r.wantDelivered(3)
	if log := r.audit("released"); len(log) != 2 || log[0].By != "op" || log[0].User != ann {
		t.Errorf("audit log %+v", log)
	}
	standing, err := r.Standing(t.Context(), r.now(), ann)
	if r.must(err); len(standing) != 1 || standing[0].Waiting != 0 || standing[0].Limit != 20 ||
		standing[0].MSlack != 15 || standing[0].Slack != 0 {
		t.Errorf("standing %+v", standing)
	}
	users, err := r.Users(t.Context(), "", 10)
	if r.must(err); len(users) != 1 || users[0].Name != ann {
		t.Errorf("users %+v", users)
	}
	if _, err := r.DeleteMails(t.Context(), r.now(), "op", make([]store.MailID, maxAct+1)); !errors.Is(err,
		store.ErrTooLarge) {
		t.Errorf("too many: %v", err)
	}
}

func TestRemoveUser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, "a@example.net")
	r.sent(ann, "b@example.net")
	r.idle()
	r.must(r.RemoveUser(t.Context(), r.now(), "op", ann))
	r.pass(time.Hour)
	r.wantDelivered(1)
	r.wantStates(map[store.State]int{store.Held: 1})
	if log := r.audit("removed"); len(log) != 1 || log[0].Text != "1 recipient that waited is held" {
		t.Errorf("audit log %+v", log)
	}
	if n, err := r.Release(t.Context(), r.now(), "op", ann, Selection{All: true}); n != 1 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
	r.idle()
	r.wantDelivered(2)
	if _, err := r.User(t.Context(), ann); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the user: %v", err)
	}
	if err := r.RemoveUser(t.Context(), r.now(), "op", ann); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("again: %v", err)
	}
	r.user(store.User{Name: "bob"})
	r.sent("bob", recipients("r", 40)...)
	r.idle()
	r.must(r.RemoveUser(t.Context(), r.now(), "op", "bob"))
	r.idle()
	r.wantStates(map[store.State]int{store.Held: 25})
	if r.Stopped(gateName, "bob") {
		t.Error("somebody who is not there is stopped")
	}
	list, err := r.Queue(t.Context(), store.MessageQuery{User: "bob"}, 10)
	r.must(err)
	if n, err := r.ReleaseMails(t.Context(), r.now(), "op", []store.MailID{list[0].ID}); n != 25 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, recipients("r", 40)...)
	r.idle()
	forMail, _ := r.tickets()
	nonce, err := r.signer.Read("mail", forMail, r.now())
	r.must(err)
	r.pass(15 * 24 * time.Hour)
	if err := r.store.Mail().View(t.Context(),
		func(tx store.MailTx) error { _, err := tx.Ticket(nonce); return err }); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an old ticket: %v", err)
	}
	r.pass(90 * 24 * time.Hour)
	if log := r.audit(""); len(log) != 0 {
		t.Errorf("the audit log goes back to %v", log)
	}
}

// New limits hold for what waits, and for those who are stopped.
func TestLimitsChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, to := range recipients("r", 5) {
		r.sent(ann, to)
	}
	r.idle()
	r.must(r.limits(ann, `{"exempt":true}`))
	r.idle()
	r.wantDelivered(5)
	r.sent("bob", recipients("b", 40)...)
	r.idle()
	r.pass(25 * time.Hour)
	if !r.Stopped(gateName, "bob") || r.CountStopped() != 1 || !slices.Equal(r.StoppedUsers("", 10), []string{"bob"}) ||
		len(r.StoppedUsers("bob", 10)) != 0 {
		t.Errorf("stopped: %v", r.StoppedUsers("", 10))
	}
	r.gate.Mail = &outbreak.Options{Resume: 24 * 3600e9}
	r.must(r.Configure([]Gate{r.gate}))
	r.run()
	if r.Stopped(gateName, "bob") {
		t.Error("not tried again, though the new configuration says so")
	}
}

func TestFree(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.Mail.Free = append(r.gate.Mail.Free, "a!b@example.org") })
	r.user(store.User{Name: ann, Contact: contact, Senders: []string{"ann@example.org", "ann%far.example@example.org"}})
	user, err := r.User(t.Context(), ann)
	r.must(err)
	for recipient, want := range map[string]bool{
		"support@example.org": true, "x@Internal.example": true, contact: true, "Ann@example.org": true,
		"weir+x@mail.example.org": true,
		"weirdo@mail.example.org": false, "x@example.net": false, "postmaster": true,
		// Ways to somebody else.
		"v%far.example@internal.example": false, "far.example!v@internal.example": false,
		`"v@far.example"@internal.example`: false,
		`"v%far.example"@internal.example`: false, `"far.example!v"@internal.example`: false,
		"@far.example:v@internal.example": false,
		"@internal.example:v@far.example": false, "ann%far.example@example.org": false,
		"weir+v%far.example@mail.example.org": false,
		"far.example!support@example.org":     false, "A!b@example.org": true, `"a!b"@example.org`: false,
		"postmaster%far.example": false,
	} {
		if got := r.Free(gateName, &user, recipient); got != want {
			t.Errorf("%s is free: %v", recipient, got)
		}
	}
	if r.Free(gateName, nil, contact) || r.Free("nowhere", &user, contact) {
		t.Error("free for anybody")
	}
}

// A user who was stopped before weir knew more than the name is told when a contact is added, of what waits; somebody
// who is added under the name of a removed user is not told of that user's mail.
func TestStrangerGetsAContact(t *testing.T) {
	r := newRig(t)
	const eve = "eve"
	for i := 0; ; i++ {
		if _, err := r.send(eve, recipients(fmt.Sprint("s", i, "-"), 12)...); errors.Is(err, ErrStopped) {
			break
		} else if err != nil || i > 9 {
			t.Fatal(i, err)
		}
	}
	r.run()
	if told := r.carrier.to(admin); len(told) != 1 ||
		!strings.Contains(told[0].text, "weir user add eve --no-password --contact ADDRESS") ||
		strings.Contains(told[0].text, "passwd") {
		t.Errorf("the admin: %+v", told)
	}
	held := r.states()[store.Held]
	r.pass(time.Hour)
	add := func(contact string) store.User {
		r.must(r.ChangeUser(t.Context(), r.now(), "op", eve, func(u *store.User, _ bool) error {
			u.Contact = contact
			return nil
		}))
		r.run()
		u, err := r.User(t.Context(), eve)
		r.must(err)
		return u
	}
	add("eve@home.example")
	if told := r.carrier.to("eve@home.example"); held == 0 || len(told) != 1 ||
		!strings.Contains(told[0].text, fmt.Sprintf("Mail to %d recipients is on hold", held)) {
		t.Errorf("%d are held: %+v", held, told)
	}
	r.must(r.RemoveUser(t.Context(), r.now(), "op", eve))
	r.pass(time.Hour)
	if u := add("other@home.example"); !u.Made.Equal(r.now()) || len(r.carrier.to("other@home.example")) != 0 {
		t.Errorf("another user of that name: %+v", u)
	}
}
