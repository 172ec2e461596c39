package httpgate

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate/httpgate/pages"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// used is a refusal with the longest words that there are.
func used(ev *weir.Event, a *weir.Answer) error {
	a.Verdict, a.Reason = weir.Refuse, weir.LineFull
	a.Figure = weir.Figure{Rule: "uploads-of-the-whole-organisation-per-day", Unit: "bytes", Limit: 50 << 30,
		Window: weir.Window(24 * time.Hour), Reset: ev.Time.Add(5 * time.Hour)}
	a.Until = a.Reset
	return nil
}

// TestPageInBrowser: a person who is refused can read why, until when, and what to quote when asking for help.
func TestPageInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for name, c := range map[string]struct {
		judge  func(*weir.Event, *weir.Answer) error
		status int
		words  []string
	}{
		"refused": {overLimit, 429, []string{"Too Many Requests", "5 requests", "per-second",
			"try again in 1 second."}},
		"long": {used, 429, []string{"uploads-of-the-whole-organisation-per-day", "try again in 5 hours."}},
		"overload": {func(_ *weir.Event, a *weir.Answer) error {
			a.Verdict, a.Reason = weir.Refuse, weir.Overload
			return nil
		}, 503, []string{"Service Unavailable", "no room for the request"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, Options{Upstream: to("http://127.0.0.1:1")}, newThrottle(c.judge))
			p := browser.Open(t)
			visits := 0
			p.Inspect("gate-"+name, g.url+"/a/page?of=interest", func(at string, status int, header http.Header) {
				visits++
				if status != c.status {
					t.Errorf("%s: status %d, want %d", at, status, c.status)
				}
				if got := header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
					t.Errorf("%s: Content-Security-Policy %q", at, got)
				}
				if id := p.Text("main code"); id == "" || id != header.Get("X-Request-Id") {
					t.Errorf("%s: shows the request id %q, and the header says %q", at, id, header.Get("X-Request-Id"))
				}
				if font, choice := p.Style("main code", "font-family"),
					p.Style("main code", "user-select"); !strings.Contains(font, "monospace") || choice != "all" {
					t.Errorf("%s: the request id is in %s and selected by %s", at, font, choice)
				}
				text := p.Text("main")
				for _, want := range append(c.words, strconv.Itoa(c.status)) {
					if !strings.Contains(text, want) {
						t.Errorf("%s: no %q in %q", at, want, text)
					}
				}
			})
			// A refused client is not made to ask for more, like an icon: that would count against it.
			needs.Wait(t, "all visits counted", func() bool { return g.requestsSeen() >= visits })
			if n := g.requestsSeen(); n != visits {
				t.Errorf("%d requests for %d visits", n, visits)
			}
		})
	}
}

// TestPageInGerman: a person whose browser prefers German reads in German why they were refused, with the words of the
// operator, and nothing overflows on a phone. Programs read English.
func TestPageInGerman(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	own := pages.Options{Site: "Rindfleischetikettierungsstelle <Nord>", Note: "Fragen? 0800 555-0100."}
	g := start(t, Options{Upstream: to("http://127.0.0.1:1"), Pages: own}, newThrottle(used))
	p := browser.Open(t)
	p.Speaks("de,en")
	p.Inspect("gate-de", g.url+"/", func(at string, status int, header http.Header) {
		if status != 429 || header.Get("Content-Language") != "de" ||
			!strings.Contains(header.Get("Vary"), "Accept-Language") {
			t.Errorf("%s: %d %v", at, status, header)
		}
		text := p.Text("main")
		for _, want := range []string{own.Site, own.Note, "Zu viele Anfragen", "Das Limit von 50GiB pro Tag ist " +
			"ausgeschöpft", "Bitte versuchen Sie es in 5 Stunden noch einmal.", "Regel", "Grund", "50GiB, davon noch 0"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %q", at, want, text)
			}
		}
	})
	r, _ := http.NewRequest(http.MethodGet, g.url+"/", nil)
	r.Header.Set("Accept-Language", "de")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"The limit of 50GiB per day is used up`) ||
		res.Header.Get("Content-Language") != "" || res.Header.Get("Vary") != "Accept" {
		t.Errorf("%s %v", body, res.Header)
	}
}

// requestsSeen is how many requests were answered.
func (r *rig) requestsSeen() (n int) {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	for _, served := range r.seen.served {
		n += served
	}
	return n
}
