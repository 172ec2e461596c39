package httpgate

import (
	"bufio"
	"fmt"
	"net/http"
	"net/netip"
	"sort"
	"strings"
	"testing"

	"weir"
	"weir/identify"
)

// readings are what a client sends through a proxy on this machine, what the gate makes of it, and what goes on. The
// proxy has another one in front of it, 10.0.0.2.
var readings = []struct {
	name   string
	header identify.Header
	lines  []string // as they come from the proxy
	source string   // ? where it is not known
	xff    string   // as it goes on, before the peer
	fwd    string
}{
	{"the default", "", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9", "203.0.113.9, ", ""},
	{"a Forwarded line", "", []string{"Forwarded: for=198.51.100.1", "X-Forwarded-For: 203.0.113.9"}, "203.0.113.9",
		"203.0.113.9, ", ""},
	{"in other letters", "", []string{"fOrWaRdEd: FOR=198.51.100.1;proto=https", "x-forwarded-for: 203.0.113.9"},
		"203.0.113.9", "203.0.113.9, ", ""},
	{"an empty one", "", []string{"Forwarded:", "X-Forwarded-For: 203.0.113.9"}, "203.0.113.9", "203.0.113.9, ", ""},
	{"garbage", "", []string{`Forwarded: "`, "X-Forwarded-For: garbage, , 203.0.113.9, 10.0.0.2"}, "203.0.113.9",
		"garbage, , 203.0.113.9, 10.0.0.2, ", ""},
	{"an empty line", "", []string{"X-Forwarded-For:", "X-Forwarded-For: 203.0.113.9"}, "203.0.113.9",
		", 203.0.113.9, ", ""},
	{"a name with underscores", "", []string{"X_Forwarded_For: 198.51.100.1", "X-Forwarded-For: 203.0.113.9"},
		"203.0.113.9", "203.0.113.9, ", ""},
	{"named by Connection", "", []string{"Connection: X-Forwarded-For, Forwarded", "X-Forwarded-For: 203.0.113.9"},
		"203.0.113.9", "203.0.113.9, ", ""},
	{"33 hops", "", []string{"X-Forwarded-For: " + strings.Repeat("10.0.0.3, ", 32) + "203.0.113.9, 10.0.0.2"},
		"203.0.113.9",
		strings.Repeat("10.0.0.3, ", 32) + "203.0.113.9, 10.0.0.2, ", ""},
	{"a proxy does not say", "", []string{"X-Forwarded-For: 203.0.113.9, unknown, 10.0.0.2"}, "10.0.0.2?",
		"203.0.113.9, unknown, 10.0.0.2, ", ""},
	{"the proxy itself", "", nil, "127.0.0.1", "", ""},
	{"only the other one", "", []string{"Forwarded: for=203.0.113.9"}, "127.0.0.1?", "", ""},

	{"forwarded", identify.ForwardedHeader, []string{"Forwarded: for=203.0.113.9"}, "203.0.113.9", "",
		"for=203.0.113.9, "},
	{"an X-Forwarded-For line", identify.ForwardedHeader,
		[]string{"X-Forwarded-For: 198.51.100.1", "Forwarded: for=203.0.113.9"}, "203.0.113.9", "",
		"for=203.0.113.9, "},
	{"an open quote", identify.ForwardedHeader, []string{`Forwarded: for="198.51.100.1, for=203.0.113.9`},
		"203.0.113.9", "", "for=203.0.113.9, "},
	{"an open quote behind IPv6", identify.ForwardedHeader, []string{`Forwarded: for=_a;b="\, for="[2001:db8::9]:80"`},
		"2001:db8::9", "", `for="[2001:db8::9]", `},
	{"an open quote in a line of its own", identify.ForwardedHeader,
		[]string{`Forwarded: for="`, "Forwarded: for=203.0.113.9"}, "203.0.113.9", "", "for=203.0.113.9, "},
	{"only X-Forwarded-For", identify.ForwardedHeader, []string{"X-Forwarded-For: 203.0.113.9"}, "127.0.0.1?", "", ""},
}

// originOf writes where an event came from as readings do.
func originOf(ev *weir.Event) string {
	s := ev.Source.String()
	if ev.SourceUnknown {
		s += "?"
	}
	return s
}

// TestForwardingHeadersOnTheWire: the header that the proxies do not maintain is ignored, and what goes on, compared
// byte by byte, is what the gate goes by; over HTTP/1 and HTTP/2.
func TestForwardingHeadersOnTheWire(t *testing.T) {
	for _, c := range readings {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			if proto == "HTTP/2.0" && c.name == "named by Connection" {
				continue // there is no such header
			}
			t.Run(c.name+" over "+proto, func(t *testing.T) {
				rec := record(t)
				got := make(chan string, 1)
				g := start(t, Options{Upstream: to("http://" + rec.Addr().String()), ForwardedHeader: c.header,
					TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"),
						netip.MustParsePrefix("10.0.0.0/8")}},
					newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
						got <- originOf(ev)
						return nil
					}))
				var res *http.Response
				if proto == "HTTP/1.1" {
					conn := g.dial()
					g.send(conn, "GET /x HTTP/1.1\r\nHost: a\r\n"+strings.Join(append(c.lines, "\r\n"), "\r\n"))
					res, _ = g.answer(bufio.NewReader(conn))
				} else {
					req := g.request("GET", "/x", nil)
					req.Host = "a"
					for _, line := range c.lines {
						name, value, _ := strings.Cut(line, ":")
						name = http.CanonicalHeaderKey(name)
						req.Header[name] = append(req.Header[name], strings.TrimPrefix(value, " "))
					}
					var err error
					client := h2c()
					defer client.CloseIdleConnections()
					if res, err = client.Do(req); err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
				}
				if res.StatusCode != 200 {
					t.Fatal(res.Status)
				}
				if source := receive(t, got); source != c.source {
					t.Errorf("the source is %s, want %s", source, c.source)
				}
				want := []string{fmt.Sprintf("Forwarded: %sfor=127.0.0.1;host=a;proto=http", c.fwd),
					fmt.Sprintf("X-Forwarded-For: %s127.0.0.1", c.xff)}
				if lines := forwardingLines(rec.got()); strings.Join(lines, "\n") != strings.Join(want, "\n") {
					t.Errorf("went on as\n%q\nwant\n%q", lines, want)
				}
			})
		}
	}
}

// forwardingLines are the lines of a request that say where it came from, sorted.
func forwardingLines(request string) (lines []string) {
	for line := range strings.SplitSeq(request, "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		switch strings.ToLower(strings.ReplaceAll(name, "_", "-")) {
		case "forwarded", "x-forwarded-for":
			lines = append(lines, line)
		}
	}
	sort.Strings(lines)
	return lines
}

// TestRealIPOnTheWire: a proxy that does not write X-Real-IP hands on what its client wrote. It goes on only if it
// says what the gate goes by.
func TestRealIPOnTheWire(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["X-Real-Ip"]) })
	g := start(t, Options{Upstream: to(up.URL), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	for lines, want := range map[string]string{
		"X-Real-IP: 203.0.113.9\r\n":                                 "[203.0.113.9]",
		"X-Real-IP: ::ffff:203.0.113.9\r\n":                          "[::ffff:203.0.113.9]",
		"X-Real-IP: 198.51.100.1\r\n":                                "[]",
		"X-Real-IP: \r\n":                                            "[]",
		"X-Real-IP: 203.0.113.9\r\nX-Real-IP: 198.51.100.1\r\n":      "[]",
		"X-Real-IP: 203.0.113.9\r\nConnection: close, X-Real-IP\r\n": "[]",
		"X_Real_IP: 203.0.113.9\r\n":                                 "[]",
	} {
		c := g.dial()
		g.send(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\n"+lines+"\r\n")
		if _, body := g.answer(bufio.NewReader(c)); body != want {
			t.Errorf("%q: %s, want %s", lines, body, want)
		}
	}
}
