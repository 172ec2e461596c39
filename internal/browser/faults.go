package browser

import (
	_ "embed"
	"slices"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// faultsJS finds faults that need no keyboard.
//
//go:embed faults.js
var faultsJS string

// focusJS tells of the element that has the focus.
//
//go:embed focus.js
var focusJS string

// targetsJS lists the controls of the page, by the names that focusJS uses.
// A page that keeps itself up to date would remove an attribute, so they are kept beside it.
const targetsJS = `(() => {
	const names = window.targetNames ??= new WeakMap();
	return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
		.filter(e => e.checkVisibility({visibilityProperty: true}))
		.map(e => names.get(e) ?? (names.set(e, '' + Math.random()), names.get(e)));
})()`

// Faults returns what is wrong with a page. Every page has a language, a title and one h1. Nothing is wider than the
// screen. Text has enough contrast (WCAG 2.2, 1.4.3, as for small text). Every control is reached with the Tab key and
// then shows that it has the focus. Call it once after a visit.
func (p *Page) Faults() []string {
	p.t.Helper()
	return slices.Concat(Eval[[]string](p, faultsJS), p.keyboard())
}

// keyboard walks through the page with the Tab key.
func (p *Page) keyboard() (faults []string) {
	p.t.Helper()
	targets := Eval[[]string](p, targetsJS)
	type focus struct {
		Target, Name string
		Visible      bool
	}
	const most = 100 // areas that scroll take the focus as well
	for range most {
		run(p, "press Tab", chromedp.KeyEvent(kb.Tab))
		f := Eval[*focus](p, focusJS)
		if f == nil {
			break // once around
		}
		if !f.Visible {
			faults = append(faults, "the focus cannot be seen on "+f.Name)
		}
		targets = slices.DeleteFunc(targets, func(t string) bool { return t == f.Target })
	}
	for range targets {
		faults = append(faults, "something cannot be reached with the Tab key")
	}
	return faults
}
