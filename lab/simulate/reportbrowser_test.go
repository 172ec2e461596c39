package simulate

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// reportServer serves the report of a study, as if it were a file: with no header that helps it.
func reportServer(t *testing.T, s *Study) string {
	t.Helper()
	page := written(t, s)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, page)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// A drawn plot, as the browser laid it out.
type drawn struct {
	ID      string
	Nothing bool   // it says that there is nothing to show
	Name    string // for those who do not see it
	X, Y    string // titles
	XTicks  []string
	YTicks  []string
	Marks   int // with an extent
	Lines   int
	Legend  []string
	Values  []string // marked ones
	Outside []string // texts that leave the picture, or lie on another
}

// drawnJS measures every plot of the page.
const drawnJS = `[...document.querySelectorAll('figure')].map(f => {
	const all = (s, of = f) => [...of.querySelectorAll(s)], texts = s => all(s).map(e => e.textContent);
	const svg = f.querySelector('svg.plot');
	if (!svg) return {ID: f.id, Nothing: f.innerText.includes('Nothing to show')};
	const room = svg.getBoundingClientRect(), outside = [];
	const leaves = e => { const b = e.getBoundingClientRect(); return b.left < room.left - 1 || b.right > room.right + 1 || b.top < room.top - 1 || b.bottom > room.bottom + 1 };
	for (const e of all('text.tick, text.title, text.mark')) if (leaves(e)) outside.push('leaves: ' + e.textContent);
	for (const e of all('text.tip')) { const b = e.getBoundingClientRect(); if (b.left < 0 || b.right > document.documentElement.clientWidth) outside.push('leaves the page: ' + e.textContent); }
	for (const of of ['text.tick.x', 'text.tick.y', 'text.mark, text.title.y']) {
		const boxes = all(of).map(e => [e, e.getBoundingClientRect()]);
		boxes.forEach(([e, a], i) => boxes.slice(i + 1).forEach(([o, b]) => {
			if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) outside.push(e.textContent + ' lies on ' + o.textContent);
		}));
	}
	const extent = e => { const b = e.getBBox(); return b.width > 0 && b.height > 0 };
	const label = svg.getAttribute('aria-labelledby').split(' ').map(id => document.getElementById(id).textContent).join(': ');
	return {
		ID: f.id, Name: label, X: texts('text.title.x').join(), Y: texts('text.title.y').join(), XTicks: texts('text.tick.x'), YTicks: texts('text.tick.y'),
		Marks: all('.sign, .bar', svg).filter(extent).length, Lines: all('path.line', svg).filter(e => e.getTotalLength() > 1).length,
		Legend: all('.legend li').map(e => { const s = getComputedStyle(e.querySelector('.line, .bar')), u = e.querySelector('use'); return [e.innerText.trim(), s.strokeDasharray, s.fill.startsWith('url'), u && u.getAttribute('href')].join('|') }),
		Values: texts('text.mark'), Outside: outside,
	};
})`

// TestReportInBrowser: an operator opens the file, wherever and on whatever, and sees everything.
func TestReportInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	url, oddities := reportServer(t, sample()), map[string]string{}
	for name, s := range odd() {
		oddities[name] = reportServer(t, s)
	}
	p := browser.Open(t)
	for i, screen := range browser.Screens {
		for _, scheme := range browser.Schemes {
			at := "report-" + screen.Name + "-" + scheme
			p.Show(screen)
			p.Prefer(scheme)
			p.Visit(url)
			found := browser.Eval[[]drawn](p, drawnJS)
			if len(found) != len(plotIDs) {
				t.Errorf("%s: %d plots", at, len(found))
			}
			for _, d := range found {
				checkDrawn(t, at, d)
				if !slices.Contains(plotIDs, d.ID) || d.Nothing || d.Marks < 5 {
					t.Errorf("%s: %+v", at, d)
				}
				if several := slices.Contains([]string{"reach", "growth"}, d.ID); several != (len(d.Legend) > 1) {
					t.Errorf("%s, %s: legend %q", at, d.ID, d.Legend)
				}
				if chosen := slices.Contains(plotIDs[:5], d.ID); chosen != (len(d.Values) > 0 &&
					strings.HasPrefix(d.Values[0], "used")) {
					t.Errorf("%s, %s: marks %q", at, d.ID, d.Values)
				}
			}
			// The texts of pictures have a color of their own.
			for _, faint := range browser.Eval[[]string](p, faintJS) {
				t.Errorf("%s: %s", at, faint)
			}
			if browser.Eval[int](p, "document.scripts.length") != 0 {
				t.Errorf("%s: scripts", at)
			}
			picture(p, at)
			if i == 0 && scheme == "light" { // it takes a while, and colors are looked at below
				for _, found := range p.Axe() {
					t.Errorf("%s: %s", at, found)
				}
			}
			for _, fault := range p.Faults() {
				t.Errorf("%s: %s", at, fault)
			}
		}
	}
	lookAtOdd(t, p, oddities)
}

// lookAtOdd: pictures of odd logs keep their shape, where there is the least room for them.
func lookAtOdd(t *testing.T, p *browser.Page, urls map[string]string) {
	p.Show(browser.Screens[0])
	for name, url := range urls {
		p.Visit(url)
		for _, d := range browser.Eval[[]drawn](p, drawnJS) {
			checkDrawn(t, name, d)
		}
		picture(p, "report-"+name)
		if wide := browser.Eval[int](p,
			"document.documentElement.scrollWidth"); wide > 360 {
			t.Errorf("%s: %d wide", name, wide)
		}
	}
}

// picture is for a person to look at. It takes a while, of a page so long.
func picture(p *browser.Page, name string) {
	if os.Getenv("WEIR_SCREENSHOTS") != "" {
		p.Screenshot(name)
	}
}

// checkDrawn holds a plot against what every plot must fulfil.
func checkDrawn(t *testing.T, at string, d drawn) {
	t.Helper()
	if d.Nothing {
		return
	}
	if len(d.Outside) > 0 {
		t.Errorf("%s, %s: %q", at, d.ID, d.Outside)
	}
	if d.Marks == 0 || len(d.Name) < 20 {
		t.Errorf("%s: draws nothing, or says nothing: %+v", at, d)
	}
	if d.X == "" || d.Y == "" || len(d.YTicks) < 2 {
		t.Errorf("%s: no axes: %+v", at, d)
	}
	looks := map[string]bool{}
	for _, l := range d.Legend {
		_, look, _ := strings.Cut(l, "|")
		if looks[look] {
			t.Errorf("%s, %s: differ in nothing but color: %q", at, d.ID, d.Legend)
		}
		looks[look] = true
	}
}

// faintJS finds texts of pictures that do not stand out from the page.
const faintJS = `(() => {
	const pixel = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
	const light = css => {
		pixel.fillStyle = css;
		pixel.fillRect(0, 0, 1, 1);
		const [r, g, b] = [...pixel.getImageData(0, 0, 1, 1).data].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
	};
	const page = light(getComputedStyle(document.documentElement).backgroundColor);
	const ratio = l => Math.max(l, page) / Math.min(l, page);
	return [...document.querySelectorAll('svg.plot text')].filter(e => ratio(light(getComputedStyle(e).fill)) < 4.5).map(e => 'faint text: ' + e.textContent)
		.concat([...document.querySelectorAll('svg.plot .line')].filter(e => ratio(light(getComputedStyle(e).stroke)) < 3).map(e => 'faint line: ' + e.outerHTML));
})()`
