package spool

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
	"weir/throttle/reach"
)

// reachRig is a rig with a reach throttle that flags from five new recipients an hour on.
func reachRig(t testing.TB, o reach.Options, change ...func(*rig)) *rig {
	t.Helper()
	if o.Threshold == (reach.Threshold{}) {
		o.Threshold.Count = 5
	}
	o.Windows = []reach.Window{reach.Hour}
	rules, err := o.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, append([]func(*rig){func(r *rig) {
		r.gate.Mail = &outbreak.Options{MaxSlack: new(1000), MaxMSlack: new(1000),
			Internal: []string{"internal.example"}}
		r.gate.Reach = &Reach{Name: "contacts", Rules: rules, Population: new(reach.Population),
			Shadow: func() bool { return r.shadow }}
		r.configured = func() { r.must(r.ConfigureReach(t.Context(), []*Reach{r.gate.Reach})) }
	}}, change...)...)
}

func TestReachDecides(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.KnownOnly})
	decide := func(commit, count bool, to ...string) Verdict {
		t.Helper()
		v, err := r.Decide(t.Context(), r.now(), gateName, ann, "ann@example.org", to, commit, count)
		r.must(err)
		return v
	}
	if v := decide(true, true, recipients("a", 5)...); !v.Pass {
		t.Fatalf("%+v", v)
	}
	if v := decide(false, false, "new@example.net"); !v.Refused || !errors.Is(v.Why, ErrNewRecipient) {
		t.Errorf("a look at one too many: %+v", v)
	}
	if r.Flagged(gateName, ann) {
		t.Error("a look has flagged the user")
	}
	if v := decide(true, true, "new@example.net", "a1@example.net"); !v.Refused || v.Pass {
		t.Errorf("one too many: %+v", v)
	}
	if !r.Flagged(gateName, ann) {
		t.Error("the user is not flagged")
	}
	if v := decide(true, true, "a1@example.net"); !v.Pass {
		t.Errorf("a known recipient: %+v", v)
	}
	if v := decide(true, true, "x@internal.example"); !v.Pass {
		t.Errorf("a colleague: %+v", v)
	}
}

// What another server holds, or diverts: in the first case it is charged here, in the second where it arrives.
func TestReachDecidesAboutWithheld(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.HoldNew})
	r.sent(ann, recipients("a", 5)...)
	for i, c := range []struct{ commit, count bool }{{true, false}, {false, false}, {true, true}} {
		v, err := r.Decide(t.Context(), r.now(), gateName, ann, "ann@example.org",
			[]string{"new@example.net", "a1@example.net"}, c.commit, c.count)
		r.must(err)
		if v.Pass || v.Refused || v.Withheld != 1 {
			t.Errorf("%+v: %+v", c, v)
		}
		if flagged := r.Flagged(gateName, ann); flagged != (i == 2) {
			t.Errorf("%+v: flagged %v", c, flagged)
		}
	}
}

// A mail that is not taken leaves no trace but the attempt.
func TestReachRefusesAMailAsAWhole(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.KnownOnly})
	if _, err := r.send(ann, recipients("a", 8)...); !errors.Is(err, ErrNewRecipient) {
		t.Fatal(err)
	}
	r.run() // the admin and the user are told
	r.wantStates(nil)
	r.wantDelivered(0)
	if n := len(r.audit("flagged")); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
	// Nobody of it is known.
	if err := r.Reaches(t.Context(), r.now(), gateName, ann, "ann@example.org", "a1@example.net"); !errors.Is(err,
		ErrNewRecipient) {
		t.Errorf("one of a mail that was refused: %v", err)
	}
	if got := r.carrier.to(admin); len(got) != 1 {
		t.Errorf("the admin was told %d times", len(got))
	}
}

// Exempt users write to anybody, and nobody is withheld in shadow; both are counted.
func TestReachExemptAndShadow(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.HoldNew, Exempt: []string{"bulk"}})
	if got := r.sent("bulk", recipients("a", 20)...); got.Withheld != 0 || got.Passed != 20 {
		t.Errorf("%+v", got)
	}
	r.shadow = true
	if got := r.sent(ann, recipients("b", 20)...); got.Withheld != 0 || got.Passed != 20 {
		t.Errorf("%+v", got)
	}
	if r.CountFlagged() != 0 {
		t.Error("somebody is flagged")
	}
	for _, user := range []string{"bulk", ann} {
		if list, err := r.ReachStandings(t.Context(), r.now(), user); err != nil || len(list) != 1 ||
			list[0].Count != 20 {
			t.Errorf("%s: %+v, %v", user, list, err)
		}
	}
}

func TestReachStopsByItself(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.Block})
	r.sent(ann, recipients("a", 5)...)
	if _, err := r.send(ann, "new@example.net"); !errors.Is(err, ErrFlagged) {
		t.Fatal(err)
	}
	r.pass(30 * time.Minute)
	if !r.Flagged(gateName, ann) || r.CountFlagged() != 1 {
		t.Error("the flag ended early")
	}
	r.pass(2 * time.Hour)
	if r.Flagged(gateName, ann) || len(r.audit("unflagged")) != 1 {
		t.Error("the flag did not end by itself")
	}
	r.sent(ann, "new@example.net")
}

func TestOperatorsFlagAndClear(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.Block})
	r.must(r.FlagReach(t.Context(), r.now(), "root", "contacts", ann))
	if _, err := r.send(ann, "a@example.net"); !errors.Is(err, ErrFlagged) {
		t.Error(err)
	}
	r.pass(48 * time.Hour)
	list, err := r.FlaggedUsers(t.Context(), r.now(), 10)
	r.must(err)
	if len(list) != 1 || list[0].User != ann || !strings.Contains(list[0].Why, "operator") {
		t.Errorf("%+v", list)
	}
	r.must(r.ClearReach(t.Context(), r.now(), "root", "contacts", ann))
	r.sent(ann, "a@example.net")
	if err := r.ClearReach(t.Context(), r.now(), "root", "others", ann); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	if a, b := r.audit("flagged"), r.audit("unflagged"); len(a) != 1 || len(b) != 1 || a[0].By != "root" ||
		b[0].By != "root" {
		t.Errorf("%+v %+v", a, b)
	}
}

// The audit log has one line for what an operator did, whatever the clock says: a state keeps whole seconds, and clocks
// are set back.
func TestOperatorsFlagIsOneLineOfTheAuditLog(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.Block})
	r.pass(1234567 * time.Microsecond)
	lines := func(flagged, unflagged int) {
		t.Helper()
		if a, b := r.audit("flagged"), r.audit("unflagged"); len(a) != flagged || len(b) != unflagged {
			t.Fatalf("%d and %d lines, want %d and %d: %+v %+v", len(a), len(b), flagged, unflagged, a, b)
		}
	}
	r.must(r.FlagReach(t.Context(), r.now(), "root", "contacts", ann))
	lines(1, 0)
	// Again, two hours before: the flag is the same one.
	r.must(r.FlagReach(t.Context(), r.now().Add(-2*time.Hour), "root", "contacts", ann))
	lines(2, 0)
	if _, err := r.send(ann, "a@example.net"); !errors.Is(err, ErrFlagged) {
		t.Error(err)
	}
	lines(2, 0)
	r.must(r.ClearReach(t.Context(), r.now(), "root", "contacts", ann))
	lines(2, 1)
	for _, e := range append(r.audit("flagged"), r.audit("unflagged")...) {
		if e.By != "root" {
			t.Errorf("%+v", e)
		}
	}
	// A flag of weir's that an operator confirms is a line, too, and does not end by itself.
	r.sent("bob", recipients("b", 5)...)
	if _, err := r.send("bob", "new@example.net"); !errors.Is(err, ErrFlagged) {
		t.Fatal(err)
	}
	r.must(r.FlagReach(t.Context(), r.now(), "root", "contacts", "bob"))
	lines(4, 1)
	r.pass(48 * time.Hour)
	if !r.Flagged(gateName, "bob") {
		t.Error("the flag ended by itself")
	}
	lines(4, 1)
}

// A crash loses neither who is known nor who is flagged; what cannot be read begins anew, and lets the user send.
func TestReachAfterACrash(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.KnownOnly})
	r.sent(ann, recipients("a", 5)...)
	if _, err := r.send(ann, "new@example.net"); !errors.Is(err, ErrNewRecipient) {
		t.Fatal(err)
	}
	r.again("second")
	if !r.Flagged(gateName, ann) {
		t.Error("the flag is forgotten")
	}
	r.sent(ann, "a3@example.net")
	for _, damage := range []string{"\x01", "\x01\x00\x00\x00\x00\x01garbage", "\x01\xff\x00"} {
		r.must(r.opts.Store.Update(t.Context(), func(tx store.MailTx) error {
			return tx.PutSketch(store.Sketch{Throttle: "contacts", User: ann, State: []byte(damage)})
		}))
		r.sent(ann, fmt.Sprintf("after-%d@example.net", len(damage)))
	}
	r.must(r.opts.Store.Update(t.Context(), func(tx store.MailTx) error {
		return tx.PutSketch(store.Sketch{Throttle: "contacts", User: ann, State: []byte("\x09later version")})
	}))
	if _, err := r.send(ann, "x@example.net"); !errors.Is(err, store.ErrNewer) {
		t.Errorf("what a newer weir has stored: %v", err)
	}
}

// With a user the known recipients are removed.
func TestReachForgetsRemovedUsers(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.KnownOnly})
	r.sent(ann, recipients("a", 5)...)
	_, _ = r.send(ann, "new@example.net")
	r.must(r.RemoveUser(t.Context(), r.now(), "root", ann))
	if r.CountFlagged() != 0 {
		t.Error("a removed user is flagged")
	}
	r.sent(ann, "new@example.net")
}

// An old account that is added is not a newcomer, also after what is stored of it was damaged; others are.
func TestOldAccountsAreNoNewcomers(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.KnownOnly, Threshold: reach.Threshold{Share: 2}, Floor: 5})
	add := func(name string, old bool) {
		r.must(r.ChangeUser(t.Context(), r.now(), "op", name, func(u *store.User, _ bool) error {
			if old {
				u.Made = time.Time{}
			}
			return nil
		}))
		if u, err := r.User(t.Context(), name); err != nil || !u.Made.Equal(r.now()) {
			t.Errorf("%+v, %v", u, err)
		}
	}
	refuses := func(name string, want bool) {
		t.Helper()
		if _, err := r.send(name, recipients(name, 6)...); errors.Is(err, ErrNewRecipient) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	add("old", true)
	add("new", false)
	refuses("old", true)
	refuses("new", false)
	refuses("unknown", false)
	add("later", false)
	r.pass(15 * 24 * time.Hour)
	refuses("later", true)
	r.must(r.store.Mail().Update(t.Context(), func(tx store.MailTx) error {
		return tx.PutSketch(store.Sketch{Throttle: "contacts", User: "later", State: []byte{sketchVersion}})
	}))
	refuses("later", true)
}

// What is learnt of all users outlives a restart.
func TestPopulationIsKept(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.Flag})
	for hour := range 5 {
		r.sent(ann, recipients(fmt.Sprint("h", hour, "-"), 2)...)
		r.pass(time.Hour)
	}
	before := len(r.gate.Reach.Population.Cohorts(r.gate.Reach.Rules, r.now()))
	if before == 0 {
		t.Fatal("nothing was learnt")
	}
	r.must(r.Stop(t.Context()))
	r.must(r.store.Close())
	r.gate.Reach.Population = new(reach.Population)
	r.open()
	if after := len(r.gate.Reach.Population.Cohorts(r.gate.Reach.Rules, r.now())); after != before {
		t.Errorf("%d cohorts after a restart, %d before", after, before)
	}
}

// Two spellings of one person are one, and a person is not new for being written to twice in a mail.
func TestReachKnowsPeopleByTheirAddress(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.KnownOnly})
	r.sent(ann, "Bob@Example.NET", "bob@example.net", "j.doe+shop@gmail.com", "jdoe@googlemail.com")
	r.sent(ann, recipients("a", 3)...)
	if _, err := r.send(ann, "new@example.net"); !errors.Is(err, ErrNewRecipient) {
		t.Fatalf("the sixth person: %v", err)
	}
	r.sent(ann, "JDoe@gmail.com")
}

// What is withheld of a user is bounded, in recipients and in bytes; there is room again when somebody has looked at
// it.
func TestWithheldIsBounded(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.HoldNew, Withheld: 3})
	r.sent(ann, recipients("a", 5)...)
	if got := r.sent(ann, recipients("n", 3)...); got.Withheld != 3 {
		t.Fatalf("%+v", got)
	}
	if _, err := r.send(ann, "more@example.net"); !errors.Is(err, ErrWithheld) || r.seen.bound(BoundWithheld) != 1 {
		t.Errorf("one more: %v", err)
	}
	r.sent(ann, "a1@example.net")
	if n, err := r.Delete(t.Context(), r.now(), "root", ann, Selection{All: true}); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if got := r.sent(ann, "more@example.net"); got.Withheld != 1 {
		t.Errorf("%+v", got)
	}
	if n, err := r.Release(t.Context(), r.now(), "root", ann, Selection{All: true}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if got := r.sent(ann, "more@example.net"); got.Withheld != 0 || got.Passed != 1 {
		t.Errorf("who was let go is not known: %+v", got)
	}

	r = reachRig(t, reach.Options{Over: reach.HoldNew, WithheldSize: 60})
	r.sent(ann, recipients("a", 5)...)
	r.sent(ann, "n1@example.net") // 26 bytes each
	r.sent(ann, "n2@example.net")
	if _, err := r.send(ann, "n3@example.net"); !errors.Is(err, ErrWithheld) {
		t.Errorf("more bytes than may be: %v", err)
	}
}

// What a gate has withheld is released also when the gate has no such throttle any more.
func TestWithheldOutlivesItsThrottle(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.HoldNew})
	r.sent(ann, recipients("a", 5)...)
	if got := r.sent(ann, "new@example.net"); got.Withheld != 1 {
		t.Fatalf("%+v", got)
	}
	r.gate.Reach = nil
	r.must(r.Configure([]Gate{r.gate}))
	if n, err := r.Release(t.Context(), r.now(), "root", ann, Selection{All: true}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	r.idle()
	r.wantDelivered(6)
}

// Who is flagged again and again is told of once in a while, and so is the admin; also where another server keeps the
// mail.
func TestFlagsAreToldOnceInAWhile(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.Block})
	for hour := range 40 {
		for i := range 6 {
			_, _ = r.send(ann, fmt.Sprintf("h%d-%d@example.net", hour, i))
		}
		r.pass(3 * time.Hour)
	}
	if flags, told := len(r.audit("flagged")), len(r.carrier.to(admin)); flags < 20 || told < 4 || told > 6 {
		t.Errorf("flagged %d times within five days, the admin was told %d times", flags, told)
	}
	r = reachRig(t, reach.Options{Over: reach.Flag})
	if _, err := r.Decide(t.Context(), r.now(), gateName, ann, "ann@example.org", recipients("a", 8), true,
		true); err != nil {
		t.Fatal(err)
	}
	r.run()
	if told := len(r.carrier.to(admin)); told != 1 {
		t.Errorf("the admin was told %d times of a flag by the policy service", told)
	}
}

// A message that makes both throttles act stops the user, who gets one notice. That they are flagged is told with the
// next message that is withheld.
func TestFlaggedAndStoppedAtOnce(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.HoldNew}, func(r *rig) {
		r.gate.Mail.MaxSlack, r.gate.Mail.MaxMSlack, r.gate.Mail.Stop = new(1), new(1), new(2)
	})
	_, err := r.send(ann, recipients("a", 8)...)
	r.must(err)
	r.run()
	subjects := func() (all []string) {
		for _, m := range r.carrier.to(contact) {
			subject, _, _ := strings.Cut(m.text[strings.Index(m.text, "Subject: ")+9:], ":")
			all = append(all, subject)
		}
		return all
	}
	if got := subjects(); len(got) != 1 || got[0] != "Your mail is on hold" {
		t.Errorf("told: %q", got)
	}
	if n := len(r.carrier.to(admin)); n != 2 {
		t.Errorf("the admin was told %d times, want of the stop and of the flag", n)
	}
	r.must(r.ResumeUser(t.Context(), r.now(), "root", ann, false))
	_, err = r.send(ann, "new@example.net")
	r.must(err)
	r.run()
	if got := subjects(); len(got) != 2 || got[1] != "Your mail goes to many new people" {
		t.Errorf("told after the flag withheld more: %q", got)
	}
}

// Whoever releases what a flag has withheld is told that the flag goes on, by mail and by what the page is given.
func TestReleaseSaysThatTheFlagHolds(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.HoldNew})
	_, err := r.send(ann, recipients("a", 8)...)
	r.must(err)
	r.run()
	const text = "New mail to people the account never wrote to before may still be held or refused."
	forMail, forPage := r.tickets()
	r.must(r.Command(t.Context(), r.now(), gateName, forMail, reply("release 1")))
	r.run()
	if got := strings.Join(strings.Fields(r.answer()), " "); !strings.Contains(got, text) {
		t.Errorf("told: %s", got)
	}
	_, err = r.send(ann, "new@example.net")
	r.must(err)
	done, err := r.Act(t.Context(), r.now(), forPage, "first", Action{ReleaseAll: true})
	if r.must(err); !done.Flagged || done.Released != 1 {
		t.Errorf("done %+v", done)
	}
	r.must(r.ClearReach(t.Context(), r.now(), "root", "contacts", ann))
	if done, err = r.Act(t.Context(), r.now(), forPage, "second", Action{ReleaseAll: true}); err != nil || done.Flagged {
		t.Errorf("done %+v, %v", done, err)
	}
}

// An operator's flag stays through a time in shadow.
func TestOperatorsFlagOutlivesShadow(t *testing.T) {
	r := reachRig(t, reach.Options{Over: reach.Block})
	r.must(r.FlagReach(t.Context(), r.now(), "root", "contacts", ann))
	r.shadow = true
	r.sent(ann, "a@example.net")
	r.shadow = false
	if _, err := r.send(ann, "a@example.net"); !errors.Is(err, ErrFlagged) {
		t.Errorf("after the shadow: %v", err)
	}
}
