package app_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/recorder"
)

// openTwice starts a weir whose accounts are sessions, without TLS and with it. Whoever logs in gets two cookies of
// that name: one for the site, and one for /app, as when two programs share a host.
func openTwice(t *testing.T) *shop {
	t.Helper()
	gate := `upstream: UPSTREAM, account: ["cookie:session"], throttles: [sessions]`
	s := openShop(t, []string{gate, gate + ", TLS"}, "")
	s.upstream.Answers(func(r recorder.Request) recorder.Answer {
		a := recorder.Answer{Header: []string{"Content-Type: text/html; charset=utf-8"},
			Body: `<!doctype html><html lang="en"><title>the shop</title><link rel="icon" href="data:,"><h1>` +
				r.Path() + `</h1>`}
		if as, found := strings.CutPrefix(r.Target(), "/login?as="); found {
			as, _ = url.QueryUnescape(as)
			a.Header = append(a.Header, "Set-Cookie: first=1; Path=/", "Set-Cookie: session=outer; Path=/",
				"Set-Cookie: session="+as+"; Path=/app",
				"Set-Cookie: basket=a.1; Path=/app", "Set-Cookie: last=1; Path=/")
		}
		return a
	})
	return s
}

// gotFirst checks what the upstream got of a client that sent the name of its session twice: the one for /app first,
// and all others as they were. A gate may leave the second one out, as it does not count.
func gotFirst(t *testing.T, r recorder.Request, account string) {
	t.Helper()
	var sessions, others []string
	for _, pair := range r.Pairs() {
		if value, found := strings.CutPrefix(pair, "session="); found {
			sessions = append(sessions, value)
		} else {
			others = append(others, pair)
		}
	}
	if len(sessions) == 0 || sessions[0] != account || len(sessions) > 1 &&
		!slices.Equal(sessions[1:], []string{"outer"}) {
		t.Errorf("%s: the upstream got the sessions %q, want %q first", r.Line(), sessions, account)
	}
	if want := []string{"basket=a.1", "first=1", "last=1"}; !slices.Equal(others, want) {
		t.Errorf("%s: the upstream got the other cookies %q, want %q", r.Line(), others, want)
	}
}

func overWhat(secure bool) string {
	if secure {
		return "tls"
	}
	return "plain"
}

// TestTwoSessionsOnTwoPaths: clients that keep cookies send a name twice where there are two for a path, the more
// specific one first (RFC 6265, 5.4). They get through, and that one is who they are.
func TestTwoSessionsOnTwoPaths(t *testing.T) {
	t.Parallel()
	s := openTwice(t)
	requests := newPython(t, "requests", requestsScript, "apt-get install python3-requests")
	urllib := newPython(t, "urllib.request", urllibScript, "apt-get install python3")
	for _, c := range []innocent{
		{"curl", curlLogsIn("/app/list"), nil},
		{"requests", requests.get(job{Path: "/app/list", Login: "/login?as=ACCOUNT"}), nil},
		{"urllib", urllib.get(job{Path: "/app/list", Login: "/login?as=ACCOUNT"}), nil},
		{"Go", programLogsIn("/app/list"), nil},
	} {
		for i, secure := range []bool{false, true} {
			t.Run(c.name+"/"+overWhat(secure), func(t *testing.T) {
				account, through := c.name+"-"+overWhat(secure)+"==", s.gate(t, i, secure)
				s.upstream.Take()
				if status := c.send(s.direct(t), account); status != http.StatusOK {
					t.Fatalf("without weir: %d", status)
				}
				if pairs := s.upstream.Take()[1].Pairs(); len(pairs) != 5 ||
					slices.Index(pairs, "session="+account) > slices.Index(pairs, "session=outer") {
					t.Fatalf("it sends %q", pairs)
				}
				for range few {
					if status := c.send(through, account); status != http.StatusOK {
						t.Fatalf("status %d", status)
					}
					gotFirst(t, s.upstream.Take()[1], account)
				}
				if status := c.send(through, account); status != http.StatusTooManyRequests {
					t.Errorf("one more: %d", status)
				}
				if left, outer := s.left(t, account), s.left(t, "outer"); left != 0 || outer != few {
					t.Errorf("it has %d left, the other %d", left, outer)
				}
			})
		}
	}
}

// TestTwoSessionsInABrowser: the same in a real browser, over HTTP/1.1 and over HTTP/2, where it splits the cookies up
// (RFC 9113, 8.2.3).
func TestTwoSessionsInABrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s := openTwice(t)
	p := browser.Open(t)
	taken := func() []recorder.Request { // some browsers ask for an icon where a page names none
		return slices.DeleteFunc(s.upstream.Take(), func(r recorder.Request) bool { return r.Path() == "/favicon.ico" })
	}
	for i, secure := range []bool{false, true} {
		account, base := "browser-"+overWhat(secure)+"==", s.gate(t, i, secure).base
		if status, _ := p.Visit(base + "/login?as=" + url.QueryEscape(account)); status != http.StatusOK {
			t.Fatalf("logging in: %d", status)
		}
		s.upstream.Take()
		for k := range few {
			path := fmt.Sprintf("/app/%d", k)
			if status, _ := p.Visit(base + path); status != http.StatusOK || p.Text("h1") != path {
				t.Fatalf("%s: %d %q", path, status, p.Text("h1"))
			}
			got := taken()
			if len(got) != 1 || got[0].Path() != path {
				t.Fatalf("the upstream got %q", got)
			}
			gotFirst(t, got[0], account)
			if lines := got[0].Named("Cookie"); len(lines) != 1 {
				t.Errorf("cookies in %d lines: %q", len(lines), lines)
			}
		}
		if protocol := browser.Eval[string](p,
			`performance.getEntriesByType("navigation")[0].nextHopProtocol`); (protocol == "h2") != secure {
			t.Errorf("it came by %s", protocol)
		}
		if status, _ := p.Visit(base + "/app/more"); status != http.StatusTooManyRequests {
			t.Errorf("one more: %d", status)
		}
		if left, outer := s.left(t, account), s.left(t, "outer"); left != 0 || outer != few {
			t.Errorf("it has %d left, the other %d", left, outer)
		}
		// Outside of /app it is the other session, once, and nothing changes.
		if status, _ := p.Visit(base + "/shop"); status != http.StatusOK {
			t.Errorf("outside of /app: %d", status)
		}
		got := taken()
		if len(got) != 1 || !slices.Equal(got[0].Values("Cookie"), []string{"first=1; session=outer; last=1"}) {
			t.Errorf("outside of /app the upstream got %q", got)
		}
	}
}
