package console

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/policy"
	"weir/throttle/bloom"
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
			InFlight: 12, Waiting: 3, Capacity: capacity, Servers: []ServerStatus{
				{Server: "https://a-service-with-a-long-name.internal.example:9443 (2001:db8:20::1)", Healthy: true,
					InFlight: 12, Idle: 4096, Requests: 12345678},
				{Server: "http://127.0.0.1:3001", Requests: 31, Failures: 3}}},
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

// busy is an overview of a weir under attack.
func busy() Overview {
	at := time.Date(2024, 5, 1, 12, 5, 0, 0, time.UTC)
	series := func(name, kind, unit string, n int, columns map[Measure]func(i int) float64) Series {
		s := Series{Name: name, Kind: kind, Unit: unit, Seconds: 1, Columns: map[Measure]Values{}}
		for i := range n {
			s.At = append(s.At, at.Add(time.Duration(i-n+1)*time.Second).UnixMilli())
			for m, of := range columns {
				s.Columns[m] = append(s.Columns[m], float32(of(i)))
			}
		}
		return s
	}
	wave := func(base, swing float64) func(int) float64 {
		return func(i int) float64 { return base + swing*math.Sin(float64(i)/17) }
	}
	flood := func(high float64) func(int) float64 {
		return func(i int) float64 { return high / (1 + math.Exp(float64(150-i)/9)) }
	}
	none := func(int) float64 { return 0 }
	held := func(kind, name, throttle string, n uint64) HeldBack {
		return HeldBack{Kind: kind, Name: name, Throttle: throttle, Recent: n, Total: 3 * n,
			First: at.Add(-3 * time.Minute), Last: at}
	}
	return Overview{At: at, State: "serving", Ready: true,
		Gates: []GateWatch{
			{Address: "127.0.0.1:8080", Throttles: []string{"plans"}, Series: series("127.0.0.1:8080", "http", "requests", 300,
				map[Measure]func(int) float64{Admitted: wave(120, 30), Refused: flood(21000), Challenged: none,
					Delayed: wave(8, 7), Would: none, AddedMedian: wave(24e-6, 4e-6),
					AddedMost: func(i int) float64 { return 90e-6 + flood(0.4e-3)(i) }})},
			{Address: "[::]:2525", Throttles: []string{}, Series: series("[::]:2525", "smtp", "recipients", 40,
				map[Measure]func(int) float64{Admitted: wave(2, 1.5), Refused: none, Delayed: none, Challenged: none})},
			{Address: "[::]:8443", Throttles: []string{}, Series: series("[::]:8443", "tcp", "connections", 0, nil)},
		},
		Throttles: []ThrottleWatch{
			{Series: series("plans", "quota", "events", 300, map[Measure]func(int) float64{Admitted: wave(120, 30),
				Refused: flood(21000), Delayed: wave(8, 7)}),
				Held: []HeldBack{held("account", "f40dea6b", "plans", 93549),
					held("account", "caf344e9", "plans", 71025)}},
			{Shadow: true, Series: series("uploads-of-the-whole-organisation", "quota", "events", 300,
				map[Measure]func(int) float64{WouldAdmit: wave(90, 5), WouldRefuse: wave(15, 9)}),
				Hour: Totals{Since: at.Add(-time.Hour), Events: map[Measure]float64{WouldAdmit: 4312,
					WouldRefuse: 818}},
				Would: []HeldBack{held("account", "0a1b2c3d", "uploads", 411)}},
			{Series: series("edge", "bloom", "events", 300, map[Measure]func(int) float64{Admitted: wave(1, 0),
				Refused: flood(90)}),
				Held: []HeldBack{held("network", "2001:db8:1234:5678::/64", "edge", 512),
					held("user", "a-very-long-user-name-of-somebody@a-department.example.org", "edge", 3)}},
		},
		Refusals: []Refusal{
			{At: at, Gate: "127.0.0.1:8080", Throttle: "plans", Rule: "per-second", Verdict: weir.Refuse, Reason: weir.OverLimit,
				Kind: "account", Name: "f40dea6b", Source: "2001:db8:1234:5678:9abc:def0:1234:5678", ID: "m7mtkphvk797hfg6",
				Text: "refuse by plans/per-second (over-limit): 0 of 20 requests left per 1s, until 2024-05-01T12:05:01.000Z"},
			{At: at.Add(-time.Second), Throttle: "edge", Verdict: weir.Refuse, Shadow: true, Name: "<b>192.0.2.0/24",
				Text: "refuse by edge (over-limit)"}},
		Changes: []Change{{At: at, By: "ann", What: "shadow-on", On: "uploads-of-the-whole-organisation"},
			{At: at.Add(-time.Hour), By: "weir", What: "started", Text: "1.2.3"}}}
}

// TestIndexInBrowser: an operator sees what runs, on whatever is at hand.
func TestIndexInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	full := func() *backend {
		b := newBackend()
		b.overview = busy()
		link := policy.NewLink("uploads-of-the-whole-organisation", nil, policy.Closed)
		link.Counts.Verdicts[weir.Admit].Add(123456789012)
		link.Counts.Verdicts[weir.Refuse].Add(98765)
		_, _, stamp := underFlood()
		b.throttles = append(b.throttles, Throttle{Link: link, Kind: "quota"},
			Throttle{Link: policy.NewLink("stamps", nil, policy.Closed), Kind: "stamp", Stamp: stamp},
			Throttle{Link: policy.NewLink("edge", nil, policy.Closed), Kind: "bloom",
				Bloom: &Bloom{Stats: bloom.Stats{Bytes: 8 << 20, Drained: 0.398, Collateral: 0.01, Attackers: 51_234,
					Rotations: 3}}})
		return b
	}
	stopping := newBackend()
	stopping.notReady = errors.New("stopping: 12 requests are under way")
	cases := map[string]struct {
		backend Backend
		words   []string
	}{
		"serving": {fullBackend{full()},
			[]string{"1.2.3", "serving", "2024-05-01 12:00:00 UTC", "uploads-of-the-whole-organisation", "123456789012",
				"shadow", "http://127.0.0.1:3000", "39.8%", "51234", "8MiB",
				"21000 of 21", "turned away at 127.0.0.1:8080, most by plans, most often account f40dea6b", "93549",
				"in shadow: enforcing it would have held back 818 of 5130 events", "0 of 20 requests left per 1s",
				"m7mtkphvk797hfg6", "<b>192.0.2.0/24", "no figures yet", "ann", "shadow on", "12:04:59 UTC",
				"16 of 16", "212ms", "in line 1204", "sha256-k", "20.2 bits, about 1.2s on a phone", "98765"}},
		"stopping": {stopping, []string{"not ready", "12 requests are under way"}},
		"empty": {&backend{}, []string{"serving", "There are no throttles", "Nobody is held back", "Nobody was refused",
			"There is no gate yet"}},
	}
	urls := map[string]string{}
	for name, c := range cases {
		urls[name], _ = serve(t, Options{}, c.backend)
	}
	p := browser.Open(t)
	for name, c := range cases {
		p.Inspect("console-"+name, urls[name]+"/", func(at string, status int, header http.Header) {
			if status != 200 || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s: %d %v", at, status, header)
			}
			text := p.Text("body")
			for _, want := range c.words {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %q in %q", at, want, text)
				}
			}
		})
	}
	for page, want := range map[string]string{"/healthz": "alive", "/readyz": "ready", "/metrics": "weir_"} {
		p.Visit(urls["serving"] + page)
		if got := p.Text("body"); !strings.Contains(got, want) {
			t.Errorf("%s: shows %.200q", page, got)
		}
	}
	// Between a phone and a desk there is more, and beside a phone there are smaller ones.
	for _, width := range []int64{320, 768, 1100, 1160} {
		p.Show(browser.Screen{Name: "screen", Width: width, Height: 700})
		p.Visit(urls["serving"] + "/")
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
}
