package browser

import (
	"context"
	"fmt"
	"time"

	downloads "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Scripts turns JavaScript on and off, from the next visit on. What a test itself asks of the page still works.
func (p *Page) Scripts(on bool) {
	p.t.Helper()
	p.scriptless = !on
	set(p, "scripts", emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
}

// Cookies lets scripts use cookies, or not, as a visitor may decide. From the next visit on.
func (p *Page) Cookies(on bool) {
	p.t.Helper()
	set(p, "cookies", emulation.SetDocumentCookieDisabled, emulation.SetDocumentCookieDisabledParams{Disabled: !on})
}

// Processors tells pages that there are this many, from the next visit on. A page that works all the time leaves the
// others to other tests.
func (p *Page) Processors(n int64) {
	p.t.Helper()
	set(p, "processors", emulation.SetHardwareConcurrencyOverride,
		emulation.SetHardwareConcurrencyOverrideParams{HardwareConcurrency: n})
}

// Speaks sets the languages that the visitor prefers, as Accept-Language has them: de-AT,de. From the next visit on.
func (p *Page) Speaks(languages string) {
	p.t.Helper()
	agent := Eval[string](p, "navigator.userAgent")
	set(p, "speak "+languages, emulation.SetUserAgentOverride,
		emulation.SetUserAgentOverrideParams{UserAgent: agent, AcceptLanguage: languages})
}

func set[P, R any](p *Page, what string, command cdp.Command[P, R], params P) {
	p.t.Helper()
	run(p, what, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, command, params)
		return err
	}))
}

// Click clicks on the first element that a CSS selector finds, when it can be seen.
func (p *Page) Click(selector string) {
	p.t.Helper()
	run(p, "click on "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// Press presses a key, by the name that KeyboardEvent.key has for it.
func (p *Page) Press(key string) {
	p.t.Helper()
	run(p, "press "+key, chromedp.KeyEvent(keys[key]))
}

// keys are those that Press knows.
var keys = map[string]string{"ArrowLeft": kb.ArrowLeft, "ArrowRight": kb.ArrowRight, "Home": kb.Home, "End": kb.End,
	"Escape": kb.Escape, "Enter": kb.Enter, "Tab": kb.Tab}

// Back starts to go back to the page before. The browser may have kept that page, so there is no event when it is
// there: use Wait.
func (p *Page) Back() {
	p.t.Helper()
	Eval[bool](p, "setTimeout(() => history.back()), true")
}

// Downloads returns the folder that the browser saves files in from now on.
func (p *Page) Downloads() string {
	p.t.Helper()
	folder := p.t.TempDir()
	set(p, "downloads", downloads.SetDownloadBehavior,
		downloads.SetDownloadBehaviorParams{Behavior: downloads.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder,
			BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID})
	return folder
}

// Location is the address that the visitor sees.
func (p *Page) Location() string {
	p.t.Helper()
	return run(p, "location", chromedp.Location())
}

// Eval returns what an expression of JavaScript comes to in the page. It does not wait for a promise: see Await.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	return run(p, "evaluate "+expression, chromedp.Evaluate[T](expression))
}

// Await returns what a promise in the page comes to.
func Await[T any](p *Page, expression string) T {
	p.t.Helper()
	return run(p, "await "+expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Wait waits until a condition in JavaScript holds in the page, whichever page that is by then, and all of that page is
// there.
func (p *Page) Wait(condition string) {
	p.t.Helper()
	var err error
	// Asking costs time that the page could use, so a condition that takes long is asked for less often.
	pause := 2 * time.Millisecond
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(pause) {
		pause = min(2*pause, 32*time.Millisecond)
		var held bool
		// Between two pages there is nothing that could answer.
		held, err = try(p, chromedp.Evaluate[bool](fmt.Sprintf("document.readyState !== 'loading' && !!(%s)",
			condition)))
		if err == nil && held {
			return
		}
	}
	text, _ := try(p, chromedp.Evaluate[string]("document.body.innerText"))
	p.t.Fatalf("browser: never came true: %s (%v); the page reads %q", condition, err, text)
}
