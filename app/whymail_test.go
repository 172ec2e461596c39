package app_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

// why asks about a mail of a user, three times over: asking counts nothing.
func (p *post) why(gate, user string, to ...string) console.Explanation {
	p.t.Helper()
	var e console.Explanation
	for i := range 3 {
		again, err := console.WhyAskCall.Ask(p.t.Context(), p.control, console.Question{Gate: gate, User: user, To: to,
			Source: "192.0.2.1"})
		if err != nil {
			p.t.Fatal(err)
		}
		if i > 0 && again.Text != e.Text {
			p.t.Fatalf("asked again: %s; before: %s", again.Text, e.Text)
		}
		e = again
	}
	return e
}

// foresees compares what weir why says with what is wanted.
func (p *post) foresees(e console.Explanation, verdict weir.Verdict, by string, words ...string) {
	p.t.Helper()
	if e.Verdict != verdict || e.By != by {
		p.t.Errorf("%s by %q: %s; want %s by %q", e.Verdict, e.By, e.Text, verdict, by)
	}
	for _, w := range words {
		if !strings.Contains(e.Text, w) {
			p.t.Errorf("no %q in %s", w, e.Text)
		}
	}
}

// TestWhyKnowsMail: weir why says of a mail what then becomes of it, and counts nothing.
func TestWhyKnowsMail(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m, max_slack: 1, max_mslack: 3, stop: 5, working_set: 5", "throttles: [mails, outgoing]",
		"  mails: {quota: {policies: [{name: hourly, limit: 4, period: 1h}]}}")
	p.user("ann")
	ann := p.mailer("ann")
	e := p.why("", "ann", "one@elsewhere.example")
	p.foresees(e, weir.Admit, "")
	if n := len(e.Steps); n != 3 || e.Steps[1].Throttle != "mails" || e.Steps[2].Throttle != "outgoing" ||
		e.Steps[2].Text != "1 recipient would go on at once" {
		t.Errorf("%+v", e.Steps)
	}
	if r := e.Steps[2].Rules[0]; r.Rule != "slack" || r.Remaining != 1 || r.Limit != 1 {
		t.Errorf("%+v", r)
	}
	if err := ann.send("passes", "one@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.arrived(1, []string{"one@elsewhere.example", "two@elsewhere.example"})

	p.foresees(p.why("", "Ann", "two@elsewhere.example"), weir.Wait, "outgoing",
		"1 of 1 recipient would wait, behind 0; one leaves per 1m")
	p.foresees(p.why("", "ann", "one@elsewhere.example"), weir.Admit, "")
	if err := ann.send("waits", "two@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	p.arrived(1, []string{"one@elsewhere.example", "two@elsewhere.example"})
	p.foresees(p.why("", "ann", "three@elsewhere.example"), weir.Wait, "outgoing", "behind 1")
	p.foresees(p.why("", "bob", "three@elsewhere.example"), weir.Admit, "") // another's credit is untouched

	p.foresees(p.why("", "ann", many(9)...), weir.Wait, "outgoing", "and the user would be stopped")
	if err := ann.send("stops", many(9)...); err != nil {
		t.Fatal(err)
	}
	p.foresees(p.why("", "ann", "four@elsewhere.example"), weir.Refuse, "outgoing", "the user is stopped since 20")
	if err := ann.send("is stopped", "four@elsewhere.example"); code(err)/100 == 2 {
		t.Errorf("a stopped user: %v", err)
	}
	if _, err := console.ShadowCall.Ask(t.Context(), p.control,
		console.Shadow{Throttles: []string{"outgoing"}, On: true}); err != nil {
		t.Fatal(err)
	}
	e = p.why("", "ann", "four@elsewhere.example")
	p.foresees(e, weir.Admit, "")
	if s := e.Steps[2]; !s.Shadow {
		t.Errorf("%+v", s)
	}

	// What is no mail is no question for this gate.
	for want, q := range map[string]console.Question{
		"name a user": {Method: "GET", Path: "/"}, "and a recipient": {User: "ann"},
		"not an IP address": {User: "ann", To: many(1), Source: "nowhere"},
	} {
		var told *console.Error
		if _, err := console.WhyAskCall.Ask(t.Context(), p.control, q); !errors.As(err, &told) || told.Code != 400 ||
			!strings.Contains(told.Msg, want) {
			t.Errorf("%+v: %v, want %s", q, err, want)
		}
	}
}

// TestWhyKnowsReach: weir why says of a mail whether its user is flagged, or would be, and what that means for each
// recipient.
func TestWhyKnowsReach(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, reachGate, reachOf("known-only"))
	p.user("ann")
	ann := p.mailer("ann")
	e := p.why("", "ann", crowd("stranger", 3)...)
	p.foresees(e, weir.Admit, "")
	if s := e.Steps[1]; s.Throttle != "contacts" || s.Text != "3 of 3 recipients new to the user" ||
		s.Rules[0].Rule != "hour" || s.Rules[0].Remaining != 5 {
		t.Errorf("%+v", s)
	}
	p.foresees(p.why("", "ann", crowd("stranger", 9)...), weir.Refuse, "contacts",
		"9 of 9 recipients new to the user; the user would be flagged: 9 new recipients within an hour, the limit is 5")
	ann.flag()
	if err := ann.send("one too many", "new-1@elsewhere.example"); code(err) != 550 {
		t.Fatalf("the sixth: %v", err)
	}
	p.foresees(p.why("", "ann", "new-2@elsewhere.example"), weir.Refuse, "contacts",
		"1 of 1 recipient new to the user; the user is flagged; the mail would not be taken")
	p.foresees(p.why("", "ann", "friend-3@elsewhere.example"), weir.Admit, "")
	if err := ann.send("known", "friend-3@elsewhere.example"); err != nil {
		t.Error(err)
	}
}

// TestWhyKnowsPostfix: the policy service is asked in the same way.
func TestWhyKnowsPostfix(t *testing.T) {
	t.Parallel()
	p := &post{t: t, clock: clock.NewFake(noon)}
	listen := needs.FreeAddress()
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %s
console: {listen: "off"}
postfix:
- {listen: %q, realm: keep, over: hold, throttles: [outgoing, contacts], per_recipient: [recipients], next_hop: "127.0.0.1:25"}
throttles:
  outgoing: {mail: {rate: 1/m, max_mslack: 3, stop: 50}}
  contacts: {reach: {threshold: 20, floor: 20, over: hold-new, windows: [day]}}
  recipients: {quota: {policies: [{name: hourly, limit: 30, period: 1h}]}}
`, t.TempDir(), listen)))
	if err != nil {
		t.Fatal(err)
	}
	p.start(cfg)
	p.foresees(p.why(listen, "ann", many(1)...), weir.Admit, "")
	e := p.why(listen, "ann", many(10)...)
	p.foresees(e, weir.Wait, "outgoing", "7 of 10 recipients would wait")
	if s := e.Steps; len(s) != 4 || s[1].Throttle != "recipients" || s[2].Throttle != "contacts" ||
		s[3].Throttle != "outgoing" {
		t.Errorf("%+v", s)
	}
	p.foresees(p.why(listen, "ann", many(25)...), weir.Wait, "contacts",
		"5 would be withheld until somebody has looked at them")
	p.foresees(p.why(listen, "ann", many(31)...), weir.Refuse, "recipients", "recipients/hourly")
	p.user("ann")
	if _, err := console.UserStopCall.Ask(t.Context(), p.control, console.UserStop{Name: "ann", Why: "test"}); err != nil {
		t.Fatal(err)
	}
	p.foresees(p.why(listen, "ann", many(1)...), weir.Refuse, "outgoing", "the user is stopped since")
}
