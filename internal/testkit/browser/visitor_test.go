package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// TestVisitor: a visitor turns off scripts and cookies, clicks, waits, goes back, and opens a second tab.
func TestVisitor(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w,
			good+
				`<h1>one</h1><noscript><p id="off">off</p></noscript><p id="cookies"></p><form action="/two" method="post"><button>go</button></form>
<script>document.cookie = 'a=1'; document.querySelector('#cookies').textContent = document.cookie || 'none'; addEventListener('storage', () => document.title = 'heard')</script>`)
	})
	mux.HandleFunc("POST /two", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable) // the status of a document is for the test to judge
		fmt.Fprint(w,
			good+`<h1>two</h1><script>setTimeout(() => document.querySelector('h1').textContent = 'three')</script>`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p := Open(t)
	p.Visit(server.URL + "/")
	if got := p.Text("#off") + p.Text("#cookies"); got != "a=1" {
		t.Errorf("with scripts: %q", got)
	}
	other := p.Tab()
	other.Visit(server.URL + "/")
	Eval[bool](other, "localStorage.x = 1, true")
	p.Wait("document.title === 'heard'")

	p.Click("button")
	p.Wait("document.querySelector('h1').textContent === 'three'")
	if got := p.Location(); got != server.URL+"/two" {
		t.Errorf("at %s", got)
	}
	p.Back()
	p.Wait("location.pathname === '/'")
	if got := Await[string](p, "new Promise(done => setTimeout(() => done(location.pathname)))"); got != "/" {
		t.Errorf("back at %s", got)
	}
	p.Cookies(false)
	p.Visit(server.URL + "/")
	if got := p.Text("#cookies"); got != "none" {
		t.Errorf("without cookies: %q", got)
	}
	p.Scripts(false)
	p.Visit(server.URL + "/")
	if got := p.Text("#off") + p.Text("#cookies"); got != "off" {
		t.Errorf("without scripts: %q", got)
	}
}

// TestSpeaks: the server is told which languages the visitor prefers.
func TestSpeaks(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, good+"<h1>"+r.Header.Get("Accept-Language")+"</h1>")
	}))
	t.Cleanup(server.Close)
	p := Open(t)
	p.Speaks("de-AT,de")
	p.Visit(server.URL + "/")
	if got := p.Text("h1"); !strings.HasPrefix(got, "de-AT,de;q=0.9") {
		t.Error(got)
	}
}

func TestTolerate(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	url := serve(t, "", good+`<h1>x</h1><script>fetch('/x'); console.error('x')</script>`)
	s := &spy{TB: t}
	p := Open(s)
	p.Tolerate("status of 418")
	p.Visit(url)
	Await[bool](p, "fetch('/y').then(() => true)")
	if got := p.Complaints(); len(got) != 1 || got[0] != `console error: "x"` {
		t.Errorf("complains %q", got)
	}
}

func TestAxe(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	page := good + `<main><h1>x</h1><p style="color: #999">faint</p><img src="data:,"><input></main>`
	url := serve(t, "default-src 'none'; style-src 'unsafe-inline'; img-src data:", page)
	p := Open(t)
	p.Visit(url)
	found := strings.Join(p.Axe(), "\n")
	for _, want := range []string{"color-contrast: ", "image-alt: ", "label: "} {
		if !strings.Contains(found, want) {
			t.Errorf("no %s in %s", want, found)
		}
	}
	if found := strings.Join(p.Axe("image-alt", "label"), "\n"); !strings.Contains(found, "color-contrast: ") ||
		strings.Contains(found, "image-alt: ") || strings.Contains(found, "label: ") {
		t.Errorf("finds what it should not look for: %s", found)
	}
	url = serve(t, "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
		good+`<main><h1>x</h1><p>plain</p></main>`)
	p.Visit(url)
	if found := p.Axe(); len(found) > 0 {
		t.Errorf("finds %q", found)
	}
}

// TestNoAxe: what is not what it should be is not used, and not kept.
func TestNoAxe(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		needs.Skip(t, err)
	}
	cached := filepath.Join(t.TempDir(), "cache", "axe.js")
	// Packages that are folders need no network.
	other := func(files ...string) string {
		folder := t.TempDir()
		for _, name := range append(files, "package.json") {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(`{"name": "axe-core", "version": "0.0.1"}`),
				0o666); err != nil {
				t.Fatal(err)
			}
		}
		return folder
	}
	if err := os.Mkdir(filepath.Dir(cached), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cached, []byte("another"), 0o666); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{other("axe.min.js"): "another", other(): "no such file",
		filepath.Join(t.TempDir(), "none"): "npm install"} {
		if _, err := axeFrom(cached, source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
	if names, _ := filepath.Glob(filepath.Dir(cached) + "/*"); !slices.Equal(names, []string{cached}) {
		t.Errorf("leaves %q", names)
	}
}
