package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/console"
	"weir/console/access"
	"weir/internal/clock"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/store"
)

// A clerk works at the console of a real weir in a real browser.
type clerk struct {
	*browser.Page
	t   *testing.T
	url string
}

func (c *clerk) fill(name, value string) {
	c.t.Helper()
	browser.Eval[bool](c.Page, fmt.Sprintf("document.querySelector('main [name=%s]').value = %q, true", name, value))
}

// reads waits until the page says something and is complete: before, what is clicked on may still move.
func (c *clerk) reads(text string) {
	c.t.Helper()
	c.Wait(fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)", text))
}

func (c *clerk) logIn(name, password string) {
	c.t.Helper()
	c.Visit(c.url + "/")
	c.reads("Log in")
	c.fill("name", name)
	c.fill("password", password)
	c.Click("main button")
	c.reads("Overview")
}

// lookUp searches on the page Why.
func (c *clerk) lookUp(text string) {
	c.t.Helper()
	c.Visit(c.url + "/why")
	c.fill("q", text)
	c.Click("main button")
	c.Wait(fmt.Sprintf("document.readyState === 'complete' && new URLSearchParams(location.search).get('q') === %q",
		text))
}

// TestConsoleInBrowser: an operator logs in with the first password, and does with scripts turned off what the console
// is for: finds who is held back, bans and lifts, resets, stops and resumes, releases one message and deletes another,
// switches shadow, and sees it all in the audit log. A viewer sees no buttons.
func TestConsoleInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	p := newEverything(t, clock.System)
	ctx := t.Context()
	p.user("ann")
	ann := p.mailer("ann")
	for i, to := range crowd("friend", 5) {
		if err := ann.send(fmt.Sprint("number ", i), to); err != nil {
			t.Fatal(err)
		}
	}
	first, err := os.ReadFile(filepath.Join(p.folder, "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(p.folder, "admin-password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the first password can be read by others: %v %v", info.Mode(), err)
	}
	c := &clerk{browser.Open(t), t, "http://" + p.app.ConsoleAddr().String()}
	c.Scripts(false)
	c.Tolerate("403") // of the wrong password
	c.Visit(c.url + "/")
	c.fill("name", "admin")
	c.fill("password", "wrong")
	c.Click("main button")
	c.reads("Wrong name or password.")
	c.logIn("admin", strings.TrimSpace(string(first)))

	// An account that has used something is reset.
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.app.Addr("http", 0).String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "acme")
	req.Close = true
	for range 6 {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	c.lookUp("acme")
	c.reads("per-year")
	c.reads("What would happen now")
	c.reads("refuse")
	c.Click("form[action='do/account-reset'] button")
	c.reads("Reset: acme has used nothing.")

	// A network is banned, and let go.
	c.lookUp("198.51.100.0/24")
	c.reads("It is not banned.")
	c.fill("for", "2h")
	c.fill("reason", "scraping")
	c.Click("form[action='do/ban-add'] button")
	c.reads("Banned: 198.51.100.0/24.")
	page, err := console.BansCall.Ask(ctx, p.control, console.BanQuery{})
	if err != nil || len(page.Bans) != 1 || page.Bans[0].Reason != "scraping" || page.Bans[0].By != "admin" {
		t.Errorf("%+v, %v", page, err)
	}
	c.lookUp("198.51.100.7") // within it
	c.reads("Lift the ban")
	c.Click("form[action='do/ban-remove'] button")
	c.reads("No longer banned: 198.51.100.0/24.")
	if page, err := console.BansCall.Ask(ctx, p.control, console.BanQuery{}); err != nil || len(page.Bans) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	c.lookUp("203.0.113.5")
	c.fill("for", "soon")
	c.Click("form[action='do/ban-add'] button")
	c.reads("Not done: for:")

	// A user is stopped; of the messages one is released, one deleted; the user goes on.
	c.lookUp("ann")
	c.reads("Mail user ann")
	c.reads("number 4")
	c.fill("why", "password stolen")
	c.Click("form[action='do/user-stop'] button")
	c.reads("Stopped: ann.")
	queue, err := console.QueueListCall.Ask(ctx, p.control,
		console.MailQuery{MailFilter: console.MailFilter{State: store.Held}, Limit: 10})
	if err != nil || len(queue.Mails) < 2 {
		t.Fatalf("%+v, %v", queue, err)
	}
	one, other := queue.Mails[0], queue.Mails[1]
	c.lookUp(one.ID.String())
	c.Click("form[action='do/queue-release'] button")
	c.reads("Released: 1 message.")
	c.lookUp(other.ID.String())
	c.Click(".acts summary")
	c.Click("form[action='do/queue-delete'] button")
	c.reads("Deleted: 1 message.")
	p.wait(func() bool { return len(p.sink.to(one.To[0].Address)) == 1 })
	if len(p.sink.to(other.To[0].Address)) != 0 {
		t.Error("a deleted message has arrived")
	}
	c.lookUp("ann")
	c.Click("form[action='do/user-resume'] button")
	c.reads("Sends again: ann. What is held stays held.")

	// The farm, all of it, into shadow and back.
	c.Visit(c.url + "/farm")
	c.reads("1 of 1 node")
	c.Click("form[action='do/shadow-on-farm'] button")
	c.reads("Switched on 1 node.")
	c.reads("Take all throttles out of shadow")
	c.Click("form[action='do/shadow-on-farm'] button")
	c.reads("Take all throttles into shadow")
	c.Click("form[action='do/reload-farm'] button")
	c.reads("Reloaded on 1 node.")

	// The audit log has it all: who, from where, before and after.
	c.Visit(c.url + "/audit")
	for _, what := range []string{"login", "account-reset", "ban-add", "ban-remove", "stopped", "released", "deleted",
		"resumed", "shadow-on-farm", "reload-farm"} {
		c.reads(what)
	}
	c.fill("what", "ban-add")
	c.Click("main form button")
	c.Wait("document.querySelectorAll('tbody tr').length === 1")
	for _, want := range []string{"admin", "127.0.0.1", "198.51.100.0/24"} {
		if text := c.Text("tbody"); !strings.Contains(text, want) {
			t.Errorf("the audit log has no %q: %s", want, text)
		}
	}
	c.Click("td summary")
	c.reads("scraping")
	if text := c.Text("tbody"); strings.ContainsAny(text, "{}\"") {
		t.Errorf("the audit log shows JSON: %s", text)
	}
	c.fill("what", "nothing-like-this")
	c.Click("main form button")
	c.reads("Nothing matches.")

	// The log-out ends it.
	c.Click(".who button")
	c.reads("Log in")
	c.Visit(c.url + "/audit")
	c.reads("Log in")

	// A viewer sees everything, and no buttons.
	if _, err := console.OperatorAddCall.Ask(ctx, p.control, console.NewOperator{Name: "vera", Role: access.View,
		Password: password}); err != nil {
		t.Fatal(err)
	}
	c.logIn("vera", password)
	c.lookUp("192.0.2.1")
	c.reads("It is not banned.")
	if browser.Eval[bool](c.Page, "!!document.querySelector('form[method=post]:not([action$=logout])')") {
		t.Error("a viewer sees a button that acts")
	}
}

// wait waits until something is so.
func (p *post) wait(so func() bool) {
	p.t.Helper()
	needs.Wait(p.t, "something to be so", so)
}
