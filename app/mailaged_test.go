package app_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/console"
	"weir/store"
)

const aDay = 24 * time.Hour

// TestHeldMailAges: over real SMTP, a user is reminded of held mail, also after a restart, and then it is given up: the
// bounce arrives, with the text, and the people it was for get nothing. Nothing happens twice.
func TestHeldMailAges(t *testing.T) {
	t.Parallel()
	const gate = "held: {remind: 2d, expire: 7d}"
	p := newPost(t, "rate: 1/m", gate, "")
	p.user("ann", "ann@example.org")
	if err := p.mailer("ann").send("to all of you", many(40)...); err != nil {
		t.Fatal(err)
	}
	p.runs(0)
	first := p.sink.to("ann@private.example")
	if len(first) != 1 || !strings.Contains(first[0].text, "What is on hold for 7 days is not sent any more") {
		t.Fatalf("%+v", first)
	}
	reminders := func() (n int) {
		for _, l := range p.sink.to("ann@private.example") {
			if strings.HasPrefix(l.header("Subject"), "Your mail is still on hold") {
				n++
			}
		}
		return n
	}
	days := func(n, want int) {
		t.Helper()
		for range n * 4 {
			p.clock.Leap(aDay / 4) // past the timers
			p.runs(0)
		}
		if got := reminders(); got != want {
			t.Errorf("%d reminders, want %d", got, want)
		}
	}
	days(3, 1)
	p.stop()
	p.start(p.config("rate: 1/m", gate))
	p.runs(0)
	days(0, 1)
	days(1, 2) // two days after the first one
	if s := p.status(); s.Recipients[store.Held] != 25 {
		t.Errorf("%+v", s)
	}
	days(4, 2)
	bounces := 0
	for _, l := range p.sink.to("ann@example.org") {
		if strings.Contains(l.text, "held for 7 days, and nobody released it") && strings.Contains(l.text, "to all of you") &&
			l.from == "" {
			bounces++
		}
	}
	if s := p.status(); s.Recipients[store.Held] != 0 || bounces != 1 {
		t.Errorf("%d bounces, %+v", bounces, s)
	}
	var audit []string
	page, err := console.AuditListCall.Ask(context.Background(), p.control, console.AuditQuery{User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		audit = append(audit, e.What)
	}
	if all := strings.Join(audit, " "); !strings.HasPrefix(all, "expired reminded reminded stopped") {
		t.Error(all)
	}
	answer, err := http.Get("http://" + p.app.ConsoleAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	metrics := string(body)
	for _, want := range []string{`weir_mail_expired_total{gate="127.0.0.1:0"} 25`,
		`weir_mail_reminders_total{gate="127.0.0.1:0"} 1`} { // the other one was before the restart
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// TestHeldMailAgesAfterReload: a reload takes another age at once, or never.
func TestHeldMailAgesAfterReload(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	p.user("ann", "ann@example.org")
	if err := p.mailer("ann").send("to all of you", many(40)...); err != nil {
		t.Fatal(err)
	}
	p.clock.Leap(60 * aDay)
	p.runs(0)
	if s := p.status(); s.Recipients[store.Held] != 25 { // by default it is kept
		t.Fatalf("%+v", s)
	}
	if err := p.app.Reload(p.config("rate: 1/m", "held: {remind: 0s, expire: 90d}")); err != nil {
		t.Fatal(err)
	}
	p.clock.Leap(aDay)
	p.runs(0)
	if s := p.status(); s.Recipients[store.Held] != 25 {
		t.Fatalf("%+v", s)
	}
	if err := p.app.Reload(p.config("rate: 1/m", "held: {expire: 30d}")); err != nil {
		t.Fatal(err)
	}
	p.clock.Leap(time.Hour)
	p.runs(0)
	if s := p.status(); s.Recipients[store.Held] != 0 {
		t.Errorf("%+v", s)
	}
}
