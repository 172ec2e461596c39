package browser

import (
	"bytes"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

const good = `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>good</title>
<style>:root { color-scheme: light dark }</style><link rel="icon" href="data:,">`

func serve(t *testing.T, csp, page string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if csp != "" {
			w.Header().Set("Content-Security-Policy", csp)
		}
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, page)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func TestGoodPage(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	url := serve(t, "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
		good+`<main><h1>one</h1><p><a href="#x">link</a> <button>do</button></main>`)
	p := Open(t)
	p.Inspect("good", url, func(at string, status int, header http.Header) {
		if status != http.StatusTeapot || header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", at, status, header)
		}
		if got := p.Text("h1"); got != "one" {
			t.Errorf("%s: reads %q", at, got)
		}
	})
	p.Show(Screens[0])
	picture, err := png.Decode(bytes.NewReader(p.picture()))
	if err != nil || picture.Bounds().Dx() != 720 {
		t.Errorf("screenshot: %v %v", picture.Bounds(), err)
	}
}

func TestFaults(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	type fault struct{ page, want string }
	for scheme, faults := range map[string][]fault{
		"light": {
			{`<!doctype html><link rel="icon" href="data:,"><title>x</title><h1>x</h1>`, "no lang"},
			{`<!doctype html><html lang="en"><link rel="icon" href="data:,"><h1>x</h1>`, "no title"},
			{`<html lang="en"><link rel="icon" href="data:,"><title>x</title><h1>x</h1>`, "quirks"},
			{good + `<p>x`, "0 h1"},
			{good + `<h1>x</h1><h1>y</h1>`, "2 h1"},
			{`<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>x</title><h1>x</h1>`,
				"no viewport?"},
			{good + `<h1>x</h1><p style="width: 500px">x`, "wide on a screen of 360"},
			{good + `<h1>x</h1><main style="overflow: auto"><p style="width: 500px">x`, "<main> cuts off"},
			{good + `<h1>x</h1><p style="color: #777">faint`, `"faint" has a contrast of 4.48`},
			{good + `<h1>x</h1><p style="opacity: .5">faint`, `"faint" has a contrast of`},
			{good + `<h1>x</h1><div style="background: #000c"><p style="color: black">faint`,
				`"faint" has a contrast of`},
			{good + `<h1>x</h1><p style="background: linear-gradient(red, white)">pretty`, "stands on an image"},
			{good + `<h1>x</h1><a href="#x" style="outline: none">link</a>`, "focus cannot be seen on <a> link"},
			{good + `<h1>x</h1><a href="#x" tabindex="-1">link</a>`, "cannot be reached"},
		},
		"dark": {
			{good + `<h1>x</h1><p style="color: #222">faint`, `"faint" has a contrast of`},
			{good + `<h1>x</h1><div style="background: white">faint`, `"faint" has a contrast of 1.00`},
		},
	} {
		var urls []string
		for _, f := range faults {
			urls = append(urls, serve(t, "", f.page))
		}
		p := Open(t)
		p.Show(Screens[0])
		p.Prefer(scheme)
		for i, f := range faults {
			p.Visit(urls[i])
			if got := strings.Join(p.Faults(), "; "); !strings.Contains(got, f.want) {
				t.Errorf("%s, %s: finds %q, want %q", scheme, f.page, got, f.want)
			}
		}
	}
}

func TestComplaints(t *testing.T) {
	t.Parallel()
	cases := []struct{ csp, page, want string }{
		{"", good + `<script>console.error("went", "wrong")</script>`, "wrong"},
		{"", good + `<script>nothing()</script>`, "nothing is not defined"},
		{"", good + `<img src="http://example.com/x.png">`, "reaches outside: http://example.com/x.png"},
		{"", good + `<link rel="stylesheet" href="https://192.0.2.1/x.css">`,
			"reaches outside: https://192.0.2.1/x.css"},
		{"", good + `<script src="http://127.0.0.2:1/x.js"></script>`, "reaches outside"},
		{"", good + `<img src="missing.png">`, "status of 418"},
		{"default-src 'none'; img-src data:", good, "style"},
	}
	var urls []string
	for _, c := range cases {
		urls = append(urls, serve(t, c.csp, c.page))
	}
	p := Open(&spy{TB: t}) // one cause may bring two complaints, and the second stays
	for i, c := range cases {
		p.Visit(urls[i])
		var got string
		needs.Wait(t, c.page+": a complaint with "+c.want, func() bool {
			got += strings.Join(p.Complaints(), "; ")
			return strings.Contains(got, c.want)
		})
	}
}

// TestComplaintsFail: nobody has to ask for complaints to hear of them.
func TestComplaintsFail(t *testing.T) {
	t.Parallel()
	url := serve(t, "",
		good+`<h1>x</h1><img src="http://example.com/x.png"><script>console.error("went wrong")</script>`)
	s := &spy{}
	t.Run("visit", func(t *testing.T) {
		s.TB = t
		Open(s).Visit(url)
	})
	got := strings.Join(s.errors, "; ")
	for _, want := range []string{"reaches outside: http://example.com/x.png", "went wrong"} {
		if !strings.Contains(got, want) {
			t.Errorf("fails with %q, want %q", got, want)
		}
	}
}

// spy is a test that only writes down how it would end.
type spy struct {
	testing.TB
	end    string
	errors []string
}

func (s *spy) Helper()                        {}
func (s *spy) Errorf(format string, a ...any) { s.errors = append(s.errors, fmt.Sprintf(format, a...)) }
func (s *spy) Skip(a ...any)                  { s.end = "skip: " + fmt.Sprint(a...); runtime.Goexit() }
func (s *spy) Fatal(a ...any) {
	s.end = "fatal: " + fmt.Sprint(a...)
	runtime.Goexit()
}

func TestNoBrowser(t *testing.T) {
	for ci, want := range map[string]string{"": "skip: no browser", "true": "fatal: no browser"} {
		t.Setenv("CI", ci)
		s := &spy{TB: t}
		done := make(chan struct{})
		go func() { defer close(done); find(s, []string{"no-such-browser", "/no/such/browser"}) }()
		<-done
		if !strings.HasPrefix(s.end, want) || !strings.Contains(s.end, "make setup") {
			t.Errorf("CI=%q: %q, want %q", ci, s.end, want)
		}
	}
}
