package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/browser"
	"weir/policy"
)

// fullBackend is a weir with gates, and more to show than a phone has room for.
type fullBackend struct{ *backend }

func (b fullBackend) Status() Status {
	s := b.backend.Status()
	s.Version, s.Started = "1.2.3", time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	_, capacity, _ := underFlood()
	s.Gates = []GateStatus{
		{Gate: "127.0.0.1:8080", Kind: "http", Accept: []string{"edge"}, Address: "127.0.0.1:8080",
			Upstream: "http://127.0.0.1:3000", Throttles: []string{"plans", "uploads-of-the-whole-organisation"},
			InFlight: 12, Waiting: 3, Capacity: capacity},
		{Gate: "127.0.0.1:0", Kind: "http", Address: "127.0.0.1:41234", Upstream: "http://127.0.0.1:3001",
			Capacity: &Capacity{Concurrent: 200, InUse: 16, Load: 0.08, Shadow: true}},
		{Gate: "[::]:8443", Kind: "tcp", Address: "[::]:8443",
			Upstream: "https://a-service-with-a-long-name.internal.example:9443", InFlight: 1234567},
	}
	return s
}

func (b fullBackend) History() []GateHistory {
	past, _, _ := underFlood()
	young := GateHistory{Gate: "127.0.0.1:0", Address: "127.0.0.1:41234"}
	for _, s := range flooded().Samples[:40] {
		s.Load /= 6
		young.Samples = append(young.Samples, s)
	}
	return []GateHistory{past, young}
}

// TestIndexInBrowser: an operator sees what runs, on whatever is at hand.
func TestIndexInBrowser(t *testing.T) {
	t.Parallel()
	full := func() *backend {
		b := newBackend()
		link := policy.NewLink("uploads-of-the-whole-organisation", nil, policy.Closed)
		link.Counts.Verdicts[weir.Admit].Add(123456789012)
		link.Counts.Verdicts[weir.Refuse].Add(98765)
		_, _, stamp := underFlood()
		b.throttles = append(b.throttles, Throttle{Link: link, Kind: "quota"},
			Throttle{Link: policy.NewLink("stamps", nil, policy.Closed), Kind: "stamp", Stamp: stamp},
			Throttle{Link: policy.NewLink("edge", nil, policy.Closed), Kind: "bloom",
				Bloom: &Bloom{Bytes: 8 << 20, Drained: 0.398, Collateral: 0.01, Attackers: 51_234, Rotations: 3}})
		return b
	}
	// Between a phone and a desk there is more, and beside a phone there are smaller ones.
	t.Run("other screens", func(t *testing.T) {
		t.Parallel()
		url, _ := serve(t, Options{}, fullBackend{full()})
		p := browser.Open(t)
		for _, width := range []int64{320, 768, 1100, 1160} {
			p.Show(browser.Screen{Name: "screen", Width: width, Height: 700})
			p.Visit(url + "/")
			p.Screenshot(fmt.Sprintf("console-serving-%d", width))
			for _, fault := range p.Faults() {
				t.Errorf("%d wide: %s", width, fault)
			}
			// Nothing sticks out of the page's own width either.
			if out := browser.Eval[[]string](p,
				`[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > document.querySelector('main').getBoundingClientRect().right).map(e => e.outerHTML)`); len(out) > 0 {
				t.Errorf("%d wide: sticks out: %q", width, out)
			}
		}
	})
	stopping := full()
	stopping.notReady = errors.New("stopping: 12 requests are under way")
	for name, c := range map[string]struct {
		backend Backend
		words   []string
	}{
		"serving": {fullBackend{full()},
			[]string{"1.2.3", "serving", "2024-05-01 12:00:00 UTC", "uploads-of-the-whole-organisation", "123456789012",
				"shadow", "http://127.0.0.1:3000", "39.8%", "51234", "8MiB",
				"16 of 16", "212ms", "in line 1204", "sha256-k", "20.2 bits, about 1.2s on a phone", "98765"}},
		"stopping": {fullBackend{stopping}, []string{"not ready", "12 requests are under way"}},
		"empty":    {&backend{}, []string{"serving", "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := serve(t, Options{}, c.backend)
			p := browser.Open(t)
			p.Inspect("console-"+name, url+"/", func(at string, status int, header http.Header) {
				if status != 200 || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") {
					t.Errorf("%s: %d %v", at, status, header)
				}
				text := p.Text("body")
				for _, want := range c.words {
					if !strings.Contains(text, want) {
						t.Errorf("%s: no %q in %q", at, want, text)
					}
				}
				for _, found := range p.Axe() {
					t.Errorf("%s: %s", at, found)
				}
			})
			for page, want := range map[string]string{"/healthz": "alive", "/readyz": "ready", "/metrics": "weir_"} {
				p.Visit(url + page)
				if got := p.Text("body"); !strings.Contains(got, want) {
					t.Errorf("%s: shows %.200q", page, got)
				}
			}
		})
	}
}
