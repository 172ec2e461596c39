package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// A pageUser logs in on the page of mail users.
type pageUser struct {
	t      *testing.T
	site   string
	client *http.Client
}

func newPageUser(t *testing.T, site string) *pageUser {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(c.CloseIdleConnections)
	return &pageUser{t, site, c}
}

func (v *pageUser) page(path string) (code int, body string) {
	v.t.Helper()
	res, err := v.client.Get(v.site + path)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// post sends the form of a page with more fields.
func (v *pageUser) post(path, body string, fields ...string) (code int, at string) {
	form := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], m[2])
	}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	res, err := v.client.PostForm(v.site+path, form)
	if err != nil {
		v.t.Error(err)
		return 0, ""
	}
	res.Body.Close()
	return res.StatusCode, res.Header.Get("Location")
}

func (v *pageUser) logIn(user, password string) (code int, at string) {
	_, body := v.page("/login")
	return v.post("/login", body, "user", user, "password", password)
}

func newPages(t *testing.T, gate, more string) (*post, *pageUser) {
	address := needs.FreeAddress()
	p := newPost(t, "rate: 1/m", gate, fmt.Sprintf("self_service: {listen: %q, url: %q%s}\n", address, "http://"+address, more))
	return p, newPageUser(t, "http://"+address)
}

// TestLogInOnThePage: a stopped user logs in with the mail password, sees what is held, and is sent a link to release
// it. Somebody who has only the password can release nothing, nor send links without end.
func TestLogInOnThePage(t *testing.T) {
	t.Parallel()
	p, v := newPages(t, "", "")
	p.stopped()
	for _, name := range []string{"ann", " ANN "} {
		if code, _ := v.logIn(name, "correct hors"); code != 403 {
			t.Errorf("%q with a wrong password: %d", name, code)
		}
	}
	code, at := v.logIn("Ann", password)
	if code != 303 || !strings.HasPrefix(at, "own/") {
		t.Fatalf("%d %s", code, at)
	}
	code, body := v.page("/" + at)
	if code != 200 || !strings.Contains(body, "sunday 2") || strings.Contains(body, "private.example") {
		t.Fatalf("%d %s", code, body)
	}
	// The ticket is for looking: on the pages of links it is nothing.
	if code, _ := v.page("/t/" + strings.TrimPrefix(at, "own/")); code != 403 {
		t.Errorf("a session for looking is a link: %d", code)
	}
	before := len(p.sink.to("ann@private.example"))
	for range 3 {
		if code, _ := v.post("/"+at, body, "do", "link"); code != 303 {
			t.Error(code)
		}
	}
	p.runs(0)
	sent := p.sink.to("ann@private.example")
	if len(sent) != before+1 || !strings.HasPrefix(sent[before].header("Subject"), "Your link to your held mail") {
		t.Fatalf("%d messages, and %d before", len(sent), before)
	}
	way := link.FindString(strings.ReplaceAll(sent[before].text, "=\r\n", ""))
	code, body = v.page(strings.TrimPrefix(way, v.site))
	if code != 200 || !strings.Contains(body, "Release all") {
		t.Fatalf("%d %s", code, body)
	}
	// A log-in ends, by hand and by itself.
	_, own := v.page("/" + at)
	if code, to := v.post("/"+at, own, "do", "logout"); code != 303 || to != "../login" {
		t.Errorf("%d %s", code, to)
	}
	if code, _ := v.page("/" + at); code != 410 {
		t.Error(code)
	}
	_, at = v.logIn("ann", password)
	p.clock.Advance(time.Second)
	if _, err := console.UserPasswdCall.Ask(t.Context(), p.control, console.UserPassword{Name: "ann",
		Password: "another horse"}); err != nil {
		t.Fatal(err)
	}
	if code, _ := v.page("/" + at); code != 410 {
		t.Errorf("a session that began with the old password: %d", code)
	}
	if code, _ := v.logIn("ann", password); code != 403 {
		t.Errorf("the old password: %d", code)
	}
	_, at = v.logIn("ann", "another horse")
	if code, _ := v.page("/" + at); code != 200 {
		t.Error(code)
	}
	p.clock.Advance(31 * time.Minute)
	if code, _ := v.page("/" + at); code != 410 {
		t.Error(code)
	}
	page, err := console.AuditListCall.Ask(t.Context(), p.control, console.AuditQuery{User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range page.Entries {
		all = append(all, e.What)
	}
	if text := strings.Join(all, ", "); strings.Count(text, "logged in") != 3 || strings.Count(text, "link sent") != 1 {
		t.Error(text)
	}
	disabled := true
	if _, err := console.UserSetCall.Ask(t.Context(), p.control, console.UserChange{Name: "ann",
		Disabled: &disabled}); err != nil {
		t.Fatal(err)
	}
	if code, _ := v.logIn("ann", "another horse"); code != 403 {
		t.Errorf("a disabled user: %d", code)
	}
}

// TestGuessesOnThePageForLogIns: of forty guesses at once ten are looked at, however the name is spelled; what is left
// of the gates' limit for the user is that much less, and what was guessed at the gates counts here. The right password
// is not looked at either, unless it was right a short while ago.
func TestGuessesOnThePageForLogIns(t *testing.T) {
	t.Parallel()
	p, v := newPages(t, "", "")
	p.user("ann")
	p.user("bob")
	p.user("cleo")
	_, body := v.page("/login")
	guesses := func(n int, name func(int) string) map[int]int {
		codes := make([]int, n)
		var all sync.WaitGroup
		for i := range codes {
			all.Go(func() { codes[i], _ = v.post("/login", body, "user", name(i), "password", fmt.Sprint("guess ", i)) })
		}
		all.Wait()
		counts := map[int]int{}
		for _, c := range codes {
			counts[c]++
		}
		return counts
	}
	if got := guesses(40, func(i int) string { return []string{"ann", "Ann", " ANN"}[i%3] }); got[403] != 10 || got[429] != 30 {
		t.Errorf("%v", got)
	}
	if code, _ := v.logIn("ann", password); code != 429 {
		t.Errorf("the right password after too many guesses: %d", code)
	}
	at := p.logInsAtOnce(30, func(i int) (string, string) { return "ann", fmt.Sprint("other ", i) })
	if at[535] != 10 { // of twenty at all gates together
		t.Errorf("%v", at)
	}
	p.mailer("bob") // logs in at the gate: that is remembered
	if got := guesses(15, func(int) string { return "bob" }); got[403] != 10 {
		t.Errorf("%v", got)
	}
	if code, _ := v.logIn("bob", password); code != 303 {
		t.Errorf("somebody who logged in a short while ago: %d", code)
	}
	// Everybody together: sixty in a minute, of whatever names.
	if got := guesses(60, func(i int) string { return fmt.Sprint("user", i) }); got[403] != 60-20 {
		t.Errorf("%v", got)
	}
	if code, _ := v.logIn("cleo", password); code != 429 {
		t.Errorf("%d", code)
	}
	p.clock.Advance(time.Minute)
	if code, _ := v.logIn("cleo", password); code != 303 {
		t.Errorf("%d", code)
	}
	// Sessions have a bound of their own.
	for range 29 {
		if code, _ := v.logIn("cleo", password); code != 303 {
			t.Fatal(code)
		}
	}
	if code, _ := v.logIn("cleo", password); code != 429 {
		t.Errorf("the session after the last one: %d", code)
	}
}

// TestNobodyLogsIn: without a gate that knows passwords, or where the operator wants none, the page says so.
func TestNobodyLogsIn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ gate, more string }{
		{"auth: none\n  networks: [127.0.0.0/8]", ""}, {"", ", password: off"},
	} {
		_, v := newPages(t, c.gate, c.more)
		if code, body := v.page("/login"); code != 200 || !strings.Contains(body, "Nobody can log in with a password here") {
			t.Errorf("%+v: %d %s", c, code, body)
		}
		if code, _ := v.page("/"); code != 404 {
			t.Errorf("%+v: %d", c, code)
		}
	}
}

// TestLogInOnThePageByTheNextHop: the next hop knows the passwords, and is asked with the name as it was given. A user
// that weir does not know has nothing to see, and is told so.
func TestLogInOnThePageByTheNextHop(t *testing.T) {
	t.Parallel()
	const right = "next hop knows"
	p, v := newPages(t, "auth: next_hop\n  realm: example.org", ", password: act")
	code, at := v.logIn("ann", right)
	if code != 403 || at != "" {
		t.Errorf("without an entry: %d %s", code, at)
	}
	if _, err := console.UserAddCall.Ask(t.Context(), p.control,
		console.NewUser{Name: "ann@example.org", Contact: "ann@private.example"}); err != nil {
		t.Fatal(err)
	}
	if code, at = v.logIn("ann", right); code != 303 || !strings.HasPrefix(at, "t/") {
		t.Fatalf("%d %s", code, at)
	}
	if code, body := v.page("/" + at); code != 200 || !strings.Contains(body, "ann@example.org") {
		t.Errorf("%d %s", code, body)
	}
	// Another spelling is another name to the next hop, and the same user to weir: it takes of the same limit.
	looked := 0
	for i := range 15 {
		if code, _ := v.logIn([]string{"ann@example.org", "ann+x", "ANN@Example.org."}[i%3], "wrong"); code == 403 {
			looked++
		}
	}
	if looked != 10 {
		t.Errorf("%d guesses were looked at", looked)
	}
}

// TestLogInInBrowser: in a real browser, from the password to a message that arrives.
func TestLogInInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	b := browser.Open(t)
	p, v := newPages(t, "", "")
	p.stopped()
	shows(b, t, v.site+"/login", "Log in to your held mail", "password")
	b.Tolerate("403")
	fills(b, "user", "ann")
	fills(b, "password", "wrong password")
	b.Click("main button")
	b.Wait(`document.querySelector(".said.bad")?.innerText == "The user or the password is not right."`)
	b.Screenshot("selfservice-login-wrong")
	if name := browser.Eval[string](b, `document.querySelector("[name=user]").value`); name != "ann" {
		t.Errorf("the name is gone: %q", name)
	}
	fills(b, "password", password)
	b.Click("main button")
	b.Wait(`document.readyState === "complete" && document.querySelector("h1")?.innerText == "Your held mail"`)
	at := browser.Eval[string](b, "location.href")
	shows(b, t, at, "You cannot send mail", "sunday 2", "cheap watches", "Send me a link", "Log out")
	b.Click("button[value=link]")
	b.Wait(`document.querySelector(".said")?.innerText.startsWith("A link is on its way")`)
	p.runs(0)
	sent := p.sink.to("ann@private.example")
	way := link.FindString(strings.ReplaceAll(sent[len(sent)-1].text, "=\r\n", ""))
	b.Visit(way)
	b.Click("button[value=release-all]")
	b.Wait(`document.querySelector(".said") !== null`)
	p.runs(0)
	if n := len(p.sink.to("father@elsewhere.example")); n != 1 {
		t.Errorf("%d messages arrived", n)
	}
	b.Visit(at)
	b.Click("button[value=logout]")
	b.Wait(`document.querySelector("[name=password]") !== null`)
	b.Tolerate("410")
	if status, _ := b.Visit(at); status != 410 {
		t.Error(status)
	}
}

// through is a web server in front, which says where clients come from.
type through string

func (from through) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Forwarded-For", "198.51.100.99, "+string(from)) // the first one is the client's own word
	return http.DefaultTransport.RoundTrip(r)
}

// TestGuessesOfANetwork: sixty wrong passwords of a network are looked at, and then one in ten seconds. It has to wait,
// and others do not: it cannot use up what everybody has.
func TestGuessesOfANetwork(t *testing.T) {
	t.Parallel()
	p, v := newPages(t, "", ", trusted_proxies: [127.0.0.1/32]")
	p.user("ann")
	at := func(address string) *pageUser {
		return &pageUser{t, v.site, &http.Client{Transport: through(address), CheckRedirect: v.client.CheckRedirect}}
	}
	names := 0
	guess := func(address string, times, want int) {
		t.Helper()
		user := at(address)
		_, body := user.page("/login")
		for range times {
			names++
			if code, _ := user.post("/login", body, "user", fmt.Sprint("user", names), "password", "guess"); code != want {
				t.Fatalf("guess %d from %s: %d, want %d", names, address, code, want)
			}
		}
	}
	guess("203.0.113.7", 59, 403)
	p.clock.Advance(time.Minute) // for everybody's limit, and six more of the network
	guess("203.0.113.7", 7, 403)
	guess("203.0.113.7", 80, 429) // takes nothing of everybody's
	guess("203.0.113.8", 1, 403)
	guess("2001:db8:1:2::1", 1, 403)
	if code, _ := at("203.0.113.8").logIn("ann", password); code != 303 {
		t.Errorf("somebody elsewhere: %d", code)
	}
	// Somebody behind the same address who logged in a short while ago is not locked out.
	if code, _ := at("203.0.113.7").logIn("ann", password); code != 303 {
		t.Errorf("somebody who is known, behind the same address: %d", code)
	}
	p.clock.Advance(10 * time.Minute)
	guess("203.0.113.7", 1, 403)
	// The addresses of one customer are one network.
	for i := range 59 {
		guess(fmt.Sprintf("2001:db8:1:2%02x::%d", i, i), 1, 403)
	}
	p.clock.Advance(time.Minute)
	guess("2001:db8:1:2ff::1", 7, 403)
	guess("2001:db8:1:2fe::1", 1, 429)
	guess("2001:db8:1:300::1", 1, 403)
}
