package httpgate

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"testing"
)

func TestWithoutPrefix(t *testing.T) {
	for in, want := range map[string]string{
		"/v1":                  "/",
		"/v1/":                 "/",
		"/v1/users":            "/users",
		"/v1//users":           "/users",
		"/v1////":              "/",
		"/%761/users":          "/users",
		"/v1/users%2F17":       "/users%2F17", // as it came
		"/v1/users;x=1":        "/users;x=1",
		"/v1/a//b":             "/a//b",
		"/v1/a/../b":           "/a/../b",
		"/v1/k%C3%A4se":        "/k%C3%A4se",
		"/v1/.":                "/.",
		"/v1/v1/x":             "/v1/x",
		"/v10":                 "-", // within a segment
		"/v1x/y":               "-",
		"/V1/x":                "-",
		"/v":                   "-",
		"/":                    "-",
		"":                     "-",
		"//v1/x":               "-",
		"/./v1/x":              "-",
		"/x/../v1/y":           "-",
		"/v1;x/y":              "-",
		"/v1%2Fusers":          "-",
		"%2Fv1/users":          "-",
		"/v1%":                 "-",
		"/v1?x":                "-",
		`/v1\users`:            "-",
		"/v1/..":               "-", // above the root
		"/v1/../v1/x":          "-",
		"/v1/..;/v1/x":         "-",
		"/v1/%2e%2e/v1/x":      "-",
		"/v1/..%2fv1":          "-",
		"/v1/%252e%252e/v1":    "-",
		`/v1/..\v1`:            "-",
		"/v1/a/../../b":        "-",
		"/v1/%2fevil.example":  "-", // a host, to some
		"/v1/%5cevil.example":  "-",
		`/v1/\evil.example`:    "-",
		"/v1//%2f/evil":        "-",
		"/v1/.//evil.example/": "-", // if the dot goes first
		"/v1/;//evil.example":  "-",
		"/v1/" + strings.Repeat("a/", 600) + "b;c": "-", // too long to be taken apart
	} {
		rest, ok := withoutPrefix(in, "/v1")
		if !ok {
			rest = "-"
		}
		if rest != want {
			t.Errorf("%q: %q, want %q", in, rest, want)
		}
	}
	if rest, ok := withoutPrefix("/k%c3%a4se/1", "/käse"); !ok || rest != "/1" {
		t.Errorf("%q %v", rest, ok)
	}
}

// FuzzWithoutPrefix: whatever server is behind the gate, it finds the same below what is left as it would have found
// below the prefix, and nothing above the root.
func FuzzWithoutPrefix(f *testing.F) {
	for _, p := range []string{"/v1", "/v1/", "/v1/users", "/%761//a", "/v1/..;/x", "/v1/%2e%2e/x", "/v1/.//x", `/v1/\..\x`,
		"/v1/a;b/../c", "/v1/%252e%252e%252fx", "/v1/%c0%ae%c0%ae/x", "/v1/a/%00/../..", "/v1/;/..", "/v1/a/.%2e/.%2e/b"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		rest, ok := withoutPrefix(p, "/v1")
		if !ok {
			return
		}
		if !strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "//") || !strings.HasSuffix(p, rest[1:]) {
			t.Fatalf("%q became %q", p, rest)
		}
		for name, reads := range servers {
			if read := reads("/deep/down" + rest); !strings.HasPrefix(path.Clean(read)+"/", "/deep/down/") {
				t.Errorf("%q became %q, and %s climbs to %q", p, rest, name, read)
			}
			whole, left := path.Clean(reads(p)), path.Clean("/v1"+path.Clean(reads(rest)))
			if whole != left {
				t.Errorf("%q became %q: %s reads %q and %q", p, rest, name, whole, left)
			}
		}
	})
}

// TestStripPrefix: the upstream gets the path without that of the route, over HTTP/1.1 and HTTP/2.
func TestStripPrefix(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.RequestURI, r.Header.Get(prefixHeader))
	})
	h2 := "h2c" + strings.TrimPrefix(up.URL, "http")
	g := startRouted(t, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Routes: []Route{
		{Name: "cut", Path: "/v1/", StripPrefix: true, Upstream: new(to(up.URL))},
		{Name: "below", Path: "/app", StripPrefix: true, Upstream: new(to(up.URL + "/base/"))},
		{Name: "cheese", Path: "/k%C3%A4se", StripPrefix: true, Upstream: new(to(up.URL))},
		{Name: "two", Path: "/two", StripPrefix: true, Upstream: new(to(h2))},
		{Name: "rest", Upstream: new(to(up.URL))},
	}}, nil)
	for in, want := range map[string]string{
		"/v1":                               "200 / /v1",
		"/v1?a=/v1/b&c":                     "200 /?a=/v1/b&c /v1",
		"/v1/?":                             "200 /? /v1",
		"/v1/users/17?x=%2F":                "200 /users/17?x=%2F /v1",
		"/v1/a%2Fb":                         "200 /a%2Fb /v1",
		"/v1//users":                        "200 /users /v1",
		"/%76%31/users":                     "200 /users /v1",
		"http://a.example/v1/x?y":           "200 /x?y /v1",
		"http://a.example/v1":               "200 / /v1",
		"/app":                              "200 /base/ /app",
		"/app/x/y":                          "200 /base/x/y /app",
		"/k%c3%a4se/1":                      "200 /1 /k%C3%A4se",
		"/two/a%2Fb;c?d=e":                  "200 /a%2Fb;c?d=e /two",
		"/two":                              "200 / /two",
		"/v10":                              "200 /v10 ",
		"/other/v1/x":                       "200 /other/v1/x ",
		"/v1/../other":                      "400",
		"/v1/..;/v1/x":                      "400",
		"/app/..%2f..%2fsecret":             "400",
		"/v1/%2fevil.example/x":             "400",
		`/v1/\evil.example`:                 "400",
		"//v1/x":                            "400",
		"/v1;x/y":                           "400",
		"/V1/x":                             "400",
		"/v1%2fx":                           "400",
		"/two/" + strings.Repeat("a", 9000): "200 /" + strings.Repeat("a", 9000) + " /two",
	} {
		c := g.dial()
		g.send(c, "GET "+in+" HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Prefix: /forged\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "GET"})
		if err != nil {
			t.Fatal(in, err)
		}
		body, err := io.ReadAll(res.Body)
		if got := fmt.Sprint(res.StatusCode, " ", string(body)); !strings.HasPrefix(got, want) || err != nil ||
			strings.HasPrefix(want, "200") && got != want {
			t.Errorf("%.80s: %.80s %v, want %.80s", in, got, err, want)
		}
	}
	for _, path := range []string{"/v1/form", "/two/form"} { // with a body
		res, body := g.do(g.request("POST", path+"?a=b", strings.NewReader("body")))
		if want := "/form?a=b " + strings.TrimSuffix(path, "/form"); res.StatusCode != 200 || body != want {
			t.Errorf("POST %s: %s %q, want %q", path, res.Status, body, want)
		}
	}
	if name, _, end := g.RouteOf("a", "/v1/..;/v1/x"); name != RouteNone || !strings.Contains(end, "400") {
		t.Errorf("weir why says %s, %s", name, end)
	}
	if name, _, _ := g.RouteOf("a", "/v1/x"); name != "cut" {
		t.Errorf("weir why says %s", name)
	}
	res, _ := g.at("a.example", "/v1/users")
	if line := g.accessLine(res.Header.Get("X-Request-Id")); line["path"] != "/v1/users" {
		t.Errorf("the log has %v", line["path"])
	}
}

// TestStripPrefixBehindProxy: what a proxy in front has cut off stands before what the gate cuts off. A rule of the
// operator has the last word.
func TestStripPrefixBehindProxy(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Join(r.Header[prefixHeader], "|"))
	})
	g := startRouted(t, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Routes: []Route{
		{Path: "/v1", StripPrefix: true, Upstream: new(to(up.URL))},
		{Path: "/v2", StripPrefix: true, Upstream: new(to(up.URL)),
			Headers: Headers{Request: HeaderRules{Remove: []string{"X-Forwarded-Prefix"}}}},
	}}, nil)
	for _, c := range []struct{ path, sent, want string }{
		{"/v1/x", "", "/v1"},
		{"/v1/x", "/outer", "/outer/v1"},
		{"/v1/x", "/outer/", "/outer/v1"},
		{"/v1/x", "/a, /b", "/a/b/v1"},
		{"/v1/x", "//evil.example", "/v1"},
		{"/v1/x", "/a/../b", "/v1"},
		{"/v1/x", "a", "/v1"},
		{"/v2/x", "/outer", ""},
	} {
		header := []string{prefixHeader, c.sent}
		if c.sent == "" {
			header = nil
		}
		if _, body := g.at("a.example", c.path, header...); body != c.want {
			t.Errorf("%+v: %q", c, body)
		}
	}
}

// TestStripPrefixApart: routes that cut and routes that do not are not the same, whatever else they share.
func TestStripPrefixApart(t *testing.T) {
	same := to("http://127.0.0.1:1")
	r := routerOf(t, Options{Upstream: same, Routes: []Route{{Path: "/api", StripPrefix: true}, {Path: "/apis"}}})
	for in, want := range map[string]string{"/api;x": "unclear", "/apis;x": "default", "/apis/../api": "unclear"} {
		if got := r.chosen("a", in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
