package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"weir/internal/testkit/needs"
)

// bound is the longest that one step may take, the start included.
const bound = 2 * time.Minute

// A page may speak to this machine only. It has two names, as they are two sites for a browser, whatever their ports.
const (
	home  = "127.0.0.1"
	other = "localhost"
)

// names are those under which Chromium is installed. The first two are the headless shell, which has no windows to care
// for and needs a third of the processor time. Debian's comes with a script that would stay between the test and the
// browser, so it is started by its path.
var names = []string{"chrome-headless-shell", "/usr/lib/chromium/chromium-headless-shell", "chromium",
	"chromium-browser", "google-chrome"}

// A Page is one tab of a Chromium. It belongs to the test that opened it, and to its goroutine.
type Page struct {
	t          testing.TB
	ctx        context.Context
	scriptless bool // see Scripts

	mu         sync.Mutex
	documents  map[string]bool // pages that were asked for, by URL
	tolerated  []string
	complaints []string
	collectors sync.WaitGroup
}

// Open opens a tab that ends with the test, in a Chromium of its own or, where the package has Main, in the one that
// its tests share: there it has cookies, storage and a cache of its own. Open it after the server that it visits, so
// that it is gone before the server is stopped. What the browser complained about by then, and no test took, fails the
// test.
func Open(t testing.TB) *Page {
	t.Helper()
	path := find(t, names)
	ctx, end, err := shared.visitor(path)
	if err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	p := newPage(t, ctx)
	t.Cleanup(func() {
		p.close()
		end()
		p.collectors.Wait()
		p.judge()
	})
	p.watch()
	return p
}

// Tab opens another tab of the same browser, for a visitor who looks at two pages at once. It is closed with the test.
func (p *Page) Tab() *Page {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	tab := newPage(p.t, ctx)
	p.t.Cleanup(func() {
		tab.close()
		cancel()
		tab.collectors.Wait()
		tab.judge()
	})
	if err := chromedp.Do(ctx); err != nil {
		p.t.Fatalf("browser: no second tab: %v", err)
	}
	tab.watch()
	return tab
}

// Frame finds a frame of another site in the page, by how its address begins. It waits until the frame is there.
func (p *Page) Frame(address string) *Page {
	p.t.Helper()
	var frame *target.Info
	needs.Wait(p.t, "a frame at "+address, func() bool {
		found, err := chromedp.Targets(p.ctx)
		if err != nil {
			p.t.Fatalf("browser: frames: %v", err)
		}
		i := slices.IndexFunc(found, func(f *target.Info) bool {
			return f.Type == "iframe" && p.owns(f) && strings.HasPrefix(f.URL, address)
		})
		if i >= 0 {
			frame = found[i]
		}
		return i >= 0
	})
	return p.inFrame(chromedp.WithTargetID(frame.TargetID))
}

// owns reports whether a target is the visitor's. Other tests may visit the same browser.
func (p *Page) owns(t *target.Info) bool {
	visitor := chromedp.FromContext(p.ctx).BrowserContextID
	return visitor == "" || t.BrowserContextID == visitor
}

func (p *Page) inFrame(which chromedp.ContextOption) *Page {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx, which, chromedp.WithDetachOnCancel())
	frame := newPage(p.t, ctx)
	p.t.Cleanup(func() {
		cancel()
		frame.collectors.Wait()
		frame.judge()
	})
	if err := chromedp.Do(ctx); err != nil {
		p.t.Fatalf("browser: no way into the frame: %v", err)
	}
	frame.listen()
	return frame
}

func newPage(t testing.TB, ctx context.Context) *Page {
	return &Page{t: t, ctx: ctx, documents: map[string]bool{}}
}

// judge fails the test for what nobody took.
func (p *Page) judge() {
	for _, c := range p.Complaints() {
		p.t.Errorf("browser: %s", c)
	}
}

// watch begins to look after the tab.
func (p *Page) watch() {
	p.t.Helper()
	p.listen()
	run(p, "watch the requests", chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		if _, err := cdp.Call(ctx, tab, fetch.Enable, fetch.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, tab, emulation.SetFocusEmulationEnabled,
			emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	}))
}

// find returns the path of a Chromium. Where there is none the test is skipped, or fails where everything must be
// tested.
func find(t testing.TB, names []string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	needs.Skip(t,
		fmt.Sprintf("no browser: there is none of %q; 'make setup' or 'apt-get install chromium-headless-shell' gets one",
			names))
	return ""
}

// close asks the browser to close the tab, and to end by itself where it is the test's own, so that none of its
// processes stays.
func (p *Page) close() {
	if c := chromedp.FromContext(p.ctx); c.Browser == nil {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, bound)
	defer cancel()
	if err := chromedp.Cancel(ctx); err != nil {
		p.t.Logf("browser: close: %v", err)
	}
}

// run takes one step, within the bound.
func run[T any](p *Page, what string, step chromedp.Action[T]) T {
	p.t.Helper()
	v, err := try(p, step)
	if err != nil {
		p.t.Fatalf("browser: %s: %v", what, err)
	}
	return v
}

func try[T any](p *Page, step chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, bound)
	defer cancel()
	return chromedp.Run(ctx, step)
}

// listen collects what the browser complains about, and keeps the page at home.
func (p *Page) listen() {
	tab := chromedp.FromContext(p.ctx).Target
	collect(p, tab, runtime.ExceptionThrown, func(ev runtime.EventExceptionThrown) {
		text := ev.ExceptionDetails.Text
		if x := ev.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		p.complain("exception: " + text)
	})
	collect(p, tab, runtime.ConsoleAPICalled, func(ev runtime.EventConsoleAPICalled) {
		if ev.Type != runtime.ConsoleAPICalledTypeError && ev.Type != runtime.ConsoleAPICalledTypeAssert {
			return
		}
		text := "console error:"
		for _, arg := range ev.Args {
			text += " " + string(arg.Value) + arg.Description
		}
		p.complain(text)
	})
	collect(p, tab, log.EntryAdded, func(ev log.EventEntryAdded) {
		if ev.Entry.Level != log.EntryLevelError && ev.Entry.Source != log.EntrySourceSecurity {
			return
		}
		address, _, _ := strings.Cut(ev.Entry.URL, "#")
		p.mu.Lock()
		document := ev.Entry.Source == log.EntrySourceNetwork && p.documents[address]
		p.mu.Unlock()
		if !document { // the status of the document itself is for the test to judge
			p.complain(fmt.Sprintf("%s: %s (%s)", ev.Entry.Source, ev.Entry.Text, ev.Entry.URL))
		}
	})
	collect(p, tab, fetch.RequestPaused, func(ev fetch.EventRequestPaused) {
		// An error here means that the page went away, and the request with it.
		if ev.ResourceType == network.ResourceTypeDocument {
			p.mu.Lock()
			p.documents[ev.Request.URL] = true
			p.mu.Unlock()
		}
		if local(ev.Request.URL) {
			_, _ = cdp.Call(p.ctx, tab, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: ev.RequestID})
			return
		}
		p.complain("reaches outside: " + ev.Request.URL)
		_, _ = cdp.Call(p.ctx, tab, fetch.FailRequest,
			fetch.FailRequestParams{RequestID: ev.RequestID, ErrorReason: network.ErrorReasonBlockedByClient})
	})
}

// collect hands every event to f until the tab is gone; none that came before is lost.
func collect[E any](p *Page, tab *chromedp.Target, event cdp.Event[E], f func(E)) {
	events := cdp.Events(context.Background(), tab, event)
	p.collectors.Go(func() {
		for ev, err := range events {
			if err != nil {
				p.complain(err.Error())
				return
			}
			f(ev)
		}
	})
}

// local reports whether a URL stays on this machine.
func local(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	return u.Scheme == "data" || u.Scheme == "about" || u.Hostname() == home || u.Hostname() == other
}

func (p *Page) complain(c string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.tolerated, func(t string) bool { return strings.Contains(c, t) }) {
		return
	}
	p.complaints = append(p.complaints, c)
}

// Complaints takes what the browser has complained about: errors on its console, exceptions, violations of the page's
// policy, resources that did not load, requests to elsewhere. They come a moment after their cause.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.complaints
	p.complaints = nil
	return taken
}

// Tolerate lets complaints pass that contain a text: a fetch that is refused is written on the console even where the
// page expected it.
func (p *Page) Tolerate(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tolerated = append(p.tolerated, text)
}

// A Screen is what the page is shown on.
type Screen struct {
	Name          string
	Width, Height int64
	Phone         bool
}

// Screens are those that every page is made for.
var Screens = []Screen{{"phone", 360, 640, true}, {"desktop", 1280, 800, false}}

func (p *Page) Show(s Screen) {
	p.t.Helper()
	options := []chromedp.EmulateViewportOption{func(m *emulation.SetDeviceMetricsOverrideParams,
		_ *emulation.SetTouchEmulationEnabledParams) {
		m.ScreenWidth, m.ScreenHeight = s.Width, s.Height
	}}
	if s.Phone {
		options = append(options, chromedp.EmulatePortrait, chromedp.EmulateMobile, chromedp.EmulateScale(2))
	}
	run(p, "show on a "+s.Name, chromedp.EmulateViewport(s.Width, s.Height, options...))
}

// Schemes are the color schemes that a visitor may prefer.
var Schemes = []string{"light", "dark"}

// Prefer sets the color scheme that the visitor prefers.
func (p *Page) Prefer(scheme string) {
	p.t.Helper()
	run(p, "prefer "+scheme, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// Visit goes to a URL and waits until the page is there.
func (p *Page) Visit(url string) (status int, header http.Header) {
	p.t.Helper()
	res, err := try(p, chromedp.NavigateResponse(url))
	// A page that is on its way elsewhere, as after a click, may abort this one. It gets there once.
	for again := 0; err != nil && strings.Contains(err.Error(), "net::ERR_ABORTED") && again < 3; again++ {
		res, err = try(p, chromedp.NavigateResponse(url))
	}
	if err != nil {
		p.t.Fatalf("browser: visit %s: %v", url, err)
	}
	if res == nil {
		p.t.Fatalf("browser: visit %s: no response", url)
	}
	header = http.Header{}
	for name, value := range res.Headers {
		header.Add(name, fmt.Sprint(value))
	}
	return int(res.Status), header
}

// Text returns the text that a visitor reads in the first element that a CSS selector finds.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return run(p, "read "+selector,
		chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)))
}

// Style returns a property of the first element that a CSS selector finds, as computed.
func (p *Page) Style(selector, property string) string {
	p.t.Helper()
	return run(p, "style of "+selector, chromedp.Evaluate[string](
		fmt.Sprintf("(e => e ? getComputedStyle(e).getPropertyValue(%q) : '')(document.querySelector(%q))", property,
			selector)))
}

// Screenshot leaves a picture of the whole page in the folder of WEIR_SCREENSHOTS, where that is set.
func (p *Page) Screenshot(name string) {
	p.t.Helper()
	folder := os.Getenv("WEIR_SCREENSHOTS")
	if folder == "" {
		return
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), p.picture(), 0o666); err != nil {
		p.t.Fatal(err)
	}
}

// picture returns what the whole page looks like, as PNG.
func (p *Page) picture() []byte {
	p.t.Helper()
	return run(p, "screenshot", chromedp.FullScreenshot(100))
}

// Inspect visits a URL, holds the page against what every page must fulfil, asks axe-core, takes the page's picture
// under the name, and calls look for the rest. How wide the page is depends on the screen, and contrast on the color
// scheme, so two visits show every screen and every scheme. For "make long", and where pictures are wanted, there is
// one for each pair.
func (p *Page) Inspect(name, url string, look func(at string, status int, header http.Header)) {
	p.t.Helper()
	every := needs.Long() || os.Getenv("WEIR_SCREENSHOTS") != ""
	for i, screen := range Screens {
		for j, scheme := range Schemes {
			if i != j && !every {
				continue
			}
			at := name + "-" + screen.Name + "-" + scheme
			p.Show(screen)
			p.Prefer(scheme)
			status, header := p.Visit(url)
			look(at, status, header)
			p.Screenshot(at)
			faults := p.Faults()
			// Most that axe-core looks at is the same everywhere. A phone has tables that are none to look at.
			if screen.Phone || every {
				faults = append(faults, p.Axe(Contrast)...)
			}
			for _, fault := range faults {
				p.t.Errorf("%s: %s", at, fault)
			}
		}
	}
}
