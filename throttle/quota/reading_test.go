package quota

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"weir"
	"weir/identify"
	"weir/internal/testkit/needs"
)

// servers are small models of how servers read the path of a request, written from their documentation and
// independently of identify. Each returns the path that it routes by, or "" where it refuses the request.
var servers = map[string]func(raw string) string{
	"tomcat":                         func(raw string) string { return tomcat(raw, unescapeAll) },
	"tomcat, encoded slashes":        func(raw string) string { return tomcat(raw, keepSlashes) },
	"spring, decoded first":          func(raw string) string { return absolute(cutParameters(unescapeAll(raw))) },
	"jetty, without compacting":      func(raw string) string { return removeDots(unescapeAll(cutParameters(raw))) },
	"nginx":                          func(raw string) string { return nginx(raw, true) },
	"nginx, merge_slashes off":       func(raw string) string { return nginx(raw, false) },
	"nginx, then tomcat":             func(raw string) string { return tomcat(nginx(raw, true), unescapeAll) },
	"apache":                         func(raw string) string { return absolute(unescapeAll(raw)) },
	"apache, NoDecode":               func(raw string) string { return absolute(keepSlashes(raw)) },
	"iis":                            func(raw string) string { return iis(unescapeAll(unescapeWide(raw))) },
	"iis, decoded twice":             func(raw string) string { return iis(unescapeAll(unescapeAll(raw))) },
	"a lenient decoder of UTF-8":     func(raw string) string { return absolute(lenient(unescapeAll(raw))) },
	"go, ServeMux":                   serveMux,
	"go, path.Clean":                 func(raw string) string { return path.Clean("/" + unescapeAll(raw)) },
	"express":                        func(raw string) string { return strings.ToLower(raw) },
	"node, new URL":                  whatwg,
	"node, new URL and decoded":      func(raw string) string { return unescapeAll(whatwg(raw)) },
	"wsgi":                           unescapeAll,
	"wsgi, a pattern that ends in $": func(raw string) string { return strings.TrimSuffix(unescapeAll(raw), "\n") },
	"c, a string ends at NUL":        func(raw string) string { return absolute(upTo(unescapeAll(raw), "\x00")) },
	"a rewrite that finds a query":   func(raw string) string { return absolute(upTo(unescapeAll(raw), "?")) },
	"as it stands":                   func(raw string) string { return raw },
}

var escapes, wideEscapes = regexp.MustCompile(`%[0-9a-fA-F]{2}`), regexp.MustCompile(`%[uU][0-9a-fA-F]{4}`)

func unescapeAll(p string) string {
	return escapes.ReplaceAllStringFunc(p, func(e string) string {
		n, _ := strconv.ParseUint(e[1:], 16, 8)
		return string([]byte{byte(n)})
	})
}

func unescapeWide(p string) string {
	return wideEscapes.ReplaceAllStringFunc(p, func(e string) string {
		n, _ := strconv.ParseUint(e[2:], 16, 16)
		return string(rune(n))
	})
}

func keepSlashes(p string) string {
	return escapes.ReplaceAllStringFunc(p, func(e string) string {
		if strings.EqualFold(e, "%2f") {
			return e
		}
		return unescapeAll(e)
	})
}

func upTo(p, end string) string {
	p, _, _ = strings.Cut(p, end)
	return p
}

var parameters = regexp.MustCompile(`;[^/]*`)

func cutParameters(p string) string { return parameters.ReplaceAllString(p, "") }

// absolute cleans a path, and refuses one that leads above the root.
func absolute(p string) string {
	depth := 0
	for segment := range strings.SplitSeq(p, "/") {
		switch segment {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return ""
			}
		default:
			depth++
		}
	}
	return path.Clean("/" + p)
}

func tomcat(raw string, decode func(string) string) string {
	return absolute(strings.ReplaceAll(decode(cutParameters(raw)), `\`, "/"))
}

// nginx reads byte by byte: a path ends at '#' or '?', escapes are decoded before slashes and dots are looked at.
func nginx(raw string, merge bool) string {
	if i := strings.IndexAny(raw, "#?"); i >= 0 {
		raw = raw[:i]
	}
	p := unescapeAll(raw)
	if merge {
		return absolute(p)
	}
	return removeDots(p)
}

// removeDots follows RFC 3986 section 5.2.4 to the letter.
func removeDots(in string) string {
	out := ""
	for in != "" {
		switch {
		case strings.HasPrefix(in, "../"):
			in = in[3:]
		case strings.HasPrefix(in, "./"):
			in = in[2:]
		case strings.HasPrefix(in, "/./"):
			in = in[2:]
		case in == "/.":
			in = "/"
		case strings.HasPrefix(in, "/../"), in == "/..":
			if in = in[3:]; in == "" {
				in = "/"
			}
			out = out[:max(strings.LastIndexByte(out, '/'), 0)]
		case in == ".", in == "..":
			in = ""
		default:
			n := strings.IndexByte(in[1:], '/') + 1
			if n == 0 {
				n = len(in)
			}
			out, in = out+in[:n], in[n:]
		}
	}
	return out
}

var endsUnseen = regexp.MustCompile(`([^/. ])[. ]+(/|$)`)

func iis(p string) string {
	p = absolute(strings.ReplaceAll(p, `\`, "/"))
	return strings.ToLower(endsUnseen.ReplaceAllString(p, "$1$2"))
}

var overlongs = strings.NewReplacer("\xc0\xaf", "/", "\xc0\xae", ".", "\xc1\x9c", `\`, "\xe0\x80\xaf", "/")

func lenient(p string) string { return strings.ReplaceAll(overlongs.Replace(p), `\`, "/") }

// serveMux asks a real one. It redirects to what it would have cleaned.
func serveMux(raw string) string {
	u, err := url.ParseRequestURI(raw)
	if err != nil {
		return ""
	}
	w := httptest.NewRecorder()
	loginMux.ServeHTTP(w, &http.Request{Method: "GET", URL: u, RequestURI: raw})
	return w.Body.String()
}

var loginMux = func() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "/login") })
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	return mux
}()

var escapedDots = regexp.MustCompile(`(?i)%2e`)

// whatwg is the parser of URLs that browsers and Node have: backslashes are slashes, what comes after two or more of
// them is a host, and escaped dots are dots.
func whatwg(raw string) string {
	if i := strings.IndexAny(raw, "#?"); i >= 0 {
		raw = raw[:i]
	}
	raw = strings.NewReplacer(`\`, "/", "\t", "", "\n", "", "\r", "").Replace(raw)
	if rest, found := strings.CutPrefix(raw, "//"); found {
		_, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		raw = "/" + rest
	}
	return removeDots(escapedDots.ReplaceAllString(raw, "."))
}

var loginRule = Match{Paths: []string{"/login"}}

// holds reports whether a rule about /login applies to a path.
func holds(raw string) bool {
	r := identify.Route("GET", "example.com", raw, nil)
	return loginRule.matches(&r, "")
}

// readers returns the servers that read /login in a path.
func readers(raw string) (all []string) {
	for name, read := range servers {
		if readsLogin(read(raw)) {
			all = append(all, name)
		}
	}
	return all
}

// readsLogin is how routers compare, which leave out a slash at the end.
func readsLogin(p string) bool { return p == "/login" || p == "/login/" }

var pieces = []string{
	"/", "/", "/", "login", "login", "LOGIN", ";x", ";", "..", "..", ".", "%2f", "%2F", "%2e", "%2E%2e", "%3b",
	"%252f", "%252e", "%253b", `\`, "%5c", "%255c", "//", "a", "%61", "%6c", "ogin", "%00", "%3f", "%23", "#",
	"%20", "%0a", "%c0%af", "%c0%ae", "%e0%80%af", "%u002f", "%", "%zz", "/../", "/..;/", "/./",
}

func build(choices []byte) string {
	var b strings.Builder
	b.WriteByte('/')
	for _, c := range choices {
		b.WriteString(pieces[int(c)%len(pieces)])
	}
	return b.String()
}

// TestNoServerIsFooled: whatever a path is made of, if a server reads /login, a limit for /login holds.
func TestNoServerIsFooled(t *testing.T) {
	needs.Unwatched(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	some := func(most int) []byte {
		choices := make([]byte, rnd.IntN(most+1))
		for i := range choices {
			choices[i] = byte(rnd.UintN(uint(len(pieces))))
		}
		return choices
	}
	read := map[string]int{}
	for range 5000 {
		raw := build(some(6)) + "login" + build(some(2))[1:]
		by := readers(raw)
		if by != nil && !holds(raw) {
			t.Errorf("%s dodges the limit at %q", raw, by)
		}
		for _, name := range by {
			read[name]++
		}
	}
	for name := range servers { // models are to say something
		if read[name] < 5 {
			t.Errorf("%s has read /login %d times only", name, read[name])
		}
	}
}

func FuzzNoServerIsFooled(f *testing.F) {
	f.Add([]byte{0, 3}, "/public/..;/login")
	f.Add([]byte{3, 6}, "/%2e%2e/login")
	f.Fuzz(func(t *testing.T, choices []byte, raw string) {
		if len(choices) > 40 {
			choices = choices[:40]
		}
		for _, p := range []string{build(choices), "/" + raw} {
			if holds(p) {
				continue
			}
			if by := readers(p); by != nil {
				t.Errorf("%q dodges the limit at %q", p, by)
			}
		}
	})
}

// TestMatchReadings: a policy is about an event if it is about any reading of it, and about nothing else.
func TestMatchReadings(t *testing.T) {
	shop, below := Match{Paths: []string{"/shop"}}, Match{Paths: []string{"/shop/**"}}
	one := Match{Paths: []string{"/shop/*"}}
	deletes := Match{Methods: []string{"DELETE"}, Paths: []string{"/shop"}}
	for _, c := range []struct {
		match *Match
		route weir.Route
		want  bool
	}{
		{&shop, identify.Route("GET", "", "/shop;jsessionid=1", nil), true},
		{&shop, identify.Route("GET", "", "/shop;jsessionid=1/cart", nil), false},
		{&below, identify.Route("GET", "", "/shop;jsessionid=1/cart;x", nil), true},
		{&loginRule, identify.Route("GET", "", "/shop;jsessionid=1", nil), false},
		{&one, identify.Route("GET", "", "/shop/a%2Fb", nil), true},
		{&one, identify.Route("GET", "", "/shop/a/b", nil), false},
		{&shop, identify.Route("GET", "", "/Shop", nil), true},
		{&shop, identify.Route("GET", "", "/sh%C3%B6p", nil), false},
		{&shop, identify.Route("GET", "", "/../x", nil), true}, // above the root may be anything
		{&deletes, identify.Route("DELETE", "", "/shop", nil), true},
		{&deletes, identify.Route("delete", "", "/shop", nil), true},
		{&deletes, identify.Route("POST", "", "/shop", nil), false},
		{&deletes, identify.Route("POST", "", "/shop", http.Header{"X-Http-Method-Override": {"Delete"}}), true},
		{&deletes, identify.Route("POST", "", "/cart", http.Header{"X-Http-Method-Override": {"DELETE"}}), false},
		{&deletes, identify.Route("POST", "", "/shop", http.Header{"X-Http-Method": {"1,2,3,4,5,6,7,8,9"}}), true},
		{&shop, weir.Route{}, false}, // mail has no path
	} {
		if got := c.match.matches(&c.route, ""); got != c.want {
			t.Errorf("%+v on %+v: %v", *c.match, c.route, got)
		}
	}
}
