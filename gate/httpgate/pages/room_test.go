package pages

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
)

var epoch = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// A door is a page behind the room, without a gate around it: whoever has a stamp sees it, all others see the room.
type door struct {
	t      *testing.T
	url    string
	issuer *stamp.Issuer
	assets *Assets
	policy string
	look   Options

	mu     sync.Mutex
	ask    stamp.Ask
	visits []string // method, URI and body of each request that is not for an asset
	// dress changes the room before it is shown, for the nth time.
	dress func(n int, r *Room)
	// sends is where a form that was let in leads to, if anywhere.
	sends string
	// stays has a browser that is let in stay where it is, as for a download.
	stays bool
	// opens says whether a stamp is enough, or something else is.
	opens func(n int, paid bool) bool
}

// newDoor opens a door on 127.0.0.1.
func newDoor(t *testing.T) *door {
	d := &door{t: t, issuer: stamp.NewIssuer(stamp.Parts{}), assets: NewAssets(stamp.Scripts()), policy: RoomPolicy,
		ask:   stamp.Ask{Work: 1 << 12, Lifetime: time.Minute, Client: "somebody"},
		dress: func(int, *Room) {}, opens: func(_ int, paid bool) bool { return paid }}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.assets.Serve(w, r) {
		return
	}
	if r.URL.Path == "/form" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_,
			_ = io.WriteString(w,
			`<!doctype html><html lang="en"><title>form</title><link rel="icon" href="data:,"><h1>form</h1><form method="post" action="/send?a=1&amp;b=%22">`+
				`<input name="typed"><textarea name="text"></textarea><input name="submit" value="&quot;<&amp;>'+%20"><input name="twice" value="1"><input name="empty">`+
				`<input name="twice" value="2"><input name="ключ €" value="`+"\U0001F511"+
				`"><button>send</button></form>`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.visits = append(d.visits, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	n := len(d.visits)
	paid := false
	page := &Room{Look: d.look.Look(r), Cookie: StampCookie, CookieAge: 60, Reload: time.Second, Takes: 4 * time.Second,
		RequestID: "0000-id", Assets: d.assets}
	if r.Method == http.MethodPost {
		page.Form = &Form{Action: r.URL.RequestURI()}
		for pair := range strings.SplitSeq(string(body), "&") {
			name, value, _ := strings.Cut(pair, "=")
			name, _ = url.QueryUnescape(name)
			value, _ = url.QueryUnescape(value)
			page.Form.Fields = append(page.Form.Fields, FormField{name, value})
		}
	}
	d.dress(n, page)
	if c, err := r.Cookie(page.Cookie); err == nil {
		_, err := d.issuer.Verify(context.Background(), epoch, c.Value,
			stamp.Demand{Client: d.ask.Client, Covers: 1000})
		paid = err == nil
		if err != nil {
			d.t.Logf("visit %d: %v", n, err)
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if d.opens(n, paid) {
		if d.stays {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if d.sends != "" {
			http.Redirect(w, r, d.sends, http.StatusSeeOther)
			return
		}
		_,
			_ = fmt.Fprintf(w,
			`<!doctype html><html lang="en"><title>in</title><link rel="icon" href="data:,"><h1>in</h1><p>%s</p>`,
			html.EscapeString(d.visits[n-1]))
		return
	}
	if d.ask.Work > 0 {
		puzzle, err := d.issuer.Issue(epoch, d.ask)
		if err != nil {
			d.t.Error(err)
		}
		page.Puzzle = puzzle
	}
	w.Header().Set("Content-Security-Policy", d.policy)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(renderRoom(page))
}

func (d *door) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.visits...)
}

// change lets a test change the door while it is open.
func (d *door) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

const isIn = "document.querySelector('h1')?.textContent === 'in'"

// TestRoomPays: a browser pays whatever the puzzle is, and the page opens by itself at the very address that was asked
// for.
func TestRoomPays(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	p := browser.Open(t)
	for _, a := range []stamp.Ask{{Algorithm: stamp.SHA256K, Work: 1 << 16}, {Algorithm: stamp.DLog, Work: 1 << 12},
		{Algorithm: stamp.DLogClassic, Work: 1 << 24}, {Algorithm: stamp.EQS60, Work: 1 << 17}} {
		// What was paid before is of another client then.
		d.change(func() {
			d.ask.Algorithm, d.ask.Work, d.ask.Client, d.visits = a.Algorithm, a.Work, a.Algorithm.String(), nil
		})
		address := d.url + "/a/page?of=" + a.Algorithm.String() + "#part"
		status, header := p.Visit(address)
		if status != 503 || header.Get("Content-Security-Policy") != RoomPolicy {
			t.Errorf("%s: %d %v", a.Algorithm, status, header)
		}
		p.Wait(isIn)
		if got := p.Location(); got != address {
			t.Errorf("%s: ends at %s", a.Algorithm, got)
		}
		want := "GET /a/page?of=" + a.Algorithm.String() + " "
		if got := d.seen(); len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("%s: visits %q", a.Algorithm, got)
		}
	}
}

// TestRoomPaysWithoutWebAssembly: eqs60 is paid in WebAssembly, which the file of the worker allows, and in plain
// JavaScript where there is none.
func TestRoomPaysWithoutWebAssembly(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	cases := map[string]bool{"": true, "self.WebAssembly = undefined;\n": false}
	doors := map[string]*door{}
	for line := range cases {
		d := newDoor(t)
		// The page says what the worker used before it goes on.
		script := strings.Replace(string(stamp.Scripts()["solver.js"]), "root.weirStamp.wasm = e.data.wasm;",
			"root.weirStamp.wasm = e.data.wasm; sessionStorage.wasm = e.data.wasm;", 1)
		d.assets = NewAssets(map[string][]byte{"solver.js": []byte(line + script)})
		d.ask.Algorithm, d.ask.Work = stamp.EQS60, 1<<17
		doors[line] = d
	}
	p := browser.Open(t)
	for line, wasm := range cases {
		p.Visit(doors[line].url + "/page")
		p.Wait(isIn)
		if got := browser.Eval[string](p, "sessionStorage.wasm"); got != fmt.Sprint(wasm) {
			t.Errorf("%q: WebAssembly: %s", line, got)
		}
	}
}

// TestRoomProgress: the page says how far it is, in its title as well, and to those who listen only now and then.
func TestRoomProgress(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	d.ask.Work = 1 << 24
	p := browser.Open(t)
	p.Processors(1)
	p.Visit(d.url + "/")
	// The bar and the words say the same whenever one of them changes.
	browser.Eval[bool](p, `(window.differ = [], new MutationObserver(() => {
		const words = document.querySelector('#percent').textContent, bar = document.querySelector('#bar').value;
		if (parseInt(words) / 100 !== bar) differ.push(words + ' and ' + bar);
	}).observe(document.querySelector('.work'), {subtree: true, childList: true, characterData: true, attributes: true}), true)`)
	// All at once, as the page does not wait for the test.
	p.Wait(`(at => {
		const percent = parseInt(at('#percent').textContent), news = at('#news');
		return percent >= 25 && at('#bar').value === percent / 100 && document.title.startsWith(percent + ' % – ') && /^about \d+ (seconds|minutes) left$|^almost done$/.test(at('#left').textContent) &&
			/^(25|50|75) % done$/.test(news.textContent) && getComputedStyle(news).clipPath === 'inset(50%)';
	})(selector => document.querySelector(selector))`)
	if differ := browser.Eval[[]string](p, "differ"); len(differ) > 0 {
		t.Errorf("words and bar: %q", differ)
	}
	p.Screenshot("room-progress")
}

// TestRoomForm: a form is sent again to the byte, though a field of it is called submit.
func TestRoomForm(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d, bank := newDoor(t), newDoor(t)
	bank.opens = func(int, bool) bool { return true }
	p := browser.Open(t)
	p.Visit(d.url + "/form")
	browser.Eval[bool](p,
		`(document.querySelector('[name=typed]').value = ' &amp; \u00e4 ', document.querySelector('textarea').value = '\n\none\n "two"\n', true)`)
	p.Click("button")
	p.Wait(isIn)
	visits := d.seen()
	if len(visits) != 2 || visits[0] != visits[1] ||
		!strings.HasPrefix(visits[0],
			"POST /send?a=1&b=%22 typed=+%26amp%3B+%C3%A4+&text=%0D%0A%0D%0Aone%0D%0A+%22two%22%0D%0A&submit=") ||
		!strings.Contains(visits[0], "&twice=1&empty=&twice=2&") {
		t.Errorf("visits %q", visits)
	}

	// The site may send its visitors on to elsewhere.
	d.change(func() { d.sends, d.ask.Client = bank.url+"/pay", "somebody else" })
	p.Visit(d.url + "/form")
	p.Click("button")
	p.Wait(isIn)
	if got := p.Location(); got != bank.url+"/pay" {
		t.Errorf("ends at %s", got)
	}
}

// TestRoomLost: what was not kept has to be sent again, and the page says so and leads back to it.
func TestRoomLost(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.dress = func(_ int, r *Room) { r.Lost, r.Form = "What you sent is too large to be kept here.", nil }
	p := browser.Open(t)
	p.Visit(d.url + "/form")
	p.Click("button")
	p.Wait("document.querySelector('#go')?.checkVisibility()")
	if text := p.Text("main"); !strings.Contains(text, "too large to be kept here. You will have to send it again.") ||
		!strings.Contains(text, "You can go on now") {
		t.Errorf("reads %q", text)
	}
	p.Click("#go")
	p.Wait("location.pathname === '/form'")
	browser.Eval[bool](p, "(document.querySelector('button').click(), true)")
	p.Wait(isIn)
	if visits := d.seen(); len(visits) != 2 {
		t.Errorf("visits %q", visits)
	}
}

// TestRoomGivesUp: a page that comes again and again stops by itself, and goes on only when somebody says so.
func TestRoomGivesUp(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	d.ask.Work = 16
	d.opens = func(int, bool) bool { return false }
	p := browser.Open(t)
	const stopped = "document.querySelector('#go')?.checkVisibility() && " +
		"document.querySelector('#news').textContent.includes('five times within a minute')"
	p.Visit(d.url + "/never")
	p.Wait(stopped)
	if visits := d.seen(); len(visits) != 6 {
		t.Errorf("%d visits", len(visits))
	}
	for _, fault := range p.Faults() {
		t.Error(fault)
	}
	p.Screenshot("room-stopped")
	// Another address is another matter.
	d.change(func() { d.opens = func(_ int, paid bool) bool { return paid } })
	p.Visit(d.url + "/other")
	p.Wait(isIn)
	d.change(func() { d.opens, d.visits = func(int, bool) bool { return false }, nil })
	p.Visit(d.url + "/never")
	p.Wait(stopped)
	p.Wait("(window.before = true)") // this page, and not the next one
	p.Click("#go")
	p.Wait("!window.before && " + stopped)
	if visits := d.seen(); len(visits) != 7 {
		t.Errorf("%d visits after the button was pressed once", len(visits))
	}
}

// TestRoomWithoutCookies: without cookies there is no way in, and no work is done in vain.
func TestRoomWithoutCookies(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	p := browser.Open(t)
	p.Cookies(false)
	p.Visit(d.url + "/")
	p.Wait("document.querySelector('#go')?.checkVisibility()")
	if text := p.Text("main"); !strings.Contains(text, "Cookies are off") || !strings.Contains(text, "allow cookies") ||
		strings.Contains(text, "Work done") {
		t.Errorf("reads %q", text)
	}
	for _, fault := range p.Faults() {
		t.Error(fault)
	}
	p.Screenshot("room-cookies")
	p.Cookies(true)
	p.Click("#go")
	p.Wait(isIn)
	if visits := d.seen(); len(visits) != 3 {
		t.Errorf("visits %q", visits)
	}
}

// TestRoomWaits: without scripts the page is a waiting room that lets in by itself.
func TestRoomWaits(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	d.dress = func(n int, r *Room) {
		r.InLine, r.Ahead, r.Estimate = n > 1, 12, 2*time.Minute
	}
	calls := make(chan bool, 1)
	d.opens = func(n int, _ bool) bool {
		select {
		case <-calls:
			return true
		default:
			return false
		}
	}
	p := browser.Open(t)
	p.Scripts(false)
	p.Visit(d.url + "/wait")
	p.Wait("document.body.innerText.includes('12 people are ahead of you, about 2 minutes.')")
	if text := p.Text("main"); strings.Contains(text, "Work done") || !strings.Contains(text, "With JavaScript") ||
		strings.Contains(text, "Try again now") {
		t.Errorf("reads %q", text)
	}
	calls <- true
	p.Wait(isIn)
	if visits := d.seen(); len(visits) < 3 || visits[0] != "GET /wait " {
		t.Errorf("visits %q", visits)
	}

	// Nothing is sent again by itself: there is a button for it.
	d.change(func() { d.visits = nil })
	p.Visit(d.url + "/form")
	p.Click("button")
	p.Wait("document.body.innerText.includes('Try again now')")
	if text := p.Text("main"); !strings.Contains(text, "You are being put in line.") ||
		!strings.Contains(text, "What you sent is kept in this page.") {
		t.Errorf("reads %q", text)
	}
	for _, fault := range p.Faults() {
		t.Error(fault)
	}
	calls <- true
	p.Click("noscript button")
	p.Wait(isIn)
	if visits := d.seen(); len(visits) != 2 || visits[0] != visits[1] {
		t.Errorf("visits %q", visits)
	}
}

// TestRoomTwoTabs: whoever pays in one tab has paid in the other, except where a stamp is for one request only.
func TestRoomTwoTabs(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	d.ask.Work = 1 << 40 // nobody does that
	p := browser.Open(t)
	p.Processors(1)
	other := p.Tab()
	p.Visit(d.url + "/one")
	p.Wait("document.querySelector('#work')?.checkVisibility()")
	d.change(func() { d.ask.Work = 16 })
	other.Visit(d.url + "/two")
	other.Wait(isIn)
	p.Wait(isIn)
	if visits := d.seen(); len(visits) != 4 {
		t.Errorf("visits %q", visits)
	}
	d.change(func() {
		d.visits, d.ask.Work = nil, 1<<40
		d.dress = func(_ int, r *Room) { r.Cookie = StampCookie + "-message" }
	})
	p.Visit(d.url + "/one")
	p.Wait("document.querySelector('#work')?.checkVisibility()")
	d.change(func() { d.ask.Work = 16 })
	other.Visit(d.url + "/one")
	other.Wait(isIn)
	// The page looks every second, and once more when it is told to.
	browser.Eval[bool](p, "document.dispatchEvent(new Event('visibilitychange'))")
	if text := p.Text("main"); !strings.Contains(text, "Work done") {
		t.Errorf("a stamp for one request was used for two: %q", text)
	}
}

// TestRoomExpired: a puzzle that is too old is not worked on any more.
func TestRoomExpired(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	d.ask.Work, d.ask.Lifetime = 1<<40, time.Millisecond
	d.dress = func(n int, r *Room) {
		if n == 2 {
			d.ask.Work, d.ask.Lifetime = 16, time.Minute
		}
	}
	p := browser.Open(t)
	p.Visit(d.url + "/")
	p.Wait(isIn)
	if visits := d.seen(); len(visits) != 3 {
		t.Errorf("visits %q", visits)
	}
}

// TestRoomCannotWork: where a browser cannot do the work, it waits in line like those without scripts.
func TestRoomCannotWork(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	cases := map[string]struct {
		spoil    func(d *door)
		tolerate string
	}{
		"no solver": {func(d *door) { d.assets = NewAssets(nil) }, "solver.js"},
		"old browser": {func(d *door) { d.assets = NewAssets(map[string][]byte{"solver.js": []byte("let let = 1n")}) },
			"SyntaxError"},
		"no workers": {func(d *door) {
			d.policy = strings.Replace(RoomPolicy, "worker-src 'self'", "worker-src 'none'",
				1)
		}, "worker"},
		"broken worker": {func(d *door) {
			d.assets = NewAssets(map[string][]byte{"solver.js": bytes.Replace(stamp.Scripts()["solver.js"],
				[]byte("const job = e.data;"), []byte("throw 0;"), 1)})
		}, "Uncaught"},
		"nothing to do": {func(d *door) { d.ask.Work = 0 }, "none"},
	}
	doors := map[string]*door{}
	for name, c := range cases {
		doors[name] = newDoor(t)
		c.spoil(doors[name])
	}
	p := browser.Open(t)
	for name, c := range cases {
		d := doors[name]
		calls := make(chan bool, 1)
		d.change(func() {
			d.dress = func(n int, r *Room) { r.InLine, r.Ahead = n > 1, 1 }
			d.opens = func(n int, _ bool) bool { return n > 1 && len(calls) > 0 }
		})
		p.Tolerate(c.tolerate)
		p.Visit(d.url + "/" + url.PathEscape(name))
		p.Wait("document.body.innerText.includes('1 person is ahead of you. Nobody can tell how long it will take.')")
		if text := p.Text("main"); strings.Contains(text, "Work done") {
			t.Errorf("%s: reads %q", name, text)
		}
		calls <- true
		p.Wait(isIn)
	}
}

// states are what the room may look like.
var states = map[string]struct {
	work    stamp.Work
	scripts bool
	post    bool
	dress   func(r *Room)
	words   []string
}{
	"solving": {1 << 40, true, false, func(*Room) {},
		[]string{"very busy", "doing a little work", "Work done", "quote the request 0000-id"}},
	"form": {1 << 40, true, true, func(*Room) {}, []string{"the page opens by itself"}},
	"lost": {1 << 40, true, true, func(r *Room) {
		r.Lost, r.Form = "What you sent is not a simple form, and was not kept.", nil
	},
		[]string{"was not kept. You will have to send it again."}},
	"line": {0, true, false, func(r *Room) { r.InLine, r.Ahead, r.Estimate = true, 1234, 11*time.Minute },
		[]string{"1234 people are ahead of you, about 11 minutes."}},
	"full": {0, true, false, func(r *Room) { r.Full = true },
		[]string{"The line is full right now.", "tries again every 10 minutes"}},
	"no-line": {0, true, false, func(r *Room) { r.Reload = 0 },
		[]string{"There is no line to wait in.", "Try again"}},
	"off-first": {1 << 40, false, false, func(*Room) {},
		[]string{"You are being put in line.", "With JavaScript", "open it in its own tab",
			"A download starts by itself."}},
	"off-line": {1 << 40, false, false, func(r *Room) { r.InLine, r.Ahead, r.Estimate = true, 0, 0 },
		[]string{"You are next. Nobody can tell"}},
	"off-form": {1 << 40, false, true, func(r *Room) { r.InLine, r.Ahead = true, 3 },
		[]string{"kept in this page", "Try again now"}},
	"off-lost": {1 << 40, false, true, func(r *Room) {
		r.Lost, r.Form, r.TooMany = "What you sent was not kept.", nil,
			true
	},
		[]string{"Too many in your network", "Please go back in 10 minutes"}},
}

// inState shows the room in a state.
func (d *door) inState(p *browser.Page, name string) {
	s := states[name]
	d.change(func() {
		d.ask.Work = s.work
		d.dress = func(_ int, r *Room) {
			if r.Reload = 10 * time.Minute; s.post {
				r.Form = &Form{}
			}
			s.dress(r)
		}
	})
	p.Scripts(s.scripts)
	p.Visit(d.url + "/")
	if s.work > 0 && s.scripts {
		p.Wait("document.querySelector('#work')?.checkVisibility()")
	}
}

// idle has the workers of the room take their work and never get anywhere, as on a slow device: whoever looks at the
// page has the processor. That the work is done is for other tests.
func (d *door) idle() {
	script := "if (!self.document) Object.defineProperty(self, 'onmessage', {set() {}});\n"
	d.assets = NewAssets(map[string][]byte{"solver.js": append([]byte(script), stamp.Scripts()["solver.js"]...)})
}

// TestRoomLooks holds every state of the page against what every page must fulfil, on all screens, by day and by night,
// and takes pictures of it. axe-core finds nothing wrong with it, but that it comes again by itself: whoever cannot run
// scripts has no other way to wait.
func TestRoomLooks(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	d := newDoor(t)
	d.idle()
	p := browser.Open(t)
	p.Speaks("en-GB")
	every := needs.Long() || os.Getenv("WEIR_SCREENSHOTS") != ""
	screens := []browser.Screen{{Name: "320", Width: 320, Height: 568, Phone: true},
		{Name: "1280", Width: 1280, Height: 800}}
	if every {
		screens = append(screens, browser.Screen{Name: "768", Width: 768, Height: 1024, Phone: true})
	}
	for i, screen := range screens {
		p.Show(screen)
		for j, scheme := range browser.Schemes {
			if i != j && !every { // each screen and each scheme once
				continue
			}
			p.Prefer(scheme)
			for name, s := range states {
				at := "room-" + name + "-" + screen.Name + "-" + scheme
				d.inState(p, name)
				text := p.Text("body")
				for _, want := range s.words {
					if !strings.Contains(text, want) {
						t.Errorf("%s: no %q in %q", at, want, text)
					}
				}
				p.Screenshot(at)
				faults := p.Faults()
				if i == 0 || every {
					p.Scripts(true) // for axe-core; the page is there already
					faults = append(faults, p.Axe("meta-refresh", browser.Contrast)...)
				}
				for _, fault := range faults {
					t.Errorf("%s: %s", at, fault)
				}
			}
		}
	}
}

// TestRoomEscapes: what the client sent cannot break out of the page.
func TestRoomEscapes(t *testing.T) {
	const evil = `"><script>alert(1)</script>'`
	page := string(renderRoom(&Room{Puzzle: evil, Cookie: evil, Form: &Form{evil,
		[]FormField{{evil, evil}}}, RequestID: evil}))
	if strings.Contains(page, "<script>") || strings.Count(page, "alert(1)") < 5 {
		t.Errorf("%s", page)
	}
	if page := string(renderRoom(&Room{Form: &Form{Action: "javascript:alert(1)"}})); strings.Contains(page,
		"javascript:") {
		t.Errorf("%s", page)
	}
}

// TestRoomWords: everybody reads where they are and what to do.
func TestRoomWords(t *testing.T) {
	for want, r := range map[string]Room{
		"You are being put in line. This page checks every second whether it is your turn, by itself. Please leave it " +
			"open.": {Reload: time.Second},
		"You are next. Nobody can tell how long it will take. This page checks every 5 seconds whether it is your " +
			"turn, by itself.": {Reload: 5 * time.Second, InLine: true},
		"You are next, about 3 seconds. ": {Reload: time.Second, InLine: true,
			Estimate: 2500 * time.Millisecond},
		"1 person is ahead of you, about 2 minutes. ": {Reload: time.Second, InLine: true, Ahead: 1,
			Estimate: 2 * time.Minute},
		"2000000 people are ahead of you. Nobody can tell":    {Reload: time.Second, InLine: true, Ahead: 2000000},
		"The line is full right now. This page tries again":   {Reload: time.Second, InLine: true, Full: true},
		"Too many in your network are in line already. This":  {Reload: time.Second, TooMany: true},
		"There is no line to wait in. Please try again after": {InLine: true},
		"You are being put in line. What you sent is kept in this page. Please try again in 1 second: your place is " +
			"kept until then, and a while": {Reload: time.Second, Form: &Form{}},
		"The line is full right now. What you sent is kept in this page. Please try again in 1 second: there may be " +
			"room by then.": {Reload: time.Second, Form: &Form{}, Full: true},
		"You are being put in line. Please go back in 1 second, and send it again: your place is kept": {Reload: time.Second, Lost: "x"},
		"The line is full right now. Please go back in 1 second, and send it again: there may be room": {Reload: time.Second, Lost: "x", Full: true},
		"There is no line to wait in. Please go back after a while, and send it again.":                {Lost: "x"},
	} {
		if got := r.Place() + " " + r.Next(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
