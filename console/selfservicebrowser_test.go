package console

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/mail/spool"
	"weir/store"
)

// A lookCase is a page of the self-service as somebody sees it.
type lookCase struct {
	mailbox *mailbox
	path    string
	code    int
	words   []string
}

// standings are desks of users in different states: some of their mail is delayed, they may send again later, an
// operator has stopped them, or they wrote to new recipients.
func standings() (delayed, tried, operator, strangers *mailbox) {
	delayed, tried, operator, strangers = newMailbox(), newMailbox(), newMailbox(), newMailbox()
	delayed.view.Stopped, delayed.view.More, delayed.view.Contact = false, 7, ""
	tried.view.Resume, tried.view.LogIn = time.Date(2024, 5, 2, 12, 4, 0, 0, time.UTC), false
	operator.view.ByOperator = true
	strangers.view.Stopped = false
	for i := range strangers.view.Mails {
		strangers.view.Mails[i].Held, strangers.view.Mails[i].New = false, true
	}
	return delayed, tried, operator, strangers
}

// inspects looks at pages in a language. Those that are no more than a translation have the same parts and colors, so
// that they are looked at where their words have the least room.
func inspects(t *testing.T, language, prefix string, translated bool, cases map[string]lookCase) {
	urls := map[string]string{}
	for name, c := range cases {
		site, _ := pagesOf(t, c.mailbox, SelfServiceOptions{})
		urls[name] = site + c.path
	}
	p := browser.Open(t)
	p.Speaks(language)
	p.Show(browser.Screens[0])
	for name, c := range cases {
		look := func(at string, status int, header http.Header) {
			if status != c.code || header.Get("Content-Language") != language {
				t.Errorf("%s: %d %q", at, status, header.Get("Content-Language"))
			}
			text := p.Text("main")
			for _, want := range c.words {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %q in %q", at, want, text)
				}
			}
			if language != "en" && strings.Contains(text, " your ") {
				t.Errorf("%s: English words in %q", at, text)
			}
		}
		at := prefix + name
		if !translated || needs.Long() {
			p.Inspect(at, urls[name], look)
			continue
		}
		status, header := p.Visit(urls[name])
		look(at, status, header)
		p.Screenshot(at)
		for _, fault := range p.Faults() {
			t.Errorf("%s: %s", at, fault)
		}
	}
}

// TestSelfServiceInBrowser: a user sees what is held on whatever is at hand, with whatever they read it.
func TestSelfServiceInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	delayed, tried, operator, strangers := standings()
	strangers.view.Mails = strangers.view.Mails[:2]
	empty := &mailbox{view: PageView{User: strings.Repeat("averylongname", 9) + "@example.org"}}
	said := newForms([]byte("0123456789abcdef"))
	inspects(t, "en", "selfservice-", false, map[string]lookCase{
		"stopped": {newMailbox(), "/t/" + goodTicket, 200,
			[]string{"You cannot send mail", "summer party", "28 recipients", "Let me send again", "current password"}},
		"delayed": {delayed, "/weir/t/" + goodTicket, 200,
			[]string{"some of your mail waits.", "There is more mail than is listed here",
				"No contact address is known"}},
		"tried": {tried, "/t/" + goodTicket, 200,
			[]string{"from 2 May 2024, 12:04 UTC on", "have your password changed"}},
		"operator": {operator, "/t/" + goodTicket, 200,
			[]string{"Somebody who runs your mail has stopped your account"}},
		"new": {strangers, "/t/" + goodTicket, 200,
			[]string{"Some of your mail is to people your account never wrote to before", "new recipient", "summer party", "Release selected"}},
		"empty": {empty, "/t/" + goodTicket, 200, []string{"No mail of yours waits."}},
		"done": {newMailbox(), "/t/" + goodTicket + "?said=" + said.write(goodTicket, result{Code: saidReleased, N: 12}),
			200, []string{"Released: the mail to 12 recipients is on its way."}},
		"bad": {newMailbox(), "/t/" + goodTicket + "?said=" + said.write(goodTicket, result{Code: saidWrong}), 200,
			[]string{"The current password is not right"}},
		"forged": {newMailbox(), "/t/forged", 403, []string{"This link is not valid"}},
		"login":  {newMailbox(), "/login", 200, []string{"Log in to your held mail", "password"}},
		"look": {newMailbox(), "/own/" + lookTicket, 200,
			[]string{"You cannot send mail", "summer party", "Send me a link", "Log out"}},
		"old": {newMailbox(), "/weir/t/old", 410, []string{"This link is out of date"}},
	})
}

// TestSelfServiceByHand: everything works without JavaScript, once, and deletes nothing without asking.
func TestSelfServiceByHand(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newMailbox()
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	page := site + "/weir/t/" + goodTicket
	p := browser.Open(t)
	p.Scripts(false)
	reads := func(text string) {
		t.Helper()
		p.Wait(fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)", text))
	}
	did := func(want ...spool.Action) {
		t.Helper()
		if got := d.acted(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	p.Visit(page)
	reads("summer party")

	// The name of a mail is its label.
	p.Click("label[for=mail-1]")
	if !browser.Eval[bool](p, "document.getElementById('mail-1').checked") {
		t.Error("the label does nothing")
	}
	p.Click("button[value=release]")
	reads("the mail to 1 recipient is on its way")
	did(spool.Action{Release: []store.MailID{12}})
	if !browser.Eval[bool](p, "document.title.startsWith('Released') && !document.body.innerText.includes('alert(')") {
		t.Error("what was done is not said first, or still there")
	}
	p.Visit(p.Location()) // once more
	reads("the mail to 1 recipient is on its way")
	did(spool.Action{Release: []store.MailID{12}})

	// Somebody else's work is deleted, after a question.
	d.reset()
	p.Visit(page)
	p.Click("label[for=mail-0]")
	p.Click("button[value=ask-delete]")
	reads("Delete 1 message?")
	did()
	p.Screenshot("selfservice-confirm")
	for _, fault := range p.Faults() {
		t.Error(fault)
	}
	p.Click("a[href='?']")
	reads("You cannot send mail")
	did()
	p.Click("button[value=ask-delete-all]")
	reads("Delete 3 messages?")
	p.Click("button[value=delete-all]")
	reads("Deleted: the mail to 28 recipients will not be sent.")
	did(spool.Action{DeleteAll: true, UpTo: 13})
	reads("No mail of yours waits.")

	// A new password, and on with it.
	fill := func(id, value string) {
		browser.Eval[bool](p, fmt.Sprintf("document.getElementById(%q).value = %q, true", id, value))
	}
	fill("password", "wrong")
	fill("new", "correct horse")
	fill("again", "correct horse")
	p.Click("button[value=password]")
	reads("The current password is not right")
	fill("password", "open sesame")
	fill("new", "correct horse")
	fill("again", "correct horse")
	p.Click("button[value=password]")
	reads("Your password is changed")
	p.Click("button[value=resume]")
	reads("You can send mail again")
	if browser.Eval[bool](p, "document.body.innerText.includes('You cannot send mail')") {
		t.Error("still stopped")
	}
	fill("contact", "ann@new.example")
	fill("proof", "correct horse")
	p.Click("button[value=contact]")
	reads("Your contact address is changed")
	did(spool.Action{DeleteAll: true, UpTo: 13}, spool.Action{Resume: true})
}

// A subject without a place to break leaves the other columns their room.
func TestLongSubjectsInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newMailbox()
	d.view.Mails[0].Subject = strings.Repeat("unbroken", 30)
	d.view.Mails[1].Subject = "שלום invoice-⟨U+202E⟩gnp.exe"
	site, _ := pagesOf(t, d, SelfServiceOptions{})
	p := browser.Open(t)
	for _, screen := range browser.Screens {
		p.Show(screen)
		p.Visit(site + "/t/" + goodTicket)
		const narrowest = `Math.min(...[...document.querySelectorAll('tbody td.to')].map(td => td.getBoundingClientRect().width))`
		if width := browser.Eval[float64](p, narrowest); width < 150 {
			t.Errorf("on a %s, recipients have %.0f pixels", screen.Name, width)
		}
		if browser.Eval[bool](p, "document.documentElement.scrollWidth > document.documentElement.clientWidth") {
			t.Errorf("on a %s, the page is wider than the screen", screen.Name)
		}
		p.Screenshot("selfservice-long-" + screen.Name)
	}
}
