package httpgate

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"weir"
	"weir/identify"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/readers"
	taker "weir/internal/testkit/recorder"
)

// A charged is a throttle that admits everything and tells which account it charged last.
type charged struct {
	*throttle
	mu   sync.Mutex
	last string
}

func newCharged() *charged {
	c := &charged{throttle: newThrottle(nil)}
	c.Answer = func(ev *weir.Event, _ *weir.Answer) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last = ev.Account
		return nil
	}
	return c
}

func (c *charged) Settle(weir.Hold, weir.Outcome) {}

func (c *charged) account() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// A speaker sends a request as it is written, and returns the status of the answer.
type speaker func(target string, lines []readers.Line) int

// http1 speaks HTTP/1.1 by hand, each request on a connection of its own.
func overHTTP1(r *rig) speaker {
	return func(target string, lines []readers.Line) int {
		c := r.dial()
		defer c.Close()
		head := "GET " + target + " HTTP/1.1\r\nHost: example.com\r\n"
		for _, l := range lines {
			head += l.Name + ": " + l.Value + "\r\n"
		}
		r.send(c, head+"\r\n")
		res, _ := r.answer(bufio.NewReader(c))
		return res.StatusCode
	}
}

// speakHTTP2 speaks HTTP/2 by hand, so that no library puts the headers in order.
func speakHTTP2(r *rig, a *authority) speaker {
	return func(target string, lines []readers.Line) int {
		c := r.dialTLS(a, "h2")
		defer c.Close()
		return ask2(r, c, target, lines)
	}
}

func ask2(r *rig, c *tls.Conn, target string, lines []readers.Line) int {
	t := r.t
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, p := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "example.com"},
		{":path", target}} {
		_ = e.WriteField(hpack.HeaderField{Name: p[0], Value: p[1]})
	}
	for _, l := range lines {
		_ = e.WriteField(hpack.HeaderField{Name: strings.ToLower(l.Name), Value: strings.Trim(l.Value, " \t")})
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true,
		EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			status := 0
			_, _ = fmt.Sscan(frame.PseudoValue("status"), &status)
			return status
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0 // refused before anybody looked at it
		}
	}
}

// patience bounds how long a test waits for something that must happen.
const patience = time.Minute

func linesOf(r taker.Request) (all []readers.Line) {
	for _, line := range r.Lines() {
		name, value, _ := strings.Cut(line, ":")
		all = append(all, readers.Line{Name: name, Value: value})
	}
	return all
}

// TestTheUpstreamReadsWhoPaid: whatever a request looks like, at HTTP/1 and HTTP/2, no server behind the gate can
// read another account in the bytes that it gets than the one that was charged; or the request gets 400 and reaches
// nobody.
func TestTheUpstreamReadsWhoPaid(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	ca := newAuthority(t, "ca")
	for _, place := range []string{"header:X-Api-Key", "bearer", "query:key", "cookie:session"} {
		up, c := taker.Start(t), newCharged()
		o := Options{Upstream: to(up.URL()), Account: []string{place}}
		plain, secure := start(t, o, c), startTLS(t, ca, o, c)
		for version, say := range map[string]speaker{"HTTP/1.1": overHTTP1(plain), "HTTP/2": speakHTTP2(secure, ca)} {
			t.Run(place+" "+version, rapid.MakeCheck(func(t *rapid.T) {
				query, lines := readers.Any(t, place)
				status := say("/v1/x?"+query, lines)
				got := up.Take()
				switch {
				case status == 200 && len(got) == 1:
					_, query, _ := strings.Cut(got[0].Target(), "?")
					if server, read := readers.Misread(place, query, linesOf(got[0]), c.account()); server != "" {
						t.Fatalf("charged %q, read by %q: %q in\n%s", c.account(), server, read, got[0].Head)
					}
				case len(got) > 0 || status != 400 && status != 0:
					t.Fatalf("status %d, and %d requests behind the gate", status, len(got))
				}
			}))
		}
	}
}

// TestNamedTwiceAtTheGate: each way that once passed a limit, with the bytes that reach the upstream.
func TestNamedTwiceAtTheGate(t *testing.T) {
	ca := newAuthority(t, "ca")
	for _, c := range []struct {
		name, place, query string
		lines              []readers.Line
		status             int
		account            string
		sent               map[string][]string // lines of these names that the upstream gets
	}{
		{"two lines", "header:X-Api-Key", "",
			[]readers.Line{{Name: "X-Api-Key", Value: "a"}, {Name: "X-Api-Key", Value: "b"}}, 400, "", nil},
		{"comma", "header:X-Api-Key", "", []readers.Line{{Name: "X-Api-Key", Value: "a, b"}}, 400, "", nil},
		{"equal lines", "header:X-Api-Key", "",
			[]readers.Line{{Name: "X-Api-Key", Value: "a"}, {Name: "X-Api-Key", Value: "a"}}, 200, "a",
			map[string][]string{"X-Api-Key": {"a", "a"}}},
		{"underscores", "header:X-Api-Key", "",
			[]readers.Line{{Name: "X-Api-Key", Value: "a"}, {Name: "X_Api_Key", Value: "b"},
				{Name: "X_Other", Value: "c"}}, 200, "a",
			map[string][]string{"X-Api-Key": {"a"}, "X_Api_Key": nil, "X_Other": {"c"}}},
		{"two tokens", "bearer", "", []readers.Line{{Name: "Authorization", Value: "Bearer a"},
			{Name: "Authorization", Value: "Bearer b"}}, 400, "", nil},
		{"query", "query:key", "key=a&key=b", nil, 400, "", nil},
		{"escaped name", "query:key", "key=a&%6bey=b", nil, 400, "", nil},
		{"brackets", "query:key", "key=a&key[]=b", nil, 400, "", nil},
		{"cookie", "cookie:session", "", []readers.Line{{Name: "Cookie", Value: "x=1; session=a; session=b; y=2"}}, 200,
			"a",
			map[string][]string{"Cookie": {"session=a; x=1; y=2"}}},
		{"cookie in two lines", "cookie:session", "",
			[]readers.Line{{Name: "Cookie", Value: "session=a; x=1"}, {Name: "Cookie", Value: "session=b"}}, 200, "a",
			map[string][]string{"Cookie": {"session=a; x=1"}}},
		{"only another cookie", "cookie:session", "", []readers.Line{{Name: "Cookie", Value: "SESSION=b"}}, 200, "",
			map[string][]string{"Cookie": nil}},
		{"other target", "header:X-Api-Key", "",
			[]readers.Line{{Name: "X-Api-Key", Value: "a"}, {Name: "X-Original-URL", Value: "/admin"},
				{Name: "X-Rewrite-Url", Value: "/admin"},
				{Name: "X_Original_Url", Value: "/admin"}}, 200, "a",
			map[string][]string{"X-Original-Url": nil, "X-Rewrite-Url": nil, "X_Original_Url": nil}},
	} {
		up, paid := taker.Start(t), newCharged()
		o := Options{Upstream: to(up.URL()), Account: []string{c.place}}
		plain, secure := start(t, o, paid), startTLS(t, ca, o, paid)
		for version, say := range map[string]speaker{"HTTP/1.1": overHTTP1(plain), "HTTP/2": speakHTTP2(secure, ca)} {
			status := say("/v1/x?"+c.query, c.lines)
			got := up.Take()
			if status != c.status || (len(got) == 1) != (c.status == 200) {
				t.Errorf("%s, %s: status %d, %d requests passed on", c.name, version, status, len(got))
				continue
			}
			if status != 200 {
				if plain.seen.bounds(BoundAccount)+secure.seen.bounds(BoundAccount) == 0 {
					t.Errorf("%s, %s: not counted", c.name, version)
				}
				continue
			}
			if paid.account() != c.account {
				t.Errorf("%s, %s: charged %q", c.name, version, paid.account())
			}
			for name, want := range c.sent {
				if values := got[0].Values(name); strings.Join(values, "|") != strings.Join(want, "|") {
					t.Errorf("%s, %s: %s is %q, want %q", c.name, version, name, values, want)
				}
			}
		}
	}
	// Over HTTP/1 the Connection header could have the account removed on its way.
	up, paid := taker.Start(t), newCharged()
	r := start(t, Options{Upstream: to(up.URL()), Account: []string{"header:X-Api-Key"}}, paid)
	if status := overHTTP1(r)("/", []readers.Line{{Name: "X-Api-Key", Value: "invented"},
		{Name: "Connection", Value: "close, x-api-key"}}); status != 400 || len(up.Take()) > 0 {
		t.Errorf("taken away: %d", status)
	}
}

// TestPlacesThatDisagree: a request that names different accounts in different places is refused, unless the first is
// to count.
func TestPlacesThatDisagree(t *testing.T) {
	ca := newAuthority(t, "ca")
	both := []readers.Line{{Name: "X-Api-Key", Value: "a"}, {Name: "Authorization", Value: "Bearer b"}}
	for conflict, want := range map[identify.Conflict]int{"": 400, identify.ConflictRefuse: 400,
		identify.ConflictFirst: 200} {
		up, paid := taker.Start(t), newCharged()
		o := Options{Upstream: to(up.URL()), Account: []string{"header:X-Api-Key", "bearer", "source"},
			AccountConflict: conflict}
		plain, secure := start(t, o, paid), startTLS(t, ca, o, paid)
		for version, say := range map[string]speaker{"HTTP/1.1": overHTTP1(plain), "HTTP/2": speakHTTP2(secure, ca)} {
			if got := say("/", both); got != want || want == 200 && paid.account() != "a" {
				t.Errorf("%q, %s: %d, charged %q", conflict, version, got, paid.account())
			}
			if got := say("/", both[1:]); got != 200 || paid.account() != "b" {
				t.Errorf("%q, %s, one of them: %d, charged %q", conflict, version, got, paid.account())
			}
			if got := say("/", nil); got != 200 || paid.account() != "source:127.0.0.1" {
				t.Errorf("%q, %s, none of them: %d, charged %q", conflict, version, got, paid.account())
			}
		}
	}
	for _, places := range [][]string{{"path:1", "bearer"}, {"header:Host", "query:key"}} {
		o := Options{Listen: "127.0.0.1:0", Upstream: to("http://127.0.0.1:1"), Account: places}
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "account_conflict") {
			t.Errorf("%q: %v", places, err)
		}
	}
}

// TestTrailersNameNobody: what says who sends a request, where it came from or where it ends does not reach the
// upstream behind the body.
func TestTrailersNameNobody(t *testing.T) {
	ca := newAuthority(t, "ca")
	names := []string{"X-Api-Key", "X_Api_Key", "Authorization", "Cookie", "X-Forwarded-For", "X_Forwarded_For",
		"Forwarded", "X-Real-Ip", "X-Original-Url", "X_Rewrite_Url",
		"Content-Type", "Content-Encoding", "Content_Length", "Expect", "X-Sum"}
	up := taker.Start(t)
	o := Options{Upstream: to(up.URL()), Account: []string{"header:X-Api-Key"}}
	check := func(version string, status int) {
		t.Helper()
		got := up.Take()
		if status != 200 || len(got) != 1 {
			t.Fatalf("%s: %d, %d requests", version, status, len(got))
		}
		_, trailer, _ := strings.Cut(string(got[0].Framed), "\r\n0\r\n")
		if trailer != "X-Sum: evil\r\n\r\n" {
			t.Errorf("%s: the trailer is %q", version, trailer)
		}
		if announced := strings.Join(got[0].Values("Trailer"), ","); announced != "X-Sum" {
			t.Errorf("%s: announced %q", version, announced)
		}
	}
	plain := start(t, o, newCharged())
	c := plain.dial()
	text := "POST / HTTP/1.1\r\nHost: a\r\nX-Api-Key: a\r\nTransfer-Encoding: chunked\r\nTrailer: " +
		strings.Join(names, ", ") + "\r\n\r\n2\r\nhi\r\n0\r\n"
	for _, name := range names {
		text += name + ": evil\r\n"
	}
	plain.send(c, text+"\r\n")
	res, _ := plain.answer(bufio.NewReader(c))
	check("HTTP/1.1", res.StatusCode)

	secure := startTLS(t, ca, o, newCharged())
	req, err := http.NewRequest("POST", "https://"+secure.addr+"/", io.NopCloser(strings.NewReader("hi")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "a")
	req.Trailer = http.Header{}
	for _, name := range names {
		if httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(name)) { // net/http refuses the others itself
			req.Trailer.Set(name, "evil")
		}
	}
	h2 := ca.transport(true, nil)
	defer h2.CloseIdleConnections()
	res, _ = do(t, h2, req)
	check("HTTP/2", res.StatusCode)
}
