package app

import (
	"fmt"
	"strings"
	"testing"

	"weir/console"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// TestOverviewInBrowser: somebody looks while requests come. The plots move, and whoever is held back appears, without
// a reload of the page.
func TestOverviewInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	b := start(t, strings.Replace(everything, `console: {listen: "127.0.0.1:0"}`,
		`console: {listen: "127.0.0.1:0", without_login: view}`, 1))
	b.clock.Advance(console.HistoryEvery)
	p := browser.Open(t)
	p.Show(browser.Screens[1])
	p.Visit("http://" + b.ConsoleAddr().String() + "/")
	reads := func(text string) {
		t.Helper()
		p.Wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
	}
	reads("Nobody is held back")
	path := func(class string) string {
		return browser.Eval[string](p, fmt.Sprintf("document.querySelector('path.line.%s').getAttribute('d')", class))
	}
	b.clock.Advance(3 * console.HistoryEvery)
	p.Wait("!!document.querySelector('path.line.admitted')?.getAttribute('d')")
	admitted, refused := path("admitted"), path("refused")
	browser.Eval[bool](p, "window.same = true")

	for range 2 {
		b.wants("within the limit", b.get(0, "secret-key"), 200)
	}
	for range 7 {
		b.wants("over the limit", b.get(0, "secret-key"), 429)
	}
	b.clock.Advance(console.HistoryEvery)
	reads("7 of 9 requests a second are turned away at 127.0.0.1:0, most by plans, most often account ")
	if path("admitted") == admitted || path("refused") == refused {
		t.Error("a plot has not moved")
	}
	if !browser.Eval[bool](p, "window.same === true") {
		t.Error("the page was loaded again")
	}
	reads("refuse by plans/per-hour (over-limit): 0 of 2 requests left per 1h")
	if text := p.Text("body"); strings.Contains(text, "secret-key") {
		t.Errorf("a secret is shown: %s", text)
	}
	p.Screenshot("overview-load-desktop")

	// It is over, and the plots say so.
	b.clock.Advance(2 * console.HistoryEvery)
	reads("Nothing is turned away now.")

	// With the emergency switch on it says something else, at once.
	b.shadow(console.Shadow{All: true, On: true, Note: "ticket 17"})
	reads("Everything is let pass: all throttles are in shadow since")
	reads("ticket 17. Nothing is refused or delayed; everything is counted.")
	reads("serving without limits")
	reads("Everything is let pass: the emergency switch is on. Nothing would be held back now.")
	b.shadow(console.Shadow{All: true})
	reads("Nothing is turned away now.")
	if text := p.Text("body"); strings.Contains(text, "let pass") || strings.Contains(text, "without limits") {
		t.Errorf("it is over: %s", text)
	}

	// The last hour, by a link that needs no script.
	p.Click(".spans a")
	reads("an hour ago")
}
