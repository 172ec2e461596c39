package app_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/mail"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/store"
	"weir/throttle/stamp"
	"weir/throttle/stamp/payer"
)

// stopped sends three mails of ann's own and then enough to have her stopped, and returns the notice.
func (p *post) stopped() (own []string, notice message) {
	p.t.Helper()
	p.user("ann")
	m := p.mailer("ann")
	own = []string{"mother@elsewhere.example", "father@elsewhere.example", "aunt@elsewhere.example"}
	for i, to := range own {
		if err := m.send(fmt.Sprintf("sunday %d", i+1), to); err != nil {
			p.t.Fatal(err)
		}
	}
	for i := 0; ; i++ {
		err := m.send("cheap watches", fmt.Sprintf("victim%d@elsewhere.example", i))
		if code(err) == 550 {
			break
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	p.runs(0)
	notices := p.sink.to("ann@private.example")
	if len(notices) != 2 || len(p.sink.to("admin@example.org")) != 1 { // the first told her that mail is delayed
		p.t.Fatalf("%d notices to her, %d to the admin", len(notices), len(p.sink.to("admin@example.org")))
	}
	return own, notices[1]
}

// replied writes a reply to a notice, as a mail program would.
func replied(notice message, lines ...string) string {
	text := strings.Join(lines, "\r\n") + "\r\n\r\nOn Monday, weir wrote:\r\n"
	for line := range strings.Lines(notice.text) {
		text += "> " + strings.TrimRight(line, "\r\n") + "\r\n"
	}
	return fmt.Sprintf("From: ann@private.example\r\nTo: %s\r\nSubject: Re: %s\r\nMIME-Version: 1.0\r\nContent-Type: "+
		"text/plain; charset=utf-8\r\n"+
		"Content-Transfer-Encoding: 8bit\r\n\r\n%s", notice.header("Reply-To"), notice.header("Subject"), text)
}

// replyTo is where a notice wants its answer.
func replyTo(t *testing.T, notice message) string {
	t.Helper()
	a, err := mail.ParseAddress(notice.header("Reply-To"))
	if err != nil {
		t.Fatal(err, notice.text)
	}
	return a.Address
}

func TestAStoppedUserReplies(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	own, notice := p.stopped()
	if notice.from != "" || notice.header("Auto-Submitted") != "auto-generated" ||
		!strings.Contains(notice.text, "sunday 2") {
		t.Fatalf("from %q:\n%s", notice.from, notice.text)
	}
	to := replyTo(t, notice)
	// She answers from another server, which hands her mail in without logging in: weir takes that for its own address,
	// and for no other.
	outside := p.mailer("")
	outside.from = "ann@private.example"
	if err := outside.send("relay this", "somebody@elsewhere.example"); code(err) < 500 {
		t.Fatalf("an open relay: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(outside.Reset())
	forged := to[:5] + flip(to[5]) + to[6:]
	if err := outside.sendText(replied(notice, "release all"), forged); code(err) != 550 {
		t.Errorf("a forged reply: %v", err)
	}
	must(outside.sendText(replied(notice, "thank you for telling me"), to)) // says nothing to do: spends nothing
	must(outside.sendText("Auto-Submitted: auto-replied\r\n"+replied(notice, "release all"), to))
	p.arrived(1, own)
	if p.status().Recipients[store.Held] != 23-2 {
		t.Fatalf("%+v", p.status())
	}
	must(outside.sendText(replied(notice, "Resume, release 1-2"), to))
	p.arrived(3, own)
	p.sleeps(24 * time.Hour)
	if s := p.status(); s.Stopped != 0 || s.Recipients[store.Held] != 23-2-2 {
		t.Errorf("what nobody has released does not stay held: %+v", s)
	}
	must(outside.sendText(replied(notice, "release all"), to)) // a second time
	p.runs(0)
	if n := p.sink.reached(); n != 3 {
		t.Errorf("the second reply did something: %d have mail", n)
	}
	answers := p.sink.to("ann@private.example")[2:]
	if len(answers) < 2 || answers[1].header("Auto-Submitted") != "auto-replied" {
		t.Errorf("%d answers", len(answers))
	}
	if err := p.mailer("ann").send("I am back", "mother@elsewhere.example"); err != nil {
		t.Error(err)
	}
}

// TestAUserReadsGerman: notices and answers are in the language of the configuration or of the user, commands in German
// are carried out, and the user chooses another language on the page. The admin reads English.
func TestAUserReadsGerman(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	address := needs.FreeAddress()
	p := newPost(t, "rate: 1/m", "", fmt.Sprintf("self_service: {listen: %q, url: %q, language: de}\n", address,
		"http://"+address))
	own, notice := p.stopped()
	text := strings.ReplaceAll(notice.text, "=\r\n", "")
	if notice.header("Content-Language") != "de" || !strings.Contains(text, "Auf der Webseite, bis ") ||
		!strings.Contains(text, "freigeben 1 3") {
		t.Fatal(notice.text)
	}
	if admin := p.sink.to("admin@example.org")[0].text; !strings.Contains(admin, "The account") ||
		strings.Contains(admin, "Content-Language") {
		t.Error(admin)
	}
	outside := p.mailer("")
	outside.from = "ann@private.example"
	if err := outside.sendText(replied(notice, "Freigeben 1-2", "Fortsetzen"), replyTo(t, notice)); err != nil {
		t.Fatal(err)
	}
	p.arrived(3, own)
	p.runs(0)
	answers := p.sink.to("ann@private.example")[2:]
	if len(answers) != 1 || !strings.Contains(answers[0].text, "E-Mails f=C3=BCr 2 Empf=C3=A4nger wurden freigegeben.") ||
		p.status().Stopped != 0 {
		t.Fatalf("%d answers, %+v: %v", len(answers), p.status(), answers)
	}

	page := browser.Open(t)
	page.Speaks("fr") // which weir does not
	at := link.FindString(text)
	page.Visit(at)
	if got := page.Text("h1"); got != "Ihre zurückgehaltenen E-Mails" {
		t.Error(got)
	}
	browser.Eval[bool](page, `document.getElementById("language").value = "en", true`)
	page.Click(`button[value=language]`)
	page.Wait(`document.title === "The language is changed."`)
	u, err := console.UserShowCall.Ask(context.Background(), p.control, console.Name{Name: "ann"})
	if err != nil || u.Language != "en" {
		t.Errorf("%+v %v", u, err)
	}
	german, unknown := "de", "xx"
	if _, err := console.UserSetCall.Ask(context.Background(), p.control, console.UserChange{Name: "ann",
		Language: &unknown}); err == nil ||
		!strings.Contains(err.Error(), `language: weir does not speak "xx"`) {
		t.Error(err)
	}
	if u, err := console.UserSetCall.Ask(context.Background(), p.control, console.UserChange{Name: "ann",
		Language: &german}); err != nil ||
		u.Language != "de" {
		t.Errorf("%+v %v", u, err)
	}
}

// flip returns another letter of the alphabet of tickets.
func flip(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

func TestAnOldReply(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "", "")
	own, notice := p.stopped()
	p.clock.Leap(8 * 24 * time.Hour)
	if err := p.mailer("ann").sendText(replied(notice, "release all", "resume"), replyTo(t, notice)); err != nil {
		t.Fatal(err)
	}
	p.arrived(1, own)
	if p.status().Stopped != 1 {
		t.Error("an old reply did something")
	}
}

var link = regexp.MustCompile(`http://127\.0\.0\.1:\d+/t/[a-z0-9]+`)

func TestAStoppedUserOnThePage(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	address := needs.FreeAddress()
	p := newPost(t, "rate: 1/m", "", fmt.Sprintf("self_service: {listen: %q, url: %q}\n", address, "http://"+address))
	own, notice := p.stopped()
	at := link.FindString(strings.ReplaceAll(notice.text, "=\r\n", ""))
	if at == "" {
		t.Fatal(notice.text)
	}
	page := browser.Open(t)
	page.Visit(at)
	text := page.Text("body")
	for _, want := range []string{"ann", "sunday 2", "cheap watches", "victim5@elsewhere.example"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q:\n%s", want, text)
		}
	}
	form := browser.Eval[string](page,
		`new URLSearchParams([...new FormData(document.querySelector("form:has(table)")), ["do", "release-all"]]).toString()`)
	page.Click(`#mail-0`) // her own
	page.Click(`button[value=release]`)
	page.Wait(`document.querySelector(".said") !== null`)
	p.arrived(2, own)
	again, err := http.Post(at, "application/x-www-form-urlencoded", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	again.Body.Close()
	p.runs(0)
	if n := p.sink.reached(); n != 2 { // the one that passed at once, and the one released
		t.Errorf("a form that was sent before did something: %d have mail", n)
	}
	page.Click(`button[value=resume]`)
	page.Wait(`document.querySelector("#stopped") === null`)
	p.sleeps(24 * time.Hour)
	if s := p.status(); s.Stopped != 0 || s.Recipients[store.Held] != 23-2-1 || p.sink.reached() != 2 ||
		!strings.Contains(page.Text(".said"), "Mail to 20 recipients is still held") {
		t.Errorf("she is still stopped, or what she has not released is not held: %+v, %q", s, page.Text(".said"))
	}
	page.Tolerate("403")
	if status, _ := page.Visit(at[:len(at)-3] + "aaa"); status != 403 || strings.Contains(page.Text("body"), "sunday") {
		t.Errorf("a forged link: %d\n%s", status, page.Text("body"))
	}
}

// TestStampedMail pays for every recipient: such mail goes around the delay queue.
func TestStampedMail(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "stamps: {work: 8 bits}", "")
	p.user("ann")
	m := p.mailer("ann")
	if err := m.send("spends the slack", "first@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	params := p.stampParams()
	to := many(10)
	for i, one := range to {
		letter,
			err := payer.ReadMail(strings.NewReader(fmt.Sprintf("From: ann@example.org\r\nTo: %s\r\nSubject: "+
			"paid\r\n\r\nhello %d\r\n", one, i)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := letter.Stamp(context.Background(), p.clock.Now(), params, nil, payer.Options{}); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if _, err := letter.WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		if err := m.sendText(text.String(), one); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		// the same stamp, for somebody else
		if err := m.sendText(text.String(), "another@elsewhere.example"); err != nil {
			t.Fatal(err)
		}
	}
	p.arrived(10, to)
	p.arrived(0, []string{"another@elsewhere.example"})
	for _, l := range p.sink.to("") {
		if strings.Contains(l.text, stamp.MailHeader) {
			t.Errorf("the stamp went on:\n%s", l.text)
		}
	}
}

// TestForgedStamps puts a user on the block list who brings stamps that were never solved, in messages of their own.
func TestForgedStamps(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "stamps: {work: 16 bits}", "")
	p.user("ann")
	p.user("bob")
	m := p.mailer("ann")
	letter,
		err := payer.ReadMail(strings.NewReader("From: ann@example.org\r\nTo: a@elsewhere.example\r\nSubject: " +
		"paid\r\n\r\nhello\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := letter.Stamp(context.Background(), p.clock.Now(), p.stampParams(), nil, payer.Options{}); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := letter.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	// Her stamp with another solution: as many zeroes as it takes.
	stamped := regexp.MustCompile(`(X-Weir-Stamp:(?s:.*?))\.(?s:.*?)\r\nFrom`).ReplaceAllStringFunc(text.String(),
		func(field string) string {
			head, tail, _ := strings.Cut(field, ".")
			return head + "." + regexp.MustCompile(`[A-Za-z0-9_-]`).ReplaceAllString(strings.TrimSuffix(tail,
				"\r\nFrom"), "A") + "\r\nFrom"
		})
	// In a message that she passes on, somebody else may have put it there.
	if err := m.sendText("Received: from a by b; Mon, 2 Mar 2026 12:00:00 +0000\r\n"+stamped,
		"a@elsewhere.example"); code(err) != 550 {
		t.Fatalf("passed on: %v", err)
	}
	if err := m.send("without", "b@elsewhere.example"); err != nil {
		t.Fatalf("she is banned for what somebody else wrote: %v", err)
	}
	if err := m.sendText(stamped, "a@elsewhere.example"); code(err) != 550 {
		t.Fatalf("%v\n%s", err, stamped)
	}
	if err := m.send("without", "b@elsewhere.example"); code(err) != 550 {
		t.Errorf("she is not on the block list: %v", err)
	}
	if err := p.mailer("bob").send("hello", "b@elsewhere.example"); err != nil {
		t.Errorf("he has nothing to do with it: %v", err)
	}
	page, err := console.BansCall.Ask(context.Background(), p.control, console.BanQuery{})
	if err != nil || len(page.Bans) != 1 || !strings.Contains(page.Bans[0].Who, "mail:ann") {
		t.Errorf("%+v %v", page, err)
	}
}

// stampParams reads what the gate publishes.
func (p *post) stampParams() stamp.MailParams {
	p.t.Helper()
	for _, line := range p.dialogue("EHLO me\r\nQUIT\r\n") {
		if _, text, found := strings.Cut(line, "X-WEIR-STAMP "); found {
			params, err := stamp.ReadMailParams(strings.NewReader(text))
			if err != nil {
				p.t.Fatal(err)
			}
			return params
		}
	}
	p.t.Fatal("nothing is published")
	return stamp.MailParams{}
}
