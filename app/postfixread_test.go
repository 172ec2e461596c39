package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gosmtp "net/smtp"

	"weir/console"
	"weir/identify"
	"weir/internal/testkit/keeper"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/postfix"
)

// flat is the text of a notice as people read it.
func flat(m *postfix.Mail) string { return strings.Join(strings.Fields(string(m.Text)), " ") }

// TestReadBesidePostfix: what people read where weir keeps no messages: the answers to their programs, the notices to
// them and to the admin, and the page, from the first message that is too much until they send again.
func TestReadBesidePostfix(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	const tooMany = " <DATA>: Data command rejected: You write to more new recipients than you may for now"
	for over, c := range map[string]struct{ answer, says, admin string }{
		"hold": {"", "What was too much is in the hold queue of the mail server. Those who run it can release it or " +
			"delete it.", "postqueue -p"},
		"defer": {"4.7.1" + tooMany, "What was too much was not taken. Your mail program, or the server that sent it " +
			"for you, may try again later.", "was not taken by the mail server; clients may try again"},
		"reject": {"5.7.1" + tooMany, "What was too much was refused: your mail program has told you what.",
			"was refused by the mail server"},
	} {
		t.Run(over, func(t *testing.T) {
			asks, back, page := needs.FreeAddress(), needs.FreeAddress(), needs.FreeAddress()
			p, mta, world := besidePostfixAs(t, nil, asks, back, fmt.Sprintf(`
data: %s
console: {listen: "off"}
postfix:
- {listen: %q, realm: example.org, over: %s, throttles: [outgoing], next_hop: %q, admin: admin@example.org,
   command: weir@mail.example.org}
throttles:
  outgoing: {mail: {rate: 1/m, stop: 3}}
self_service: {listen: %q, url: "http://%s"}
`, t.TempDir(), asks, over, back, page, page))
			if _, err := console.UserAddCall.Ask(t.Context(), p.control,
				console.NewUser{Name: "ann", Contact: "ann@home.example"}); err != nil {
				t.Fatal(err)
			}
			b := &beside{post: p, submission: mta.Addr, world: world, log: mta.Log}
			answered := func(err error, want string) {
				t.Helper()
				if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("answered %v, want %q", err, want)
				}
			}
			answered(b.send("ann", "new0@example.net"), "")
			for i := range 4 {
				answered(b.send("ann", fmt.Sprintf("new%d@example.net", i+1)), c.answer)
			}
			answered(b.send("ann", "new9@example.net"),
				"5.7.1 <new9@example.net>: Recipient address rejected: sending is stopped for this account")
			if over == "hold" && !keeper.Await(func() bool { return mta.Queued("hold") == 4 }) {
				t.Errorf("Postfix holds %d", mta.Queued("hold"))
			}
			told := map[string]string{}
			for _, m := range world.Await(3) {
				told[m.To[0]] = flat(&m)
			}
			notice, admin := told["ann@home.example"], told["admin@example.org"]
			for _, want := range []string{"Subject: Your account was stopped", c.says,
				"If you did write them, let your account send again."} {
				if !strings.Contains(notice, want) {
					t.Errorf("the notice lacks %q:\n%s", want, notice)
				}
			}
			if strings.Contains(notice, "release") && over != "hold" || strings.Contains(notice, "By mail, once") {
				t.Errorf("the notice offers what does not work:\n%s", notice)
			}
			if !strings.Contains(admin, c.admin) ||
				!strings.Contains(admin, "change it where your mail server has it") ||
				strings.Contains(admin, "weir queue delete") {
				t.Errorf("the admin reads\n%s", admin)
			}
			v := newPageUser(t, "http://"+page)
			at := strings.TrimPrefix(link.FindString(notice), v.site)
			_, body := v.page(at)
			if !strings.Contains(body, c.says) || !strings.Contains(body, "First have your password changed.") ||
				strings.Contains(body, "below") || strings.Contains(body, "stays held") {
				t.Errorf("the page says\n%s", body)
			}
			if code, _ := v.post(at, body, "do", "resume"); code != 303 {
				t.Errorf("to send again: %d", code)
			}
			answered(b.send("ann", "new0@example.net"), "")
		})
	}
}

// TestNoMarkInBounces: what Postfix itself returns to a sender does not say who sent it, in the whole message or in its
// header alone, with the three lines of docs/postfix.md. Without them it does.
func TestNoMarkInBounces(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	asks, diverts, back := needs.FreeAddress(), needs.FreeAddress(), needs.FreeAddress()
	host, port, _ := strings.Cut(diverts, ":")
	// A message that is too large for weir's gate is one that Postfix returns.
	_, mta, world := besidePostfixAs(t, map[string]string{"bounce_size_limit": "20000"}, asks, back, fmt.Sprintf(`
data: %s
console: {listen: "off"}
postfix:
- {listen: %q, realm: example.org, filter: "weir:[%s]:%s", throttles: [outgoing], next_hop: %q,
   admin: admin@example.org}
smtp:
- {listen: %q, networks: [127.0.0.0/8], auth: none, marks: true, next_hop: %q, throttles: [outgoing],
   admin: admin@example.org, hostname: mail.example.org, bounds: {message: 10KB}}
throttles:
  outgoing: {mail: {rate: 1/m}}
`, t.TempDir(), asks, host, port, back, diverts, back))
	if err := submit(mta.Addr, "ann", "new0@example.net"); err != nil {
		t.Fatal(err)
	}
	arrived := len(world.Await(1))
	returned := func(lines int) string {
		t.Helper()
		text := "From: ann@example.org\r\nSubject: large\r\n\r\n" +
			strings.Repeat(strings.Repeat("x", 70)+"\r\n", lines)
		if err := gosmtp.SendMail(mta.Addr, gosmtp.PlainAuth("", "ann", "secret", "127.0.0.1"), "ann@example.org",
			[]string{fmt.Sprintf("new%d@example.net", arrived)}, []byte(text)); err != nil {
			t.Fatal(err)
		}
		arrived++
		m := world.Await(arrived)[arrived-1]
		if m.From != "" || m.To[0] != "ann@example.org" || !strings.Contains(string(m.Text), "Subject: large") {
			t.Fatalf("what comes back is from %q to %v:\n%s", m.From, m.To, m.Text)
		}
		return string(m.Text)
	}
	const whole, tooLong = 200, 400 // lines
	for _, lines := range []int{whole, tooLong} {
		if !strings.Contains(returned(lines), identify.MarkHeader) {
			t.Errorf("%d lines: there is no mark to take out", lines)
		}
	}
	mark := filepath.Join(mta.Config, "weir_mark")
	if err := os.WriteFile(mark, []byte("/^"+identify.MarkHeader+":/ IGNORE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"postconf", "-e", "internal_mail_filter_classes=bounce",
		"nested_header_checks=regexp:" + mark, "body_checks=regexp:" + mark}, {"postfix", "reload"}} {
		if _, err := mta.Command(args[0], args[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	for _, lines := range []int{whole, tooLong} {
		if text := returned(lines); strings.Contains(text, identify.MarkHeader) {
			t.Errorf("%d lines: the mark is in the bounce:\n%.3000s", lines, text)
		}
	}
}
