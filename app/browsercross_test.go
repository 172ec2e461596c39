package app_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// A street has a site behind a weir, and another site with a page of its own. They are two sites to a browser: one is
// 127.0.0.1, the other localhost.
type street struct {
	*site
	t           *testing.T
	home, other string

	mu sync.Mutex
	// what reached the server of the site, but for styles: method, URI, body, where it came from and its cookies
	seen []string
	sent []string // the bodies of all that was sent, asked for a stamp or not
	page string   // of the other site
}

// newStreet opens it, over TLS or not. The server of the site has pages with what the test says, and files at /file.
// With "forget" in its query, a page takes back what the gate gave to the browser.
func newStreet(t *testing.T, secure bool, options string, pages map[string]string) *street {
	t.Helper()
	s, gate := browsed(t, "capacity: {concurrent: 10}, throttles: [stamps]", options)
	st := &street{site: s, t: t}
	plain := s.handler
	s.does(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !strings.HasSuffix(r.URL.Path, ".css") {
			st.mu.Lock()
			st.seen = append(st.seen, fmt.Sprintf("%s %s %s from %s with %s", r.Method, r.URL.RequestURI(), body,
				r.Header.Get("Origin"), r.Header.Get("Cookie")))
			st.mu.Unlock()
		}
		if page, ok := pages[r.URL.Path]; ok {
			charset := r.URL.Query().Get("charset")
			if charset == "" {
				charset = "utf-8"
			}
			w.Header().Set("Content-Type", "text/html; charset="+charset)
			http.SetCookie(w, &http.Cookie{Name: "lax", Value: "1", SameSite: http.SameSiteLaxMode, Path: "/"})
			http.SetCookie(w, &http.Cookie{Name: "strict", Value: "1", SameSite: http.SameSiteStrictMode, Path: "/"})
			for _, name := range []string{"weir-client", "weir-ticket", "weir-stamp"} {
				if r.URL.Query().Has("forget") {
					w.Header().Add("Set-Cookie", name+"=; Path=/; Max-Age=0")
					w.Header().Add("Set-Cookie", "__Host-"+name+"=; Path=/; Max-Age=0; Secure")
					for _, prefix := range []string{"", "__Host-"} {
						w.Header().Add("Set-Cookie",
							prefix+name+"-cross=; Path=/; Max-Age=0; SameSite=None; Secure; Partitioned")
					}
				}
			}
			fmt.Fprint(w, `<!doctype html><html lang="en"><title>a page</title><link rel="icon" href="data:,">`+page)
			return
		}
		if r.URL.Path == "/file" {
			w.Header().Set("Content-Type", "text/csv")
			if r.URL.RawQuery == "" { // else it is the link that says what to do with it
				w.Header().Set("Content-Disposition", "attachment; filename=table.csv")
			}
			fmt.Fprint(w, "a,b")
			return
		}
		plain(w, r)
	})
	target, _ := url.Parse(gate)
	front := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
		if r.In.Method == http.MethodPost {
			body, _ := io.ReadAll(r.In.Body)
			r.Out.Body = io.NopCloser(bytes.NewReader(body))
			st.mu.Lock()
			st.sent = append(st.sent, string(body))
			st.mu.Unlock()
		}
		if !secure { // elsewhere than on this machine, browsers do not say it without TLS
			for name := range r.Out.Header {
				if strings.HasPrefix(name, "Sec-Fetch-") {
					r.Out.Header.Del(name)
				}
			}
		}
	}}
	elsewhere := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		st.mu.Lock()
		defer st.mu.Unlock()
		fmt.Fprint(w, `<!doctype html><html lang="en"><title>elsewhere</title><link rel="icon" href="data:,">`+st.page)
	})
	open := httptest.NewServer
	if secure {
		open = httptest.NewTLSServer
	}
	for handler, address := range map[*http.Handler]*string{new(http.Handler(front)): &st.home,
		new(http.Handler(elsewhere)): &st.other} {
		server := open(*handler)
		t.Cleanup(server.Close)
		*address = server.URL
	}
	st.other = strings.Replace(st.other, "127.0.0.1", "localhost", 1)
	return st
}

// reached is what reached the server and begins with a text.
func (s *street) reached(start string) (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if strings.HasPrefix(r, start) {
			found = append(found, r)
		}
	}
	return found
}

const (
	asksAlways = `schedule: [{load: 0%, work: 12 bits}], never_ask: {paths: ["/page/*"]}`
	pressable  = `document.querySelector("#go")?.checkVisibility()`
)

// TestADownload: somebody who follows a link to a file gets the file, and a page that says so. A link that saves (<a
// download>) saves the file or nothing, never the page that asks.
func TestADownload(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s := newStreet(t, true, asksAlways, map[string]string{
		"/page/links": `<a id="link" href="/file">file</a> <a id="save" download="saved.csv" href="/file?save">save</a>`})
	p := browser.Open(t)
	folder := p.Downloads()
	p.Visit(s.home + "/page/links")
	p.Click("#save") // nobody can pay here, so nothing comes of it
	s.until("the link that saves to be asked", func() bool { return s.stamps().Stamp.Challenged == 1 })
	p.Visit(s.home + "/page/links?forget")
	p.Visit(s.home + "/page/links") // to come back to: a browser may have kept the page, or ask for it again
	p.Click("#link")
	p.Wait(pressable)
	if text := p.Text("main"); !strings.Contains(text, "If it is for a download, that starts by itself") ||
		strings.Contains(text, "Work done") {
		t.Errorf("reads %q", text)
	}
	p.Screenshot("gate-download")
	p.Click("#go")
	p.Wait(`document.title === "a page"`)
	browser.Eval[bool](p, `document.querySelector("#save").click(), true`) // it is paid for by now
	s.until("both files, and no other", func() bool {
		one, _ := os.ReadFile(filepath.Join(folder, "table.csv"))
		two, _ := os.ReadFile(filepath.Join(folder, "saved.csv"))
		files, _ := os.ReadDir(folder)
		return string(one) == "a,b" && string(two) == "a,b" && len(files) == 2
	})
	if got := s.reached("GET /file"); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// TestADownloadWithoutScripts: the file comes once, and the page has said what happens.
func TestADownloadWithoutScripts(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s, site := browsed(t, "capacity: {concurrent: 10, reload: 1s}, throttles: [stamps]",
		`schedule: [{load: 0%, work: 12 bits}]`)
	s.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment; filename=table.csv")
		fmt.Fprint(w, "a,b")
	})
	p := browser.Open(t)
	folder := p.Downloads()
	p.Scripts(false)
	p.Visit(site + "/file")
	if text := p.Text("main"); !strings.Contains(text,
		"A download starts by itself. This page then stays as it is, and you can leave it.") {
		t.Errorf("reads %q", text)
	}
	s.until("the file", func() bool {
		files, _ := os.ReadDir(folder)
		content, _ := os.ReadFile(filepath.Join(folder, "table.csv"))
		return string(content) == "a,b" && len(files) == 1
	})
}

// TestAFormInAnyCharset: a form is sent again to the byte, whatever it is written in, by a script or by the button.
func TestAFormInAnyCharset(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	form := `<form method="post" action="/sent?%F6"><input name="plain" value="a &amp;amp; &quot;b&quot; + %"><input name="na&#228;me" value="&#246;&#8364;&#12450;&#34920;&#1078;&#44032;&#129302;">` +
		`<input type="hidden" name="_charset_"><textarea name="text">&#246;
two</textarea><button>Send</button></form>`
	s := newStreet(t, true,
		`schedule: [{load: 0%, work: 12 bits}], covers: 1, never_ask: {paths: ["/page/*", "/style.css"]}`,
		map[string]string{"/page/form": form})
	first := browser.Open(t)
	charsets := map[string]string{ // one of each kind: of single bytes, with states, and of all there is
		"windows-1252": "=%F6%80%26%2312450%3B", "iso-2022-jp": "%1B%24B", "utf-8": "%C3%B6"}
	if needs.Long() {
		maps.Copy(charsets, map[string]string{"shift_jis": "%83A%95%5C", "euc-kr": "%B0%A1",
			"gb18030": "%810%8B2%A2%E3", "koi8-r": "%D6", "big5": "%AA%ED"})
	}
	for charset, part := range charsets {
		for _, scripts := range []bool{true, false} {
			if !scripts && !needs.Long() && charset != "windows-1252" {
				continue // the button sends what the script would
			}
			p := first.Tab() // as a tab does not do the work for one address again and again
			p.Scripts(scripts)
			s.mu.Lock()
			s.seen, s.sent = nil, nil
			s.mu.Unlock()
			p.Visit(s.home + "/page/form?forget&charset=" + charset)
			p.Click("button")
			if !scripts {
				p.Wait(`document.querySelector("noscript button")?.checkVisibility()`)
				p.Click("noscript button")
			}
			p.Wait(atTheSite)
			got, want := s.reached("POST"), s.sent[0]
			if len(got) != 1 || len(s.sent) != 2 || s.sent[1] != want ||
				!strings.HasPrefix(got[0], "POST /sent?%F6 "+want+" from ") || !strings.Contains(want, part) ||
				!strings.Contains(strings.ToLower(want), "_charset_="+charset+"&") {
				t.Errorf("%s: %q, want %q with %q", charset, got, want, part)
			}
		}
	}
}

// TestAFrameOfAnotherSite: a page that another site shows in a frame can be paid for, and so can what it leads to.
func TestAFrameOfAnotherSite(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for _, covers := range []int{50, 1} {
		s := newStreet(t, true,
			fmt.Sprintf(`schedule: [{load: 0%%, work: 12 bits}], covers: %d, never_ask: {paths: ["/page/*", "/style.css"]}`, covers),
			map[string]string{"/page/free": `<a href="/next">next</a>`})
		for _, path := range []string{"/framed", "/page/free"} {
			s.mu.Lock()
			s.page = `<h1>elsewhere</h1><iframe title="site" width="400" height="500" src="` + s.home + path +
				`"></iframe>`
			s.mu.Unlock()
			p := browser.Open(t)
			p.Visit(s.other + "/")
			frame := p.Frame(s.home)
			p.Tolerate("status of 503")
			frame.Tolerate("status of 503")
			// by now the request comes from the site itself, and nothing but the frame tells where it is
			if path == "/page/free" {
				frame.Wait(`document.querySelector("a")`)
				browser.Eval[bool](frame, `document.querySelector("a").click(), true`)
				path = "/next"
			}
			frame.Wait(atTheSite)
			frame.Wait(styled)
			if got := s.reached("GET " + path); len(got) != 1 || strings.Contains(got[0], "weir-") {
				t.Errorf("%s: %q", path, got)
			}
			for _, c := range browser.Await[[]string](frame,
				`cookieStore.getAll().then(all => all.filter(c => !c.partitioned).map(c => c.name))`) {
				t.Errorf("%s: the cookie %s is not partitioned", path, c)
			}
			// What is done in frames is no use to the site itself, and no harm.
			p.Visit(s.home + path + "?own")
			p.Wait(atTheSite)
		}
		if got := s.stamps().Stamp; got.Forged+got.Replayed+got.NotPaying > 0 || got.Paid < 4 {
			t.Errorf("covers %d: %+v", covers, got)
		}
	}
}

// TestAFrameOfTheSite: a site may show its own pages in frames. What is paid there is paid for both.
func TestAFrameOfTheSite(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s := newStreet(t, true, asksAlways,
		map[string]string{"/page/frames": `<iframe title="site" src="/framed"></iframe>`})
	p := browser.Open(t)
	p.Visit(s.home + "/page/frames")
	p.Wait(`document.querySelector("iframe").contentDocument?.title === "the site"`)
	if status, _ := p.Visit(s.home + "/own"); status != http.StatusOK {
		t.Errorf("outside of the frame: %d", status)
	}
}

// TestAFrameWithoutCookies: without TLS there are no cookies in frames of another site. The page says so, and opens in
// a tab of its own.
func TestAFrameWithoutCookies(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s := newStreet(t, false, asksAlways, nil)
	s.page = `<h1>elsewhere</h1><iframe title="site" width="320" height="640" src="` + s.home + `/framed"></iframe>`
	p := browser.Open(t)
	p.Visit(s.other + "/")
	frame := p.Frame(s.home)
	frame.Wait(pressable)
	if text := frame.Text("main"); !strings.Contains(text, "Please open this page by itself") ||
		strings.Contains(text, "Work done") {
		t.Errorf("reads %q", text)
	}
	p.Screenshot("gate-framed")
	frame.Click("#go")
	s.until("the page in its own tab", func() bool { return len(s.reached("GET /framed")) == 1 })
}

// TestAFormOfAnotherSite: what another site sends is not sent again by the site itself. That would bring cookies that
// the other site cannot send, and nobody could tell it from a form of the site's own.
func TestAFormOfAnotherSite(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{true, false} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			s := newStreet(t, secure, asksAlways, map[string]string{
				"/page/own": `<meta name="referrer" content="same-origin"><form method="post" action="/own"><button name="a" value="1">Send</button></form>`})
			s.page = `<h1>elsewhere</h1><form method="post" action="` + s.home +
				`/transfer"><button name="a" value="1">Send</button></form>`
			p := browser.Open(t)
			p.Visit(s.home + "/page/own") // gives cookies
			p.Visit(s.other + "/")
			p.Click("button")
			p.Wait(pressable)
			if text := p.Text("main"); !strings.Contains(text, "came from another site") ||
				!strings.Contains(text, "You can go on now") {
				t.Errorf("reads %q", text)
			}
			if got := s.reached("POST"); len(got) > 0 {
				t.Errorf("sent again: %q", got)
			}
			p.Screenshot("gate-other-site")
			p.Click("#go")
			p.Wait(`document.title === "elsewhere"`)
			if secure {
				browser.Eval[bool](p, `document.querySelector("button").click(), true`)
				p.Wait(atTheSite)
				if got, want := s.reached("POST"),
					[]string{"POST /transfer a=1 from " + s.other + " with "}; !slices.Equal(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			}
			// A form of its own is sent again.
			p.Visit(s.home + "/page/own?forget")
			asked := s.stamps().Stamp.Challenged
			p.Click("button")
			p.Wait(atTheSite)
			if got := s.reached("POST /own"); len(got) != 1 || !strings.Contains(got[0], "lax=1") ||
				s.stamps().Stamp.Challenged == asked {
				t.Errorf("its own form: %q", got)
			}
		})
	}
}
