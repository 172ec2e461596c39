package browser

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// faultsJS finds faults that need no keyboard.
//
//go:embed faults.js
var faultsJS string

// walkJS lists the controls of the page and notes from then on which one has the focus whenever Tab is pressed.
//
//go:embed walk.js
var walkJS string

// Faults returns what is wrong with a page. Every page has a language, a title and one h1. Nothing is wider than the
// screen. Text has enough contrast (WCAG 2.2, 1.4.3, as for small text). Every control is reached with the Tab key and
// then shows that it has the focus. Call it once after a visit.
func (p *Page) Faults() []string {
	p.t.Helper()
	return slices.Concat(Eval[[]string](p, faultsJS), p.keyboard())
}

// keyboard walks through the page with the Tab key. The page itself notes where the focus is, so that many presses need
// one answer, and the browser does not have to paint every one of them.
func (p *Page) keyboard() (faults []string) {
	p.t.Helper()
	if p.scriptless { // the page has none by now; the listener is one
		p.Scripts(true)
		defer p.Scripts(false)
	}
	targets := Eval[[]string](p, walkJS)
	const most = 100 // areas that scroll take the focus as well
	for pressed, presses, around := 0, len(targets)+1, false; pressed < most && !around; presses = 10 {
		pressed += presses
		for _, f := range p.tab(presses) {
			if around = f == nil; around {
				break
			}
			if !f.Visible {
				faults = append(faults, "the focus cannot be seen on "+f.Name)
			}
			targets = slices.DeleteFunc(targets, func(t string) bool { return t == f.Target })
		}
	}
	for range targets {
		faults = append(faults, "something cannot be reached with the Tab key")
	}
	return faults
}

// focus is what the page notes of the element that has the focus.
type focus struct {
	Target, Name string
	Visible      bool
}

// tab presses Tab n times and returns where the focus was after each. It is nil after the last control.
func (p *Page) tab(n int) []*focus {
	p.t.Helper()
	down := kb.Encode('\t')[0]
	run(p, "press Tab", chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		// One does not wait for the other. As they are all the same, their order does not matter.
		var presses sync.WaitGroup
		failed := make([]error, n)
		for i := range n {
			presses.Go(func() { _, failed[i] = cdp.Call(ctx, tab, input.DispatchKeyEvent, *down) })
		}
		presses.Wait()
		return errors.Join(failed...)
	}))
	return Eval[[]*focus](p, "takeWalk()")
}
