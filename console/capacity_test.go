package console

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/console/access"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/policy"
)

// flooding is a weir in the midst of a flood, with all that the page Capacity shows.
func flooding() fullBackend {
	b := newBackend()
	past, _, stamp := underFlood()
	stamp.Held = 22
	b.throttles = append(b.throttles, Throttle{Link: policy.NewLink("stamps", nil, policy.Closed), Kind: "stamp",
		Stamp: stamp})
	at := past.Last().At
	s := Series{Name: past.Gate, Kind: "http", Unit: "requests", Seconds: 1, Columns: map[Measure]Values{}}
	for _, v := range past.Samples {
		s.At = append(s.At, v.At.UnixMilli())
		for m, f := range map[Measure]float64{Load: v.Load, Work: float64(v.Work), WorkSeconds: v.Takes.Seconds(),
			Stamped: v.Stamped, Pooled: v.Pool, Crowded: v.TurnedAway, Waiting: v.Load * 4, InLine: v.Load * 150,
			Admitted: v.Pool} {
			s.Columns[m] = append(s.Columns[m], float32(f))
		}
	}
	b.overview = Overview{At: at, Gates: []GateWatch{{Address: past.Address, Stamps: "stamps", Series: s}},
		Throttles: []ThrottleWatch{{Series: Series{Name: "stamps"}, Payers: []Payer{
			{Kind: "network", Name: "192.0.2.7", Recent: 812, Over: 12, Total: 4711, First: at.Add(-time.Hour), Last: at},
			{Kind: "network", Name: "2001:db8:1234:5678::/64", Recent: 3, Total: 3, First: at, Last: at}}}}}
	return fullBackend{b}
}

// TestCapacityReport: what two looks at weir say about capacities, put together.
func TestCapacityReport(t *testing.T) {
	b := flooding()
	r := capacityOf(b.Status(), b.overview)
	if len(r.Gates) != 2 || r.ShadowAll != nil {
		t.Fatalf("%+v", r)
	}
	g := r.Gates[0]
	if s := g.Stamps; g.Capacity.InLine != 1204 || s == nil || s.Throttle != "stamps" || s.Asks == 0 ||
		math.Abs(s.AsksSeconds-1.2) > 0.01 || s.Paid != 16_034 || len(s.Payers) != 2 || s.Payers[0].Sure() != 800 {
		t.Errorf("%+v", g.Stamps)
	}
	if _, all := g.Past.Columns[Admitted]; all || len(g.Past.Columns) != len(lanesMeasures) {
		t.Errorf("columns %v", g.Past.Columns)
	}
	// A gate that is newer than the overview has no past yet, and lists are lists.
	young := r.Gates[1]
	if young.Gate != "127.0.0.1:0" || young.Stamps != nil || young.Past.At == nil || young.Past.Columns == nil {
		t.Errorf("%+v", young)
	}
	if empty := capacityOf(Status{}, Overview{}); empty.Gates == nil {
		t.Error("no gates is null")
	}
}

// TestPlotsAreBounded: one capacity more than a page has plots of is shown by its figures alone.
func TestPlotsAreBounded(t *testing.T) {
	rooms := roomsOf(make([]CapacityGate, maxPlotted+1), spanOf(false))
	if len(rooms) != maxPlotted+1 || len(rooms[maxPlotted-1].Plots) == 0 || rooms[maxPlotted].Plots != nil {
		t.Errorf("%d rooms", len(rooms))
	}
}

// TestSamples: columns that are missing or too short are nothing.
func TestSamples(t *testing.T) {
	s := Series{At: []int64{1000, 2000}, Columns: map[Measure]Values{Load: {0.5, float32(math.NaN())}, InLine: {3}}}
	all := s.Samples()
	if len(all) != 2 || all[0].Load != 0.5 || all[1].Load != 0 || all[0].InLine != 3 || all[1].InLine != 0 ||
		!all[1].At.Equal(time.Unix(2, 0)) {
		t.Errorf("%+v", all)
	}
}

// TestShares: of nothing there are no shares, and all shares make up the whole.
func TestShares(t *testing.T) {
	all, sum := sharesOf(&Stamp{})
	if sum != 0 || all[0].Text != "0%" {
		t.Errorf("%d: %+v", sum, all)
	}
	_, _, stamp := underFlood()
	all, sum = sharesOf(stamp)
	var share float64
	for _, p := range all {
		share += p.Share
	}
	if math.Abs(share-1) > 1e-9 || sum != stamp.Paid+stamp.Called+stamp.Held+stamp.Free+stamp.Challenged+
		stamp.NotPaying+stamp.Forged+stamp.Replayed {
		t.Errorf("%v of %d", share, sum)
	}
}

// emergencyBackend has the emergency switch on.
type emergencyBackend struct{ fullBackend }

func (b emergencyBackend) Status() Status {
	s := b.fullBackend.Status()
	s.ShadowAll = &ShadowAll{By: "ann", At: busyTime, Note: "the <new> limits lock everybody out"}
	return s
}

// TestPlotReadings: the values of a plot at a time, with the pointer and with the keyboard, also while the page keeps
// itself up to date.
func TestPlotReadings(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	site, _ := serve(t, Options{WithoutLogin: access.View}, flooding())
	p := browser.Open(t)
	p.Show(browser.Screens[1])
	p.Visit(site + "/capacity")
	const work = `[...document.querySelectorAll('figure')].find(f => f.innerText.startsWith('Work asked'))`
	p.Wait("!!" + work + ".querySelector('.probe input')")
	reading := func() string { return browser.Eval[string](p, work+".querySelector('.reading').innerText") }
	point := func(event string, share float64) {
		t.Helper()
		browser.Eval[bool](p, strings.NewReplacer("WORK", work, "EVENT", event, "SHARE", number(share)).Replace(
			`(() => { const b = WORK.querySelector('.probe'), r = b.getBoundingClientRect();
			return b.dispatchEvent(new PointerEvent('EVENT', {bubbles: true, clientX: r.left + r.width * SHARE})) })()`))
	}
	if shown := browser.Eval[bool](p, "!"+work+".querySelector('.reading').hidden"); shown {
		t.Error("a value is shown before anybody asks")
	}
	point("pointermove", 1)
	if got := reading(); got != "11:59:10 UTC: 20.2 bits, about 1.2s" {
		t.Errorf("at the end: %q", got)
	}
	if got := browser.Eval[string](p, strings.ReplaceAll(`(() => { const f = [...document.querySelectorAll('figure')].find(
		f => f.innerText.startsWith('Let in')), b = f.querySelector('.probe'), r = b.getBoundingClientRect();
		b.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + r.width * 0.999}));
		return f.querySelector('.reading').innerText })()`, "\n", " ")); got != "11:59:10 UTC: stamped 88/s, pool 9.5/s" {
		t.Errorf("two lines: %q", got)
	}
	point("pointermove", 0)
	if got := reading(); got != "11:55:01 UTC: nothing" {
		t.Errorf("at the beginning: %q", got)
	}
	point("pointerleave", 0)
	if !browser.Eval[bool](p, work+".querySelector('.reading').hidden") {
		t.Error("the value stays when the pointer has gone")
	}
	// The keyboard: the control is a slider, and its value is said in words.
	browser.Eval[bool](p, work+".querySelector('.probe input').focus(), true")
	p.Press("ArrowLeft")
	said := browser.Eval[string](p, "document.activeElement.getAttribute('aria-valuetext')")
	if said != "11:59:09 UTC: 20.2 bits, about 1.2s" || reading() != said {
		t.Errorf("said %q, shown %q", said, reading())
	}
	p.Press("Home")
	if got := reading(); got != "11:55:01 UTC: nothing" {
		t.Errorf("at home: %q", got)
	}
	p.Screenshot("capacity-reading-desktop")
	// An update keeps the focus and what is shown.
	browser.Eval[bool](p, `window.patched = false,
		document.addEventListener('weir:patched', () => window.patched = true), true`)
	p.Wait("window.patched")
	if got := reading(); got != "11:55:01 UTC: nothing" ||
		!browser.Eval[bool](p, "document.activeElement.type === 'range'") {
		t.Errorf("after an update: %q", got)
	}
	p.Press("Escape")
	if !browser.Eval[bool](p, work+".querySelector('.reading').hidden") {
		t.Error("Escape does not hide the value")
	}
	for _, found := range p.Axe() {
		t.Error(found)
	}
}

// TestCapacityIsInspected: the page on every screen.
func TestCapacityIsInspected(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	cases := map[string]struct {
		backend Backend
		path    string
		words   []string
	}{
		"busy": {flooding(), "/capacity", []string{"20.2 bits, about 1.2s on a phone", "16 of 16 places in use", "820%",
			"1204", "192.0.2.7", "800", "paid, and went first", "345 were too many of one client",
			"No throttle here asks for stamps", "Emergency: let everything pass"}},
		"hour":  {flooding(), "/capacity?window=1h", []string{"an hour ago"}},
		"empty": {&backend{}, "/capacity", []string{"No gate has a limited capacity.", "weir init --for site"}},
		"emergency": {emergencyBackend{flooding()}, "/capacity", []string{"all throttles are in shadow since 2024-05-01",
			"by ann: the <new> limits lock everybody out", "End the emergency"}},
	}
	urls := map[string]string{}
	for name, c := range cases {
		site, _, _ := start(t, vouched(access.Act), c.backend)
		urls[name] = vouching(t, site) + c.path
	}
	p := browser.Open(t)
	for name, c := range cases {
		p.Inspect("console-capacity-"+name, urls[name], func(at string, status int, _ http.Header) {
			text := p.Text("body")
			for _, want := range c.words {
				if status != http.StatusOK || !strings.Contains(text, want) {
					t.Errorf("%s: %d, no %q in %q", at, status, want, text)
				}
			}
		})
	}
}
