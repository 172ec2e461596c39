package app_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/app"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// browsed starts a weir with the machine's own clock before a site with a page, what it loads, and a form.
func browsed(t *testing.T, gate, options string) (*site, string) {
	t.Helper()
	s := &site{t: t, arrived: make(chan string, 10000), folder: t.TempDir()}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.server.Close)
	s.does(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, ".css"):
			w.Header().Set("Content-Type", "text/css")
			fmt.Fprint(w, "h1 { color: rgb(1, 2, 3) }")
			return
		case r.URL.Path == "/form":
			body = []byte(`<form method="post" action="/sent?a=1"><label>Text <textarea name="text">one
two € "</textarea></label><button>Send</button></form>`)
		default:
			body = []byte("<p>" + html.EscapeString(string(body)) + "</p>")
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w,
			`<!doctype html><html lang="en"><title>the site</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css">
<main><h1>%s %s</h1>%s</main></html>`, r.Method, html.EscapeString(r.URL.RequestURI()), body)
	})
	a, err := app.New(s.stampConfig(gate, options), app.Options{Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.app, s.control = a, console.NewClient(a.ControlPath())
	t.Cleanup(func() { s.end(a) })
	return s, "http://" + a.Addr("http", 0).String()
}

const (
	atTheSite = `document.title === "the site"`
	styled    = `getComputedStyle(document.querySelector("h1")).color === "rgb(1, 2, 3)"`
)

// TestABrowserPays: a real browser gets the page that asks, pays, and sees what it came for, with what that loads.
func TestABrowserPays(t *testing.T) {
	t.Parallel()
	for _, covers := range []int{50, 1} {
		t.Run(fmt.Sprintf("covers %d", covers), func(t *testing.T) {
			free := "/none"
			if covers == 1 { // what a page loads would be asked for by itself, and cannot pay
				free = "/style.css"
			}
			s, site := browsed(t, "capacity: {concurrent: 10}, throttles: [stamps]",
				fmt.Sprintf(`schedule: [{load: 0%%, work: 12 bits}], covers: %d, never_ask: {paths: ["/form", %q]}`,
					covers, free))
			p := browser.Open(t)
			p.Visit(site + "/page?x=1#part")
			p.Wait(atTheSite)
			if h, at := p.Text("h1"), p.Location(); h != "GET /page?x=1" || at != site+"/page?x=1#part" {
				t.Errorf("%s at %s", h, at)
			}
			p.Wait(styled)
			if got := s.stamps().Stamp; got.Paid == 0 || got.Forged+got.Replayed+got.NotPaying > 0 {
				t.Errorf("%+v", got)
			}

			p.Visit(site + "/form")
			for _, c := range []string{"weir-stamp", "weir-ticket"} { // so that the form is asked for a stamp
				browser.Eval[string](p, fmt.Sprintf(`document.cookie = "%s=; path=/; max-age=0"`, c))
			}
			p.Click("button")
			p.Wait(atTheSite + ` && location.pathname === "/sent"`)
			if got, want := p.Text("p"), `text=one%0D%0Atwo+%E2%82%AC+%22`; got != want ||
				p.Text("h1") != "POST /sent?a=1" {
				t.Errorf("%s %q, want %q", p.Text("h1"), got, want)
			}
		})
	}
}

// TestABrowserPaysEqs60: a real browser pays with eqs60, in WebAssembly. That is allowed for weir's own page and its
// worker, and never by a page of the site.
func TestABrowserPaysEqs60(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s, site := browsed(t, "capacity: {concurrent: 10}, throttles: [stamps]",
		`algorithm: eqs60, schedule: [{load: 0%, work: 18 bits}], never_ask: {paths: ["/form"]}`)
	p := browser.Open(t)
	status, header := p.Visit(site + "/page")
	policy := header.Get("Content-Security-Policy")
	if status != 503 || !strings.Contains(policy, "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'") {
		t.Errorf("%d %s", status, policy)
	}
	p.Wait(atTheSite)
	p.Wait(styled)
	if h := p.Text("h1"); h != "GET /page" {
		t.Error(h)
	}
	if got := s.stamps().Stamp; got.Algorithm != "eqs60" || got.Accepted == 0 || got.Forged+got.Replayed > 0 {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{"/form", "/page"} {
		if status, header := p.Visit(site + path); status != 200 || header.Get("Content-Security-Policy") != "" {
			t.Errorf("%s: %d %v", path, status, header)
		}
	}
}

// TestABrowserPaysInGerman: a browser that prefers German gets the page in German, with the name of the site and the
// operator's line, pays, and is let in.
func TestABrowserPaysInGerman(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	_, site := browsed(t, `capacity: {concurrent: 10}, throttles: [stamps], `+
		`pages: {site: "Laden & Söhne", note: "Rufen Sie an."}`,
		`schedule: [{load: 0%, work: 12 bits}], covers: 50, never_ask: {paths: [/none]}`)
	p := browser.Open(t)
	p.Speaks("de-DE,de,en")
	if status, header := p.Visit(site + "/page"); status != 503 || header.Get("Content-Language") != "de" {
		t.Errorf("%d %v", status, header)
	}
	p.Wait(atTheSite)
	if h := p.Text("h1"); h != "GET /page" {
		t.Error(h)
	}
	r, _ := http.NewRequest(http.MethodGet, site+"/page", nil)
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Accept-Language", "de")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	for _, want := range []string{`<html lang="de">`, "<title>Einen Moment, bitte – Laden &amp; Söhne</title>",
		`<p class="site">Laden &amp; Söhne</p>`, `<p class="own">Rufen Sie an.</p>`, "/.weir/room.de.js?v="} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

// TestTwoTabsOfABrowser: two tabs at once, both in.
func TestTwoTabsOfABrowser(t *testing.T) {
	t.Parallel()
	for _, covers := range []int{50, 1} {
		s, site := browsed(t, "capacity: {concurrent: 10}, throttles: [stamps]",
			fmt.Sprintf(`schedule: [{load: 0%%, work: 16 bits}], covers: %d, never_ask: {paths: ["/style.css"]}`,
				covers))
		one := browser.Open(t)
		two := one.Tab()
		browser.Eval[bool](one, `location.href = "`+site+`/one", true`)
		browser.Eval[bool](two, `location.href = "`+site+`/two", true`)
		one.Wait(atTheSite)
		two.Wait(atTheSite)
		if a, b := one.Text("h1"), two.Text("h1"); a != "GET /one" || b != "GET /two" {
			t.Errorf("%s, %s", a, b)
		}
		if got := s.stamps().Stamp; got.Forged+got.Replayed+got.NotPaying > 0 {
			t.Errorf("%+v", got)
		}
	}
}

// TestABrowserWithoutScripts: it waits in the waiting room, sees its place, and gets in.
func TestABrowserWithoutScripts(t *testing.T) {
	t.Parallel()
	s, site := browsed(t, "capacity: {concurrent: 1, reload: 1s, pool: 10%}, throttles: [stamps]",
		`schedule: [{load: 0%, work: 10 bits}]`)
	p := browser.Open(t) // before anybody is held: without a browser the test ends here
	p.Scripts(false)
	release := s.holding()
	busy := s.send("GET /busy HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.9\r\nStamp: " +
		solve(t, s.program("192.0.2.9").get("/busy").header.Get("Stamp-Challenge")) + "\r\n\r\n")
	s.arrives("/busy")
	// Somebody else is before it, called ahead of time and held.
	other := s.person("192.0.2.8")
	other.look("/other")
	held := make(chan int, 1)
	go func() { held <- other.look("/other").status }()
	s.until("somebody to be held", func() bool {
		st, err := console.StatusCall.Ask(context.Background(), s.control, console.None{})
		return err == nil && st.Gates[0].Capacity.Pool == 1
	})
	if status, header := p.Visit(site + "/page"); status != http.StatusServiceUnavailable ||
		header.Get("Cache-Control") != "no-store" ||
		!strings.Contains(header.Get("X-Robots-Tag"), "noindex") {
		t.Errorf("%d %v", status, header)
	}
	p.Wait(`document.querySelector(".place")?.innerText.includes("You are next")`)
	p.Screenshot("gate-waiting")
	release()
	busy.want(200)
	if status := <-held; status != 200 {
		t.Errorf("who was held got %d", status)
	}
	p.Wait(atTheSite)
	p.Wait(styled)
	if p.Text("h1") != "GET /page" {
		t.Error(p.Text("h1"))
	}
	if got := s.stamps().Stamp; got.Called < 2 {
		t.Errorf("the page and its style came otherwise: %+v", got)
	}
}
