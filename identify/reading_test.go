package identify

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weir"
)

// TestReadings: what servers may see in a path is among its readings.
func TestReadings(t *testing.T) {
	for escaped, want := range map[string]string{
		"/login;x=1":               "/login",
		"/login;":                  "/login",
		"/login%3bx=1":             "/login",
		"/login%253bx=1":           "/login",
		"/public/..;/login":        "/login",
		"/public/..;a=b/login":     "/login",
		"/public/%2e%2e;/login":    "/login",
		"/public/..%3b/login":      "/login",
		"/;/login":                 "/login",
		"/;x/;y/login;z":           "/login",
		"/public/../login":         "/login",
		"/public/%2e%2e/login":     "/login",
		"/public/.%2E/login":       "/login",
		"/public/%252e%252e/login": "/login",
		"/public%2f..%2flogin":     "/login",
		"/public%2F%2e%2e%2Flogin": "/login",
		"/%2flogin":                "/login",
		"/%252flogin":              "/login",
		"//login":                  "/login",
		"///login//":               "/login",
		"//host/login":             "/login",
		"/\\host/login":            "/login",
		"http://host/login":        "/login",
		"/./login":                 "/login",
		"/login/.":                 "/login",
		"/login/..;/login":         "/login",
		"/public\\..\\login":       "/login",
		"/public%5c..%5clogin":     "/login",
		"/%5clogin":                "/login",
		"/login%00.png":            "/login",
		"/login%3fx":               "/login",
		"/login%23x":               "/login",
		"/login#x":                 "/login",
		"/x#/../login":             "/login",
		"/login.":                  "/login",
		"/login%20":                "/login",
		"/login%20.%20":            "/login",
		"/login%0a":                "/login",
		"/lo%09gin":                "/login",
		"/login./":                 "/login",
		"/public/..%20/login":      "/login",
		"/.../login":               "/login",
		"/%c0%aflogin":             "/login",
		"/x/%c0%ae%c0%ae/login":    "/login",
		"/%e0%80%aflogin":          "/login",
		"/%f0%80%80%aflogin":       "/login",
		"/x%c1%9c..%c1%9clogin":    "/login",
		"/%u006cogin":              "/login",
		"/x%u002f..%U002flogin":    "/login",
		"/%zz/../login":            "/login",
		"/%6cogin;x":               "/login",
		"/a//../login":             "/a/login",   // where slashes are not merged
		"/a%2fb/../login":          "/login",     // where an encoded slash is none
		"/a%2fb%5cc/%2e%2e/login":  "/login",     // and other escapes are decoded first
		"/a/../b":                  "/a/../b",    // where nothing is resolved
		"/caf%C3%A9;x":             "/caf\u00e9", // ordinary escapes are no reading of their own
		"/a%2Fb":                   "/a%2Fb",     // one segment
	} {
		r := Route("GET", "Example.com:80", escaped, nil)
		if !r.Odd || r.Method != "GET" || r.Host != "example.com" || r.Path != want && !slices.Contains(r.Also, want) {
			t.Errorf("%s: %q is not in %+v", escaped, want, r)
		}
		if slices.Contains(r.Also, weir.Any) || slices.Contains(r.Also, r.Path) || len(r.Also) > MaxReadings {
			t.Errorf("%s: %q", escaped, r.Also)
		}
	}
}

// TestOneReading: what people and programs ask for every day is the same to everybody.
func TestOneReading(t *testing.T) {
	for escaped, want := range map[string]string{
		"/": "/", "/login": "/login", "/login/": "/login", "/a/b.c/d.html": "/a/b.c/d.html",
		"/.well-known/x": "/.well-known/x",
		"/k%C3%A4se":     "/k\u00e4se", "/k\u00e4se": "/k\u00e4se", "/a%20b": "/a b", "/@ann/posts": "/@ann/posts",
		"/a+b": "/a+b", "/v1/users:batch": "/v1/users:batch", "/p/x=1,y=2": "/p/x=1,y=2", "/a%40b%3A%2B": "/a@b:+",
		"/~ann/(x)!$&'*": "/~ann/(x)!$&'*", "/caf%E9": "/caf\xe9", "/%C0-propos": "/\xc0-propos",
		"/%E3%81%82": "/\u3042",
		"/a..b":      "/a..b", "/a...b/c": "/a...b/c", "/x|y": "/x|y", "/a%7Cb%22": `/a|b"`,
		"/%F0%9F%98%80": "/\U0001f600",
	} {
		r := Route("GET", "example.com", escaped, http.Header{"Accept": {"*/*"}})
		if r.Odd || r.Also != nil || r.AlsoMethods != nil || r.Path != want {
			t.Errorf("%s: %+v", escaped, r)
		}
	}
}

// TestFewReadings: paths that are odd and innocent have a few readings, and never all.
func TestFewReadings(t *testing.T) {
	for escaped, want := range map[string][]string{
		"/shop;jsessionid=1A2B":                   {"/shop"},
		"/shop/cart;jsessionid=1A2B.node1":        {"/shop/cart"},
		"/map;lat=50;long=20/item":                {"/map/item"},
		"/api/v4/projects/group%2Fproject/issues": {"/api/v4/projects/group%2Fproject/issues"},
		"/wiki/AC%2FDC":                           {"/wiki/AC%2FDC"},
		"/wiki/Who%3F":                            {"/wiki/Who%3F", "/wiki/Who"},
		"/wiki/C%23":                              {"/wiki/C%23", "/wiki/C"},
		"/wiki/Foo_Inc.":                          {"/wiki/Foo_Inc"},
		"/100%25":                                 {"/100%25"},
		"/a//b":                                   {"/a//b"},
		"/a/./b":                                  {"/a/./b"},
		"/a/../b":                                 {"/a/../b"},
		"/go/https%3A%2F%2Fexample.org%2Fx%3Fy%3Dz": nil,
		"/go/https://example.org/x":                 nil,
		"/caf%C3%A9;jsessionid=1":                   {"/caf\u00e9"},
		"/files/a%2Fb.tar.gz;v=2":                   nil,
		"//shop/cart;jsessionid=1":                  nil,
	} {
		r := Route("GET", "", escaped, nil)
		if !r.Odd || len(r.Also) == 0 || slices.Contains(r.Also, weir.Any) ||
			want != nil && !slices.Equal(r.Also, want) {
			t.Errorf("%s: %q, want %q", escaped, r.Also, want)
		}
	}
}

// TestTooManyReadings: what is beyond the bounds, or above the root, may be anything.
func TestTooManyReadings(t *testing.T) {
	// Each level of escapes is a reading: what came, what it is decoded once, which is the path, and so on up to the
	// letter.
	deep := func(others int) string { return "/%" + strings.Repeat("25", others-1) + "41" }
	if r := Route("", "", deep(MaxReadings), nil); len(r.Also) != MaxReadings || slices.Contains(r.Also, weir.Any) {
		t.Errorf("%d readings: %q", len(r.Also), r.Also)
	}
	wide := func(n int) string { return "/;" + strings.Repeat("x", n-2) }
	if r := Route("", "", wide(maxOddPath), nil); !slices.Equal(r.Also, []string{"/"}) {
		t.Errorf("a long path: %.100q", r.Also)
	}
	for _, escaped := range []string{
		deep(MaxReadings + 1), wide(maxOddPath + 1), "/../login", "/..", "/%2e%2e/x",
		"/a/..;/..;/b", "/a\\..\\..\\b", "/a/%252e./../b",
		"/a;b/c%2fd//e/./f%3bg%5ch",
	} {
		if r := Route("", "", escaped, nil); !r.Odd || !slices.Equal(r.Also, []string{weir.Any}) {
			t.Errorf("%.100s: %+.200v", escaped, r)
		}
	}
	long := "/" + strings.Repeat("x", 10*maxOddPath)
	if r := Route("", "", long, nil); r.Odd || r.Also != nil || r.Path != long {
		t.Error("a long path that is straight has other readings")
	}
}

// TestOverrides: headers that some servers believe are readings too.
func TestOverrides(t *testing.T) {
	for _, c := range []struct {
		header  http.Header
		odd     bool
		also    []string
		methods []string
	}{
		{http.Header{"X-Original-Url": {"/login"}}, true, []string{"/login"}, nil},
		{http.Header{"X-Rewrite-Url": {"/login?x=/y"}}, true, []string{"/login"}, nil},
		{http.Header{"X-Rewrite-Url": {"https://example.com/login"}}, true, []string{"/login"}, nil},
		{http.Header{"X-Rewrite-Url": {"/%6cogin"}}, true, []string{"/login"}, nil},
		{http.Header{"X-Original-Url": {"/a;x"}, "X-Rewrite-Url": {"", "/b"}}, true, []string{"/a;x", "/b", "/a"}, nil},
		{http.Header{"X-Original-Url": {"/../x"}}, true, []string{weir.Any}, nil},
		{http.Header{"X-Original-Url": {"/"}}, false, nil, nil}, // as a proxy in front writes it
		{http.Header{"X-Original-Url": {"https://example.com/?q=1"}, "X-Rewrite-Url": {" /?x"}}, false, nil, nil},
		{http.Header{"X-Http-Method-Override": {"DELETE"}}, false, nil, []string{"DELETE"}},
		{http.Header{"X-Http-Method": {"put, patch"}, "X-Method-Override": {"put", ""}}, false, nil,
			[]string{"put", "patch"}},
		{http.Header{"X-Http-Method": {"a,b,c,d,e,f,g,h"}}, false, nil, strings.Split("a b c d e f g h", " ")},
		{http.Header{"X-Http-Method": {"a,b,c,d,e,f,g,h,i"}}, false, nil, []string{weir.Any}},
	} {
		r := Route("POST", "example.com", "/", c.header)
		if r.Path != "/" || r.Odd != c.odd || !slices.Equal(r.Also, c.also) || !slices.Equal(r.AlsoMethods, c.methods) {
			t.Errorf("%v: %+v", c.header, r)
		}
	}
	many := http.Header{"X-Original-Url": nil}
	for i := range MaxReadings {
		many.Add("X-Original-Url", fmt.Sprint("/", i))
	}
	if r := Route("GET", "", "/", many); len(r.Also) != MaxReadings || slices.Contains(r.Also, weir.Any) {
		t.Errorf("at the bound: %q", r.Also)
	}
	many.Add("X-Original-Url", "/more")
	if r := Route("GET", "", "/", many); !slices.Equal(r.Also, []string{weir.Any}) {
		t.Errorf("beyond the bound: %q", r.Also)
	}
}

func TestSegments(t *testing.T) {
	for _, c := range []struct {
		escaped string
		n       int
		first   string
		agree   bool
	}{
		{"/acme/orders", 1, "acme", true},
		{"/acme/orders", 2, "orders", true},
		{"/acme/orders", 3, "", true},
		{"/", 1, "", true},
		{"", 1, "", true},
		{"/k%C3%A4se/x", 1, "k\u00e4se", true},
		{"/acme//orders", 2, "orders", true}, // no server takes an empty name for an account
		{"/acme/orders;v=1", 1, "acme", true},
		{"/acme/x%2fy", 1, "acme", true},
		{"/acme/x%2fy", 2, "x", false},
		{"/acme;x/orders", 1, "acme;x", false},
		{"/acme%3bx/orders", 1, "acme;x", false},
		{"/bob/../acme/orders", 1, "acme", false},
		{"/bob/..;/acme/orders", 1, "bob", false},
		{"/bob/%2e%2e/acme", 1, "acme", false},
		{"/bob%5c..%5cacme", 1, `bob\..\acme`, false},
		{"//bob/acme", 1, "bob", false},
		{"/acme%00x", 1, "acme\x00x", false},
		{"/acme./x", 1, "acme.", false},
		{"/acme#x", 1, "acme", false},
		{"/acme/x#y", 1, "acme", true},
		{"/%2561cme", 1, "%61cme", false},
		{"/../acme", 1, "acme", false},
	} {
		if first, agree := Segments(c.escaped, c.n); first != c.first || agree != c.agree {
			t.Errorf("%s, %d: %q, %v", c.escaped, c.n, first, agree)
		}
	}
}

// TestRouteAllocates: nothing for an ordinary request.
func TestRouteAllocates(t *testing.T) {
	h := http.Header{"Accept": {"*/*"}, "User-Agent": {"curl/8"}, "X-Original-Url": {"/v1/users/42"}}
	var r weir.Route
	if n := testing.AllocsPerRun(100, func() { r = Route("GET", "example.com", "/v1/users/42", h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, r.Odd = Segments("/v1/users/42", 3) }); n != 0 {
		t.Errorf("%v allocations for a segment", n)
	}
}

// FuzzRoute: a straight path has one reading, and no rewriting changes it. Whatever came, the bounds hold.
func FuzzRoute(f *testing.F) {
	for _, p := range []string{
		"/", "/a/b;c", "/%2e%2e/x", "//a\\b", "/%c0%af", "/%25252f", "/a. /b", "/a#b", "", "x://y",
	} {
		f.Add(p, "")
	}
	f.Add("/a", "/b")
	f.Fuzz(func(t *testing.T, escaped, header string) {
		r := Route("GET", "example.com", escaped, nil)
		if r.Odd == Straight(escaped) {
			t.Errorf("%q: odd is %v", escaped, r.Odd)
		}
		if !strings.HasPrefix(r.Path, "/") || len(r.Also) > MaxReadings || slices.Contains(r.Also, r.Path) {
			t.Errorf("%q: %+v", escaped, r)
		}
		for _, p := range r.Also {
			if p != weir.Any && p[0] != '/' || p == weir.Any && len(r.Also) > 1 {
				t.Errorf("%q: %+v", escaped, r)
			}
		}
		if !r.Odd && r.Path != Path(decode(escaped, "")) {
			t.Errorf("%q: the path is %q", escaped, r.Path)
		}
		if !r.Odd && len(escaped) <= maxOddPath {
			if others := readings(r.Path, []string{escaped}); others != nil {
				t.Errorf("%q is straight, and may be %q", escaped, others)
			}
		}
		if first, agree := Segments(escaped, 1); agree && !r.Odd && first != nth(r.Path, 1) {
			t.Errorf("%q: the first segment is %q", escaped, first)
		}
		with := Route("GET", "example.com", escaped, http.Header{"X-Original-Url": {header}, "X-Http-Method": {header}})
		if with.Path != r.Path || r.Odd && !with.Odd ||
			len(with.Also) > MaxReadings || len(with.AlsoMethods) > MaxReadings {
			t.Errorf("%q with %q: %+v", escaped, header, with)
		}
	})
}

func BenchmarkRoute(b *testing.B) {
	h := http.Header{"Accept": {"*/*"}, "User-Agent": {"curl/8"}, "Accept-Encoding": {"gzip"}, "X-Request-Id": {"1"},
		"Cookie": {"a=b"}}
	for name, escaped := range map[string]string{
		"straight": "/v1/users/42/orders", "escapes": "/v1/k%C3%A4se%20x/orders", "java": "/shop/cart;jsessionid=1A2B",
		"dodge": "/public/..;/login", "many": "/a;b/c%2fd//e/./f%3bg%5ch",
		"longest": "/" + strings.Repeat("a;b/%2e/", 127),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Route("GET", "example.com", escaped, h)
			}
		})
	}
}

// Headers that override the method for some servers only are those with other signs in their names.
func TestOverridesByAnotherName(t *testing.T) {
	for name, want := range map[string][2]bool{
		"X-Http-Method-Override": {true, false}, "x-http-method": {true, false}, "X-METHOD-Override": {true, false},
		"X_Http_Method_Override": {true, true}, "X-Http_Method": {true, true}, "X-Other": {}, "Method": {}, "": {},
	} {
		if got := [2]bool{OverridesMethod(name), OverridesByAnotherName(name)}; got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}
