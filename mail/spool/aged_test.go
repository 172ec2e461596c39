package spool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/store"
)

const day = 24 * time.Hour

// aging makes a gate whose held mail is given up after ten days.
func aging(r *rig) { r.gate.RemindAfter, r.gate.HeldFor = 2*day, 10*day }

// subjects of what was delivered to an address.
func (r *rig) told(address string) (list []string) {
	for _, d := range r.carrier.to(address) {
		for line := range strings.Lines(d.text) {
			if subject, ok := strings.CutPrefix(line, "Subject: "); ok {
				list = append(list, strings.TrimSpace(subject))
				break
			}
		}
	}
	return list
}

// reminders counts the reminders to an address.
func (r *rig) reminders(address string) (n int) {
	for _, s := range r.told(address) {
		if strings.HasPrefix(s, "Your mail is still on hold") || strings.HasPrefix(s, "Still held") {
			n++
		}
	}
	return n
}

// TestReminders: a user is reminded of held mail, and then less and less often; a restart neither reminds twice nor
// forgets.
func TestReminders(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.RemindAfter = 2 * day })
	r.sent(ann, recipients("a", 40)...) // 15 pass, 25 are held, and she is stopped
	r.run()
	want := 0
	walk := func(days int, reminded ...int) {
		t.Helper()
		for d := range days {
			if slices.Contains(reminded, d) {
				want++
			}
			for range 6 {
				r.run()
				if got := r.reminders(contact); got != want {
					t.Fatalf("%d reminders after %s, want %d", got, r.now().Sub(start), want)
				}
				r.clock.Advance(day / 6)
			}
		}
	}
	walk(4, 2)
	r.again("second")
	r.run()
	r.again("third")
	walk(14, 0, 4, 12) // 2, 4 and 8 days after the last one
	if n := r.seen.get(&r.seen.reminded); n != 4 || len(r.audit("reminded")) != 4 {
		t.Errorf("%d reminders counted, %d in the audit log", n, len(r.audit("reminded")))
	}
	r.wantStates(map[store.State]int{store.Held: 25}) // without an expiry they stay

	// The reminder can be answered, and then there are no more.
	forMail, _ := r.tickets()
	r.must(r.Command(t.Context(), r.now(), gateName, forMail, reply("release all")))
	r.idle()
	r.wantStates(nil)
	walk(60)
}

// TestRemindersAreForThoseWhoCanRead: without a contact the admin is told; disabled users are not; with neither nobody
// is, and nothing is noted.
func TestRemindersAreForThoseWhoCanRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.gate.RemindAfter = 2 * day })
	for _, u := range []string{"bob", "cleo"} {
		r.user(store.User{Name: u})
		r.sent(u, recipients(u, 40)...)
	}
	r.sent(ann, recipients("a", 40)...)
	r.must(r.ChangeUser(t.Context(), r.now(), "op", ann, func(u *store.User, _ bool) error {
		u.Disabled = true
		return nil
	}))
	r.must(r.RemoveUser(t.Context(), r.now(), "op", "cleo"))
	r.run()
	r.pass(3 * day)
	if n := r.reminders(contact); n != 0 {
		t.Errorf("%d reminders to a disabled user", n)
	}
	if n := r.reminders(admin); n != 2 { // of bob's, and of those of cleo, who is no user any more
		t.Errorf("%d reminders to the admin: %q", n, r.told(admin))
	}
	r.gate.RemindAfter = -1
	r.must(r.Configure([]Gate{r.gate}))
	r.pass(30 * day)
	if n := r.reminders(admin); n != 2 {
		t.Errorf("%d reminders, and they are off", n)
	}
}

// TestHeldMailExpires: what nobody releases is given up, the sender is told, and the throttle does not count it any
// more. Delayed mail is not touched, nor is any of it given up twice.
func TestHeldMailExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t, aging)
	r.sent(ann, recipients("a", 40)...)
	r.run()
	r.pass(10*day - time.Second)
	r.wantStates(map[store.State]int{store.Held: 25})
	if !strings.Contains(r.carrier.to(contact)[0].text, "on hold for 10 days") {
		t.Errorf("the first notice does not say until when:\n%s", r.carrier.to(contact)[0].text)
	}
	r.again("second")
	r.run()
	r.wantStates(map[store.State]int{store.Held: 25})
	r.pass(time.Hour)
	r.wantStates(nil)
	bounces := r.carrier.to("ann@example.org")
	if len(bounces) != 1 || !strings.Contains(bounces[0].text, "held for 10 days, and nobody released it") ||
		!strings.Contains(bounces[0].text, "a40@example.net") || !strings.Contains(bounces[0].text, "Hello.") ||
		strings.Contains(bounces[0].text, "a15@example.net") {
		t.Fatalf("%d bounces: %+v", len(bounces), bounces)
	}
	if n := r.seen.get(&r.seen.expired); n != 25 || len(r.audit("expired")) != 1 {
		t.Errorf("%d counted, %d in the audit log", n, len(r.audit("expired")))
	}
	list, err := r.Standing(t.Context(), r.now(), ann)
	r.must(err)
	if list[0].Waiting != 0 || !list[0].Stopped {
		t.Errorf("%+v", list[0])
	}
	r.again("third")
	r.pass(2 * day)
	if n := len(r.carrier.to("ann@example.org")); n != 1 {
		t.Errorf("%d bounces", n)
	}
	r.wantDelivered(15 + 1)
}

// TestExpiryIsNotSilent: whose message has no sender or wants no answer is in the audit log, and where too many unknown
// senders were told already, messages wait for the next hour.
func TestExpiryIsNotSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t, aging)
	_, _, err := r.mail(&Envelope{User: ann, Sender: ""}, recipients("n", 40)...)
	r.must(err)
	r.user(store.User{Name: "bob"}) // without a contact, and with senders that nobody knows
	r.must(r.limits("bob", `{"max_slack": 0, "max_mslack": 0, "working_set": 0, "stop": 15}`))
	for i := range 16 { // one more than may wait
		_, _, err := r.mail(&Envelope{User: "bob", Sender: "someone@elsewhere.example"}, fmt.Sprintf("x%d@example.net", i))
		r.must(err)
	}
	never := &Envelope{User: "dan", Sender: "dan@example.org"}
	for _, to := range recipients("d", 40) {
		never.To = append(never.To, To{Address: to, Notify: "NEVER"})
	}
	r.user(store.User{Name: "dan"})
	_, _, err = r.mail(never)
	r.must(err)
	r.run()
	if r.states()[store.Held] != 25+16+25 {
		t.Fatalf("%v", r.states())
	}
	r.pass(10 * day)
	if n := len(r.carrier.to("someone@elsewhere.example")); n != maxUnknown || r.states()[store.Held] != 16-maxUnknown {
		t.Errorf("%d told in the first hour, %v", n, r.states())
	}
	r.pass(time.Hour)
	if n := len(r.carrier.to("someone@elsewhere.example")); n != 16 || r.states()[store.Held] != 0 {
		t.Errorf("%d told in all, %v", n, r.states())
	}
	if n := len(r.carrier.to("dan@example.org")); n != 0 {
		t.Errorf("%d bounces for one who wants none", n)
	}
	var users []string
	for _, e := range r.audit("expired") {
		users = append(users, e.User)
	}
	if !slices.Contains(users, "dan") || !slices.Contains(users, ann) || len(users) != 18 || len(r.audit("not told")) != 1 {
		t.Errorf("%v, %v", users, r.audit("not told"))
	}
}

// TestExpiryLeavesDecisions: a message that somebody releases or deletes in the meantime is not given up.
func TestExpiryLeavesDecisions(t *testing.T) {
	t.Parallel()
	r := newRig(t, aging)
	r.sent(ann, recipients("a", 40)...)
	r.run()
	held, err := r.Queue(t.Context(), store.MessageQuery{State: store.Held}, 10)
	r.must(err)
	_, err = r.Release(t.Context(), r.now(), "op", ann, Selection{All: true})
	r.must(err)
	r.idle()
	if done, err := r.expireOne(t.Context(), r.now().Add(20*day), &r.gate, &held[0]); err != nil || done {
		t.Errorf("%t, %v", done, err)
	}
	if r.seen.get(&r.seen.expired) != 0 || len(r.carrier.to("ann@example.org")) != 0 {
		t.Error("given up although it was released")
	}
}

// TestAgingBounds: no more than maxExpired messages and maxReminders users in an hour; the others an hour later.
func TestAgingBounds(t *testing.T) {
	needs.Unwatched(t)
	if testing.Short() {
		t.Skip("stores two thousand messages")
	}
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.gate.RemindAfter, r.gate.HeldFor, r.gate.Admin = 2*day, 10*day, ""
		r.gate.Mail = nil
	})
	r.must(r.store.Mail().Update(t.Context(), func(tx store.MailTx) error {
		for i := range maxReminders + 1 {
			name := fmt.Sprintf("user%04d", i)
			if err := tx.PutUser(store.User{Name: name, Contact: name + "@home.example", Made: start}); err != nil {
				return err
			}
			id := r.NewID(r.now())
			if err := tx.PutMessage(store.Message{ID: id, Gate: gateName, User: name, Sender: name + "@example.org", Received: start,
				Size: 4}, store.Text{Inline: []byte("\r\nx\n"), Size: 4},
				[]store.Addressee{{Mail: id, Address: "to@example.net", State: store.Held}}); err != nil {
				return err
			}
		}
		return nil
	}))
	r.pass(2 * day)
	if n := r.seen.get(&r.seen.reminded); n != maxReminders || r.seen.bound(BoundReminders) != 1 {
		t.Errorf("%d reminders in an hour, the bound was reached %d times", n, r.seen.bound(BoundReminders))
	}
	r.pass(time.Hour)
	if n := r.seen.get(&r.seen.reminded); n != maxReminders+1 {
		t.Errorf("%d reminders", n)
	}
	r.pass(8 * day)
	if n := r.seen.get(&r.seen.expired); n != maxExpired || r.seen.bound(BoundExpired) != 1 {
		t.Errorf("%d given up in an hour, the bound was reached %d times", n, r.seen.bound(BoundExpired))
	}
	r.pass(time.Hour)
	if n := r.seen.get(&r.seen.expired); n != maxExpired+1 {
		t.Errorf("%d given up", n)
	}
}
