package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/store"
)

// TestOperatorsAndFlags: operators see who is flagged and why, flag and clear, over the control socket.
func TestOperatorsAndFlags(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, reachOf("known-only")+"\n  texts: {reach: {}}")
	ctx := context.Background()
	p.user("ann")
	p.user("bob")
	if list, err := console.ReachListCall.Ask(ctx, p.control,
		console.ReachList{Limit: 0}); err != nil || len(list.Users) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err := console.ReachShowCall.Ask(ctx, p.control, console.ReachName{Name: "ann"})
	says(t, err, `nothing is known of "ann": they have written to nobody`)

	ann := p.mailer("ann")
	ann.flag()
	if err := ann.send("one too many", "new@elsewhere.example"); code(err) != 550 {
		t.Fatal(err)
	}
	list, err := console.ReachListCall.Ask(ctx, p.control, console.ReachList{Limit: 0})
	if err != nil || len(list.Users) != 1 || list.More {
		t.Fatalf("%+v, %v", list, err)
	}
	v := list.Users[0]
	if v.User != "ann" || v.Throttle != "contacts" || !v.Flagged || !v.Since.Equal(p.clock.Now()) ||
		!strings.Contains(v.Why, "6 new recipients within an hour") ||
		v.Holds != "recipients who are new to the user are refused" {
		t.Errorf("%+v", v)
	}
	u, err := console.ReachShowCall.Ask(ctx, p.control, console.ReachName{Name: "Ann"}) // as she may log in
	if err != nil || len(u.Throttles) != 1 {
		t.Fatalf("%+v, %v", u, err)
	}
	if v := u.Throttles[0]; v.User != "ann" || v.Recipients != 5 || v.First.IsZero() || v.Bytes == 0 ||
		len(v.Windows) != 1 ||
		v.Windows[0] != (console.ReachWindow{Window: "hour", New: 6, Limit: 5}) {
		t.Errorf("%+v", v)
	}
	if n := p.status().Flagged; n != 1 {
		t.Errorf("%d are flagged", n)
	}

	// What cannot be is said.
	for _, c := range []struct {
		do             *console.CallOf[console.ReachOrder, console.ReachView]
		user, throttle string
		want           string
	}{
		{console.ReachClearCall, "ann", "", "which throttle? One of contacts, texts"},
		{console.ReachClearCall, "ann", "outgoing", `there is no reach throttle "outgoing"; one of contacts, texts`},
		{console.ReachClearCall, "ann", "texts", `nothing is known of "ann"`},
		{console.ReachClearCall, "nobody", "contacts", `nothing is known of "nobody"`},
		{console.ReachFlagCall, "nobody", "contacts", `nothing is known of "nobody": there is no such user`},
		{console.ReachFlagCall, "bob", "", "which throttle?"},
	} {
		_, err := c.do.Ask(ctx, p.control, console.ReachOrder{User: c.user, Throttle: c.throttle})
		says(t, err, c.want)
	}
	_, err = console.ReachShowCall.Ask(ctx, p.control, console.ReachName{Name: "ann", Throttle: "contact"})
	says(t, err, `there is no reach throttle "contact"`)

	// Cleared, the user begins anew; known recipients stay known.
	if v, err := console.ReachClearCall.Ask(ctx, p.control, console.ReachOrder{User: "ann",
		Throttle: "contacts"}); err != nil || v.Flagged || v.Recipients != 5 ||
		v.Windows[0].New != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	_, err = console.ReachClearCall.Ask(ctx, p.control, console.ReachOrder{User: "ann", Throttle: "contacts"})
	says(t, err, "ann is not flagged by contacts")
	if n := p.status().Flagged; n != 0 {
		t.Errorf("%d are flagged", n)
	}
	if err := ann.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := ann.send("again", "new@elsewhere.example"); err != nil {
		t.Errorf("cleared: %v", err)
	}

	// Flagged by hand, bob stays so until cleared, and is refused at once.
	if v, err := console.ReachFlagCall.Ask(ctx, p.control, console.ReachOrder{User: "BOB",
		Throttle: "contacts"}); err != nil || v.User != "bob" || !v.Flagged ||
		v.Why != "an operator flagged the user" || v.Holds == "" {
		t.Errorf("%+v, %v", v, err)
	}
	if n := p.status().Flagged; n != 1 {
		t.Errorf("%d are flagged", n)
	}
	p.clock.Leap(48 * time.Hour)
	p.runs(0)
	bob := p.mailer("bob")
	if err := bob.Mail("bob@example.org", nil); err != nil {
		t.Fatal(err)
	}
	if err := bob.Rcpt("new@elsewhere.example", nil); code(err) != 550 {
		t.Errorf("flagged by hand, after two days: %v", err)
	}
	if list, err := console.ReachListCall.Ask(ctx, p.control,
		console.ReachList{Limit: 0}); err != nil || len(list.Users) != 1 || list.Users[0].User != "bob" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := console.ReachClearCall.Ask(ctx, p.control, console.ReachOrder{User: "bob", Throttle: "contacts"}); err != nil {
		t.Error(err)
	}
	if err := bob.Rcpt("new@elsewhere.example", nil); err != nil {
		t.Errorf("cleared: %v", err)
	}
	p.auditHas("flagged", "bob")
	p.auditHas("unflagged", "bob")
}

// says looks for words in an error.
func says(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestFlagsThatCannotBe: a throttle in shadow flags nobody, and tells who would be flagged; nor is anybody flagged who
// is exempt; where there is none, that is said.
func TestFlagsThatCannotBe(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, "  contacts: {shadow: true, reach: {threshold: 5, exempt: [news]}}")
	ctx := context.Background()
	p.user("ann")
	p.user("news")
	_, err := console.ReachFlagCall.Ask(ctx, p.control, console.ReachOrder{User: "ann"})
	says(t, err, "contacts is in shadow: nobody is flagged (weir shadow off contacts ends that)")
	_, err = console.ReachFlagCall.Ask(ctx, p.control, console.ReachOrder{User: "news"})
	says(t, err, "news is exempt from contacts")
	if err := p.mailer("ann").send("many", many(20)...); err != nil {
		t.Fatal(err)
	}
	u, err := console.ReachShowCall.Ask(ctx, p.control, console.ReachName{Name: "ann"})
	if err != nil || len(u.Throttles) != 1 || !u.Throttles[0].Flagged || !u.Throttles[0].Shadow ||
		u.Throttles[0].Recipients != 20 {
		t.Errorf("%+v, %v", u, err)
	}
	p.arrived(20, many(20))
	if list, err := console.ReachListCall.Ask(ctx, p.control,
		console.ReachList{Limit: 0}); err != nil || len(list.Users) != 1 || !list.Users[0].Shadow ||
		p.status().Flagged != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if v, err := console.ReachClearCall.Ask(ctx, p.control, console.ReachOrder{User: "ann"}); err != nil || v.Flagged {
		t.Errorf("%+v, %v", v, err)
	}
	p.extra = ""
	if err := p.app.Reload(p.config(lenient, "")); err != nil {
		t.Fatal(err)
	}
	_, err = console.ReachListCall.Ask(ctx, p.control, console.ReachList{Limit: 0})
	says(t, err, "there is no reach throttle (throttles: {NAME: {reach: {}}} makes one)")
}

// TestUsualReach: what was learnt is shown when an hour is over in which somebody wrote.
func TestUsualReach(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, "  contacts: {reach: {}}")
	ctx := context.Background()
	u, err := console.ReachUsualCall.Ask(ctx, p.control, console.ReachThrottle{Throttle: ""})
	if err != nil || u.Throttle != "contacts" || u.Threshold != "dynamic" || len(u.Cohorts) != 0 {
		t.Errorf("%+v, %v", u, err)
	}
	p.user("ann")
	ann := p.mailer("ann")
	for i := range 3 {
		if err := ann.send("hello", crowd(fmt.Sprint("hour", i), 4)...); err != nil {
			t.Fatal(err)
		}
		p.sleeps(time.Hour)
	}
	u, err = console.ReachUsualCall.Ask(ctx, p.control, console.ReachThrottle{Throttle: "contacts"})
	if err != nil || len(u.Cohorts) == 0 || u.Cohorts[0].Window != "hour" || u.Cohorts[0].Samples != 2 ||
		u.Cohorts[0].Limit != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestWithheldMailOnThePage: a user who is flagged finds on her page what is withheld, and lets it go.
func TestWithheldMailOnThePage(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	address := needs.FreeAddress()
	p := newPost(t, lenient, reachGate, reachOf("hold-new")+
		fmt.Sprintf("\nself_service: {listen: %q, url: %q}\n", address, "http://"+address))
	p.user("ann")
	ann := p.mailer("ann")
	ann.flag()
	if err := ann.send("to somebody new", "new-0@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	if err := ann.send("to another", "new-1@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	told := p.sink.to("ann@private.example")
	if len(told) != 1 {
		t.Fatalf("she was told %d times", len(told))
	}
	at := link.FindString(strings.ReplaceAll(told[0].text, "=\r\n", ""))
	if at == "" {
		t.Fatal(told[0].text)
	}
	page := browser.Open(t)
	page.Visit(at)
	text := page.Text("body")
	for _, want := range []string{"to somebody new", "new-1@elsewhere.example", "new recipient",
		"to people your account never wrote to before, and waits for you"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q:\n%s", want, text)
		}
	}
	page.Click(`#mail-0`)
	page.Click(`button[value=release]`)
	page.Wait(`document.querySelector(".said") !== null`)
	p.arrived(1, crowd("new", 2))
	page.Click(`button[value=ask-delete-all]`)
	page.Wait(`document.querySelector("button[value=delete-all]") !== null`)
	page.Click(`button[value=delete-all]`)
	page.Wait(`document.body.innerText.includes("No mail of yours waits.")`)
	if n := p.status().Recipients[store.Withheld]; n != 0 {
		t.Errorf("%d are withheld", n)
	}
	if err := ann.send("now she knows him", "new-0@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	if n := len(p.sink.to("new-0@elsewhere.example")); n != 2 {
		t.Errorf("whom she released has %d mails", n)
	}
}
