package app_test

import (
	"net/http"
	"strings"
	"testing"

	"weir/console"
	"weir/console/access"
	"weir/internal/clock"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// TestConsoleOperatorsInBrowser: with scripts turned off, an admin adds an operator, changes the role, makes a token
// that works and is shown once, and revokes it. The operator changes their own password, which ends the session, and
// ends a session elsewhere. What needs the role admin is refused to others.
func TestConsoleOperatorsInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	b := browser.Open(t)
	p := newEverything(t, clock.NewFake(noon))
	url := operates(b, t, p)
	b.Scripts(false)
	shows(b, t, url+"/operators", "this is you", "There are no tokens.")
	add := func(name, password string) {
		browser.Eval[string](b, "document.querySelector('[action$=operator-add] [name=name]').value = '"+name+"'")
		browser.Eval[string](b, "document.querySelector('[action$=operator-add] [name=password]').value = '"+password+"'")
		b.Click("[action$=operator-add] button")
	}
	add("ann", password)
	said(b, "Added: ann.")
	add("ann", password)
	said(b, "Not done: there is an operator ann already")
	browser.Eval[string](b, "document.querySelector('[aria-label=\"Role of ann\"]').value = 'act'")
	b.Click("[aria-label='Change the role of ann']")
	said(b, "ann has the role act now.")
	browser.Eval[string](b, "document.querySelector('[aria-label=\"Role of admin\"]').value = 'view'")
	b.Click("[aria-label='Change the role of admin']")
	said(b, "Not done: this is the last operator with the role admin")

	b.Visit(url + "/operators")
	browser.Eval[string](b, "document.querySelector('[action$=token-add] [name=name]').value = 'ci'")
	b.Click("[action$=token-add] button")
	b.Wait("document.readyState === 'complete' && document.querySelector('h1')?.innerText == 'Shown once'")
	secret := b.Text("pre.source")
	if at := b.Location(); strings.Contains(at, secret) || !strings.HasPrefix(secret, "weir_") {
		t.Errorf("at %s: %s", at, secret)
	}
	token := func() int {
		r, err := http.NewRequest(http.MethodGet, url+console.Prefix+"/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Close = true
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if code := token(); code != http.StatusOK {
		t.Errorf("the token: %d", code)
	}
	shows(b, t, url+"/operators", "ann", "ci", "Revoke")
	if text := b.Text("main"); strings.Contains(text, secret) {
		t.Errorf("the token is shown again: %s", text)
	}
	b.Click("[action$=token-revoke] button")
	said(b, "Revoked: ci.")
	if code := token(); code != http.StatusUnauthorized {
		t.Errorf("the revoked token: %d", code)
	}

	// The operator, in two browsers.
	c := &clerk{browser.Open(t), t, url}
	c.logIn("ann", password)
	other := &clerk{browser.Open(t), t, url}
	other.logIn("ann", password)
	c.Scripts(false)
	shows(c.Page, t, url+"/account", "this one", "End all other sessions")
	c.Click("[aria-label^='End the session from 127.0.0.1']")
	c.reads("Ended: 1 session of ann.")
	other.reads("Log in") // its page finds that out by itself
	c.Tolerate("403")
	c.Visit(url + "/operators")
	c.reads("This page needs the role admin.")
	change := func(old, next string) {
		c.Visit(url + "/account")
		c.fill("old", old)
		c.fill("password", next)
		c.Click("[action$=operator-password] button")
	}
	change("wrong", "another horse")
	c.reads("Not done: wrong name or password")
	change(password, "another horse")
	c.reads("Done. Your session has ended with it: log in again.")
	c.Screenshot("console-login-ended")
	c.logIn("ann", "another horse")

	// An admin ends what others do.
	b.Visit(url + "/operators")
	b.Click("[aria-label='More about ann']")
	b.Click("[aria-label='End the sessions of ann']")
	said(b, "Ended: 1 session of ann.")
	b.Click("[aria-label='More about ann']")
	b.Click("[aria-label='Remove ann']")
	said(b, "Removed: ann.")
	if _, err := console.OperatorRoleCall.Ask(t.Context(), p.control, console.OperatorRole{Name: "ann",
		Role: access.View}); err == nil {
		t.Error("ann is still there")
	}
	for _, what := range []string{"operator-add", "operator-role", "token-add", "token-revoke", "operator-logout",
		"operator-password", "operator-remove"} {
		page, err := console.AuditListCall.Ask(t.Context(), p.control, console.AuditQuery{What: what})
		if err != nil || len(page.Entries) == 0 || page.Entries[0].From != "127.0.0.1" {
			t.Errorf("%s: %+v, %v", what, page.Entries, err)
		}
	}
}
