package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// operates logs the first operator in to the console of a running weir, and returns its address.
func operates(b *browser.Page, t *testing.T, p *post) string {
	t.Helper()
	first, err := os.ReadFile(filepath.Join(p.folder, "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + p.app.ConsoleAddr().String()
	b.Visit(url + "/mail")
	fills(b, "name", "admin")
	fills(b, "password", strings.TrimSpace(string(first)))
	b.Click("main button")
	b.Wait("document.readyState === 'complete' && document.querySelector('h1')?.innerText == 'Mail'") // where they wanted to go
	return url
}

// fills fills in a field.
func fills(b *browser.Page, name, value string) {
	browser.Eval[string](b, fmt.Sprintf("document.querySelector('main [name=%s]').value = %q", name, value))
}

// said waits for what the page says after an act.
func said(b *browser.Page, text string) {
	b.Wait(fmt.Sprintf("document.readyState === 'complete' && document.querySelector('.said')?.innerText == %q", text))
}

// shows visits a page of the console, which must say some words. What its pages look like is for the tests of console.
func shows(b *browser.Page, t *testing.T, url string, words ...string) {
	t.Helper()
	status, _ := b.Visit(url)
	text := b.Text("main")
	for _, word := range words {
		if status != http.StatusOK || !strings.Contains(text, word) {
			t.Errorf("%s: %d, without %q: %s", url, status, word, text)
		}
	}
}

// TestConsoleMailInBrowser: an operator sees who is stopped and what waits, reads a message, releases one, deletes
// another, and lets the user send again. One arrives and the other does not. None of it needs a script.
func TestConsoleMailInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	b := browser.Open(t)
	p := newPost(t, "rate: 1/m", "", "")
	p.stopped()
	url := operates(b, t, p)
	shows(b, t, url+"/mail", "ann", "sunday 2", "Resume", "held")
	shows(b, t, url+"/mail-user?name=ann", "stopped since", "sunday 2", "ann@private.example", "The last hour", "Queue",
		"weir user passwd ann")
	shows(b, t, url+"/mail?state=pooled", "No message waits here.")

	b.Visit(url + "/mail?user=ann")
	open := browser.Eval[string](b, "[...document.querySelectorAll('tr')].find(r => r.innerText.includes('sunday 2')).querySelector('a').href")
	shows(b, t, open, "hello", "Subject: sunday 2", "father@elsewhere.example")

	b.Visit(url + "/mail?user=ann")
	act := func(subject, button, result string) {
		t.Helper()
		browser.Eval[bool](b, fmt.Sprintf("[...document.querySelectorAll('tr')].find(r => r.innerText.includes(%q))"+
			".querySelector('[type=checkbox]').checked = true", subject))
		if button == "queue-delete" { // asks once
			if browser.Eval[bool](b, "document.querySelector('[formaction$=queue-delete]').checkVisibility()") {
				t.Error("a click is enough to delete messages")
			}
			b.Click("details:has([formaction$=queue-delete]) summary")
		}
		b.Click("[formaction$=" + button + "]")
		said(b, result)
	}
	act("sunday 2", "queue-release", "Released: 1 message.")
	act("sunday 3", "queue-delete", "Deleted: 1 message.")
	b.Visit(url + "/mail")
	b.Click("[action$=user-resume] button")
	said(b, "Sends again: ann. What is held stays held.")
	p.runs(0)
	for _, what := range []string{"father", open[strings.Index(open, "id=")+3:]} {
		shows(b, t, url+"/mail?track="+what, "delivered", "father@elsewhere.example")
	}
	shows(b, t, url+"/mail?track=nobody@nowhere.example", "weir knows nothing of it")
	if n := len(p.sink.to("father@elsewhere.example")); n != 1 {
		t.Errorf("the message that was released arrived %d times", n)
	}
	if n := len(p.sink.to("aunt@elsewhere.example")); n != 0 {
		t.Errorf("the message that was deleted arrived %d times", n)
	}
	for _, what := range []string{"released", "deleted", "resumed"} {
		p.auditHas(what, "ann")
	}
}

// TestConsoleThrottlesInBrowser: an operator gives an account a limit of its own, which holds at once, removes it, and
// takes a throttle into shadow and back. The same operator bans a network, finds it, and lifts the ban.
func TestConsoleThrottlesInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	b := browser.Open(t)
	p := newEverything(t, clock.NewFake(noon))
	url := operates(b, t, p)
	get := func(n int) (codes []int) {
		for range n {
			r, err := http.NewRequest(http.MethodGet, "http://"+p.app.Addr("http", 0).String()+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", "acme")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			codes = append(codes, resp.StatusCode)
		}
		return codes
	}
	wants := func(got []int, want ...int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("answers %v, want %v", got, want)
		}
	}
	wants(get(6), 200, 200, 200, 200, 200, 429)
	refusals, err := console.RefusalsListCall.Ask(t.Context(), p.control, console.RefusalQuery{Throttle: "plans"})
	if err != nil || len(refusals.Refusals) != 1 || refusals.Refusals[0].ID == "" {
		t.Fatalf("%+v, %v", refusals, err)
	}
	for _, sought := range []string{"acme", refusals.Refusals[0].ID} { // who asks for help quotes the id of the request
		b.Visit(url + "/why?q=" + sought)
		if text := b.Text("main"); !strings.Contains(text, "Last refusals") || !strings.Contains(text, "plans/per-year") ||
			!strings.Contains(text, refusals.Refusals[0].ID) {
			t.Errorf("%s: %s", sought, text)
		}
	}
	shows(b, t, url+"/throttles", "plans", "No account has a limit of its own.")
	fills(b, "account", "acme")
	browser.Eval[string](b, "document.querySelector('main [name=throttle]').value = 'plans'")
	fills(b, "limit", "7")
	browser.Eval[string](b, "document.querySelector('[action$=account-limit] [name=note]').value = 'until the invoice is paid'")
	b.Click("[action$='do/account-limit'] button")
	said(b, "acme has in plans/per-year: limit 7.")
	wants(get(3), 200, 200, 429)
	shows(b, t, url+"/throttles?filter=acme", "until the invoice is paid", "admin")
	b.Click("[aria-label='To shadow: plans']")
	said(b, "In shadow: nothing is refused, and everything is counted.")
	wants(get(1), 200)
	b.Click("[aria-label='Enforce plans']")
	said(b, "Out of shadow: verdicts are acted upon.")
	wants(get(1), 429)
	b.Click("[action$='do/account-limit-remove'] button")
	said(b, "acme has in plans/per-year what the configuration says.")

	// A network is banned, found, and let go.
	shows(b, t, url+"/sources", "Nobody is banned.")
	fills(b, "who", "192.0.2.0/24")
	fills(b, "for", "1d")
	fills(b, "reason", "scraping")
	b.Click("[action$=ban-add] button")
	said(b, "Banned: 192.0.2.0/24.")
	fills(b, "who", "all of them")
	b.Click("[action$=ban-add] button")
	b.Wait("document.querySelector('.said.bad')?.innerText.startsWith('Not done: ')")
	shows(b, t, url+"/sources?filter=192.0.2.7", "scraping", "1 of 1 shown")
	b.Click("[action$=ban-remove] button")
	said(b, "No longer banned: 192.0.2.0/24.")
}
