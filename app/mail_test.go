package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"weir/console"
	"weir/internal/testkit/needs"
	"weir/store"
)

// TestVirusTable is the table of the source over real SMTP with AUTH: a program that writes to somebody new all the
// time is stopped as soon as the reference model says, whatever the phase of the user's clock. The test of that name in
// throttle/outbreak plays all of it, in every phase.
func TestVirusTable(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m, working_set: 4", "", "")
	for _, c := range []struct {
		perMinute, passed int
		stopped           time.Duration
	}{
		{455, 2, 2900 * time.Millisecond}, {109, 2, 12100 * time.Millisecond}, {60, 2, 22 * time.Second},
		{10, 4, 144 * time.Second}, {5, 7, 324 * time.Second}, {2, 22, 1260 * time.Second},
	} {
		for _, phase := range []time.Duration{0, 29 * time.Second, 59 * time.Second} {
			if !needs.Long() && (c.perMinute != 455 && c.perMinute != 10 || phase != 29*time.Second) {
				continue // a fast one and a slow one tell whether the gate asks the throttle
			}
			t.Run(fmt.Sprintf("%d a minute, %s", c.perMinute, phase), func(t *testing.T) {
				p.t = t
				name := fmt.Sprintf("user%d-%d", c.perMinute, int(phase.Seconds()))
				p.user(name)
				m := p.mailer(name)
				if err := m.send("hello", "friend@elsewhere.example"); err != nil { // starts the clock
					t.Fatal(err)
				}
				p.runs(2*time.Minute + phase) // and the credit is full again
				every := time.Minute / time.Duration(c.perMinute)
				var victims []string
				began, sent := p.clock.Now(), 0
				for ; ; sent++ {
					to := fmt.Sprintf("victim%d-of-%s@elsewhere.example", sent, name)
					if err := m.send("open this", to); code(err) == 550 {
						break
					} else if err != nil {
						t.Fatal(err)
					}
					victims = append(victims, to)
					p.runs(every)
					if sent > 100 {
						t.Fatal("he is not stopped")
					}
				}
				took := p.clock.Now().Sub(began) - every // the one before this stopped the user
				reached := 0
				for _, to := range victims {
					reached += len(p.sink.to(to))
				}
				t.Logf("%d passed, stopped after %s", reached, took)
				if reached > c.passed || took > c.stopped+every {
					t.Errorf("%d passed, stopped after %s; at most %d and %s", reached, took, c.passed, c.stopped+every)
				}
			})
		}
	}
}

func TestOneMailToForty(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	m, other := p.mailer("ann"), p.mailer("ann")
	to := many(40)
	if err := m.send("to all of you", to...); err != nil {
		t.Fatal("the client sees 250 for all:", err)
	}
	p.arrived(15, to)
	if s := p.status(); s.Recipients[store.Held] != 25 || s.Stopped != 1 {
		t.Fatalf("%+v", s)
	}
	for name, m := range map[string]*mailer{"the same session": m, "one that was open": other,
		"a new one": p.mailer("ann")} {
		if err := m.send("more", "somebody@elsewhere.example"); code(err) != 550 {
			t.Errorf("%s: %v", name, err)
		}
		if err := m.Reset(); err != nil {
			t.Error(err)
		}
		if err := m.send("help", "postmaster@mail.example.org"); err != nil {
			t.Errorf("%s: he cannot ask for help: %v", name, err)
		}
	}
	p.sleeps(time.Hour)
	p.arrived(15, to) // a stopped queue does not move
	r, err := console.QueueReleaseCall.Ask(context.Background(), p.control, console.MailOrder{User: "ann", All: true})
	if err != nil || r.Recipients != 25 {
		t.Fatalf("%+v, %v", r, err)
	}
	p.arrived(40, to) // all at once
	if err := m.send("more", "somebody@elsewhere.example"); code(err) != 550 {
		t.Errorf("released is not resumed: %v", err)
	}
	if err := m.Reset(); err != nil {
		t.Error(err)
	}
	if _, err := console.UserResumeCall.Ask(context.Background(), p.control, console.UserResume{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	if err := m.send("more", "somebody@elsewhere.example"); err != nil {
		t.Error(err)
	}
	p.arrived(1, []string{"somebody@elsewhere.example"})
}

// TestPipelinedAfterTheStop sends mails in one go: those after the stop are refused though they were on their way.
func TestPipelinedAfterTheStop(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m, stop: 3", "networks: [127.0.0.0/8]", "")
	var script strings.Builder
	script.WriteString("EHLO virus\r\n")
	for i := range 10 {
		fmt.Fprintf(&script, "MAIL FROM:<a@example.org>\r\nRCPT TO:<v%d@elsewhere.example>\r\nRSET\r\n", i)
		fmt.Fprintf(&script,
			"MAIL FROM:<a@example.org>\r\nRCPT TO:<v%d@elsewhere.example>\r\nBDAT 14 LAST\r\nSubject: x\r\n\r\n", i)
	}
	script.WriteString("QUIT\r\n")
	answers := p.dialogue(script.String())
	queued, refused := 0, 0
	for _, line := range answers {
		if strings.Contains(line, "queued as") {
			queued++
		}
		if strings.HasPrefix(line, "450 4.7.1") {
			refused++
		}
	}
	if queued != 5 || refused == 0 { // one passes, four wait: one more than three
		t.Errorf("%d taken, %d refused:\n%s", queued, refused, strings.Join(answers, "\n"))
	}
}

func TestPeopleDoNotNotice(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m, internal: [example.org], exempt: [news]", "", "")
	p.user("ann")
	p.user("news")
	ann := p.mailer("ann")
	for i := range 30 { // a conversation
		if err := ann.send("re: re:", fmt.Sprintf("friend%d@elsewhere.example", i%3)); err != nil {
			t.Fatal(err)
		}
		p.runs(40 * time.Second)
	}
	var colleagues []string
	for i := range 60 {
		colleagues = append(colleagues, fmt.Sprintf("colleague%d@example.org", i))
	}
	if err := ann.send("cake in the kitchen", colleagues...); err != nil {
		t.Fatal(err)
	}
	readers := many(90)
	if err := p.mailer("news").send("newsletter", readers...); err != nil {
		t.Fatal(err)
	}
	p.arrived(60, colleagues)
	p.arrived(90, readers)
	if s := p.status(); s.Messages != 0 || s.Stopped != 0 {
		t.Errorf("%+v", s)
	}
}

func TestShadowLetsEverythingPass(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	if _, err := console.ShadowCall.Ask(context.Background(), p.control,
		console.Shadow{Throttles: []string{"outgoing"}, On: true}); err != nil {
		t.Fatal(err)
	}
	m := p.mailer("ann")
	to := many(60)
	for _, one := range to {
		if err := m.send("x", one); err != nil {
			t.Fatal(err)
		}
	}
	p.arrived(60, to)
	if s := p.status(); s.Stopped != 0 || s.Messages != 0 {
		t.Errorf("%+v", s)
	}
	status, err := console.StatusCall.Ask(context.Background(), p.control, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(status.Throttles, func(s console.ThrottleStatus) bool { return s.Throttle == "outgoing" })
	if s := status.Throttles[i]; s.Shadowed["wait"] < 20 || s.Shadowed["admit"] == 0 {
		t.Errorf("it does not tell what would have happened: %v", s.Shadowed)
	}
}

// TestRestart stops weir with mail in the delay queue: the next one goes on with it.
func TestRestart(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	m := p.mailer("ann")
	to := many(5)
	for _, one := range to {
		if err := m.send("x", one); err != nil {
			t.Fatal(err)
		}
	}
	p.arrived(1, to)
	p.stop()
	p.start(p.config("rate: 1/m", ""))
	p.arrived(1, to)
	for range 4 {
		p.runs(time.Minute)
	}
	p.arrived(5, to)
}

// TestLogInAtTheNextHop asks the next hop about passwords, and never learns any.
func TestLogInAtTheNextHop(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "auth: next_hop\n  realm: keep", "")
	c, err := smtp.Dial(p.app.Addr("smtp", 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Auth(sasl.NewPlainClient("", "ann", "wrong")); code(err) != 535 {
		t.Errorf("a wrong password: %v", err)
	}
	if err := c.Auth(sasl.NewPlainClient("", "ann", "next hop knows")); err != nil {
		t.Fatal(err)
	}
	if err := c.SendMail("ann@example.org", []string{"b@elsewhere.example"},
		strings.NewReader("Subject: x\r\n\r\nx\r\n")); err != nil {
		t.Fatal(err)
	}
	p.arrived(1, []string{"b@elsewhere.example"})
}

func TestPasswordsCannotBeGuessed(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	codes := map[int]int{}
	for range 30 {
		c, err := smtp.Dial(p.app.Addr("smtp", 0).String())
		if err != nil {
			t.Fatal(err)
		}
		codes[code(c.Auth(sasl.NewPlainClient("", "ann", "guess")))]++
		c.Close()
	}
	if codes[535] < 10 || codes[454] < 5 || codes[535]+codes[454] != 30 {
		t.Errorf("%v", codes)
	}
}

// TestOneUsersPasswordCannotBeGuessed, slowly and from wherever. Who logged in before still does.
func TestOneUsersPasswordCannotBeGuessed(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	p.user("bob")
	p.mailer("ann")
	log := func(name, password string) int {
		c, err := smtp.Dial(p.app.Addr("smtp", 0).String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return code(c.Auth(sasl.NewPlainClient("", name, password)))
	}
	for _, name := range []string{"ann", "bob"} {
		for i := range 24 { // twenty, and one in thirty seconds
			if got := log(name, fmt.Sprint("guess ", i)); got != 535 {
				t.Fatalf("guess %d of %s: %d", i, name, got)
			}
			if p.clock.Advance(6 * time.Second); i == 10 {
				p.mailer("ann")
			}
		}
		if got := log(name, "one more"); got != 454 {
			t.Errorf("one more of %s: %d", name, got)
		}
	}
	if got := log("bob", password); got != 454 {
		t.Errorf("bob, who was not here before: %d", got)
	}
	p.mailer("ann")
	p.clock.Advance(30 * time.Second)
	p.mailer("bob")
}

// TestStopByNetwork: of IPv6 a client is known by its /64, whichever of its addresses somebody writes.
func TestStopByNetwork(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	ctx := context.Background()
	for _, name := range []string{"2001:db8::/64", "2001:db8::17", "2001:DB8::18"} {
		if u, err := console.UserStopCall.Ask(ctx, p.control, console.UserStop{Name: name,
			Why: "a virus"}); err != nil || u.Name != "2001:db8::/64" || !u.Stopped() {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
		if u, err := console.UserResumeCall.Ask(ctx, p.control,
			console.UserResume{Name: name}); err != nil || u.Name != "2001:db8::/64" || u.Stopped() {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	if _, err := console.UserStopCall.Ask(ctx, p.control, console.UserStop{Name: "2001:db8::/32", Why: "a virus"}); err == nil {
		t.Error("somebody who is nobody was stopped")
	}
}

// TestQuotasAtTheMailGate has limits on mails, recipients and bytes for each user.
func TestQuotasAtTheMailGate(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1000/s, max_mslack: 1000", "per_recipient: [recipients]\n  throttles: [mails, outgoing]", `
  mails: {quota: {policies: [{name: mails, limit: 3, period: 1h}, {name: traffic, kind: volume, limit: 10KB, period: 1h}]}}
  recipients: {quota: {policies: [{name: recipients, limit: 6, period: 1h}]}}
`)
	p.user("ann")
	p.user("bob")
	ann, bob := p.mailer("ann"), p.mailer("bob")
	to := many(6)
	for _, pair := range [][]string{to[:2], to[2:4], to[4:5]} {
		if err := ann.send("x", pair...); err != nil {
			t.Fatal(err)
		}
	}
	if err := ann.send("x", to[5]); code(err) != 450 || !strings.Contains(err.Error(), "messages") {
		t.Errorf("a fourth mail: %v", err)
	}
	if err := bob.sendText("Subject: large\r\n\r\n"+strings.Repeat("0123456789\r\n", 1000),
		"c@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	if err := bob.send("x", "d@elsewhere.example"); code(err) != 450 || !strings.Contains(err.Error(), "traffic") {
		t.Errorf("too many bytes: %v", err)
	}
	p.sleeps(time.Hour)
	if err := ann.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := ann.send("x", many(7)...); code(err) != 450 || !strings.Contains(err.Error(), "recipients") {
		t.Errorf("a seventh recipient: %v", err)
	}
	if err := ann.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := ann.send("x", to...); err != nil {
		t.Errorf("what was given back is there again: %v", err)
	}
	p.runs(0)
	if got := len(p.sink.to("")); got != 5+1+6 {
		t.Errorf("%d arrived", got)
	}
}

// TestAChangedPassword ends the sessions of whoever logged in with the old one.
func TestAChangedPassword(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann")
	thief := p.mailer("ann")
	if err := thief.send("x", "a@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	if _, err := console.UserPasswdCall.Ask(context.Background(), p.control, console.UserPassword{Name: "ann",
		Password: "another horse"}); err != nil {
		t.Fatal(err)
	}
	p.runs(10 * time.Second)
	if err := thief.send("x", "a@elsewhere.example"); code(err) != 421 {
		t.Errorf("he goes on: %v", err)
	}
}
