package console

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"weir/console/access"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// A moving backend is a weir whose figures change while somebody looks.
type moving struct {
	*backend
	mu      sync.Mutex
	line    int // people in line
	gates   int
	version string
}

func (b *moving) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

func (b *moving) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.backend.Status()
	s.Version = b.version
	for i := range b.gates {
		name := fmt.Sprintf("127.0.0.1:%d", 8080+i)
		s.Gates = append(s.Gates, GateStatus{Gate: name, Address: name, Kind: "http",
			Capacity: &Capacity{Concurrent: 100, InUse: b.line, InLine: b.line}})
	}
	return s
}

func (b *moving) History() (all []GateHistory) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.gates {
		h := flooded()
		h.Gate = fmt.Sprintf("127.0.0.1:%d", 8080+i)
		h.Address = h.Gate
		h.Samples[len(h.Samples)-1].Load = float64(b.line)
		all = append(all, h)
	}
	return all
}

// watched begins to note for how long the page sets timers, and which are still to come.
const watched = `(() => {
	const set = setTimeout, clear = clearTimeout;
	window.timers = new Set(), window.delay = 0;
	window.setTimeout = (f, ms) => { const id = set(() => { timers.delete(id); f() }, ms); timers.add(id); delay = ms; return id };
	window.clearTimeout = id => { timers.delete(id); clear(id) };
	return true;
})()`

// TestLive: what changes is seen without a reload, and nothing else moves.
func TestLive(t *testing.T) {
	t.Parallel()
	b := &moving{backend: newBackend(), line: 1, gates: 1, version: "1.2.3"}
	s := newServer(t, Options{Listen: "127.0.0.1:0", WithoutLogin: access.View}, b, NewMetrics("test"))
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	stop := func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	p := browser.Open(t)
	p.Show(browser.Screens[0])
	p.Visit("http://" + s.Addr().String() + "/")
	reads := func(text string) { p.Wait(fmt.Sprintf("document.body.innerText.includes(%q)", text)) }
	holds := func(what, condition string) {
		t.Helper()
		if !browser.Eval[bool](p, condition) {
			t.Errorf("%s: not %s", what, condition)
		}
	}
	reads("in line 1")

	// Somebody is reading: where the focus is, what is selected and how far the page is scrolled must stay.
	browser.Eval[bool](p,
		`document.querySelectorAll('footer a')[1].focus(), window.mark = document.querySelector('meter'), window.path = document.querySelector('.line.load').getAttribute('d'),
		getSelection().selectAllChildren(document.querySelector('td[data-label=mode]')), scrollTo(0, 700), window.at = scrollY, at > 0`)
	b.change(func() { b.line = 7 })
	reads("in line 7")
	holds("the same page", "mark === document.querySelector('meter') && mark.value === 7")
	holds("the focus", "document.activeElement === document.querySelectorAll('footer a')[1]")
	holds("the selection", "getSelection().toString() === 'enforce'")
	holds("the place", "at === scrollY && at > 0")
	holds("the picture", "document.querySelector('.line.load').getAttribute('d') !== path")
	holds("what is said of it", "document.querySelector('[role=img]').getAttribute('aria-label').includes('now 700%')")

	// Gates come and go.
	b.change(func() { b.gates = 3 })
	reads("127.0.0.1:8082")
	holds("the pictures", "document.querySelectorAll('.plot').length === 12")
	b.change(func() { b.gates = 1 })
	p.Wait("document.querySelectorAll('.plot').length === 4")

	// Nobody answers any more, and then somebody does.
	p.Tolerate("403")
	s.Configure(Options{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	reads("The connection is lost")
	p.Screenshot("console-lost-phone-light")
	for _, found := range p.Axe() {
		t.Error(found)
	}
	b.change(func() { b.line = 8 })
	s.Configure(Options{WithoutLogin: access.View})
	reads("in line 8")
	holds("the note", "document.querySelector('#note').textContent === ''")

	// Somebody would rather have it stand still.
	browser.Eval[bool](p, watched)
	p.Wait("timers.size === 1 && delay === 2000")
	p.Click("#pause")
	reads("Paused at")
	holds("while paused", "timers.size === 0 && document.querySelector('#pause').textContent === 'continue'")
	b.change(func() { b.line = 9 })
	p.Click("#pause")
	reads("in line 9")
	p.Wait("timers.size === 1 && document.querySelector('#note').textContent === '' && " +
		"document.querySelector('#pause').textContent === 'pause'")

	// The tab is in the background, where nobody sees it.
	browser.Eval[bool](p,
		`window.hide = on => { Object.defineProperty(document, 'hidden', {value: on, configurable: true}); document.dispatchEvent(new Event('visibilitychange')) }, hide(true), true`)
	p.Wait("timers.size === 0")
	b.change(func() { b.line = 10 })
	browser.Eval[bool](p, "hide(false), true")
	reads("in line 10")

	// Somebody would rather see less move.
	browser.Eval[bool](p, "Object.defineProperty(MediaQueryList.prototype, 'matches', {get: () => true}), true")
	p.Wait("delay === 10000")

	// Another version has come, with another script.
	b.change(func() { b.version = "1.2.4" })
	browser.Eval[bool](p, "hide(true), hide(false), true")
	p.Wait("!window.hide && document.querySelector('.brand').textContent.includes('1.2.4') && " +
		"!document.querySelector('#pause').hidden")

	// weir is gone.
	p.Tolerate("net::ERR_")
	stop()
	reads("The connection is lost")
}

// TestWithoutJavaScript: the page is loaded again by itself, and offers nothing that does not work.
func TestWithoutJavaScript(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	url, _ := serve(t, Options{}, fullBackend{newBackend()})
	p := browser.Open(t)
	p.Scripts(false)
	p.Visit(url + "/")
	if got := browser.Eval[string](p,
		"document.querySelector('meta[http-equiv=refresh]')?.content ?? ''"); got != "10" {
		t.Errorf("comes again after %q", got)
	}
	if text := p.Text("body"); strings.Contains(text, "pause") || !strings.Contains(text, "in line 1204") {
		t.Errorf("reads %q", text)
	}
}

func TestLiveScript(t *testing.T) {
	url, _ := serve(t, Options{}, newBackend())
	code, body, h := get(t, "GET", url+"/live.js", "")
	if code != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/javascript") ||
		h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v", code, h)
	}
	if strings.Contains(body, "http") {
		t.Error("the script names something outside")
	}
	policy := h.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("no %s in %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Error(policy)
	}
}
