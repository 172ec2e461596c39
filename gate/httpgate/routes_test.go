package httpgate

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"weir"
	"weir/admission"
	"weir/identify"
	behind "weir/upstream"
)

// towards is a route to an upstream of its own.
func towards(host, path, name string) Route {
	r := Route{Name: name, Path: path, Upstream: new(to("http://127.0.0.1:1/" + name))}
	if host != "" {
		r.Host = strings.Split(host, " ")
	}
	return r
}

// routerOf is the router of a gate with these routes.
func routerOf(t testing.TB, o Options) *router {
	t.Helper()
	o.Listen = ":0"
	s, err := newSetup(o, nil, nil, nil, Env{}.withDefaults(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(nil) })
	return s.router
}

// chosen is the name of the route of a request.
func (r *router) chosen(host, escaped string) string {
	route := identify.Route("", host, escaped, nil)
	to := r.choose(route.Host, route.Path, route.Also)
	if to.route.end == unclear {
		return "unclear"
	}
	return to.route.name
}

func TestRouteMatching(t *testing.T) {
	r := routerOf(t, Options{Routes: []Route{
		towards("api.example.org", "/v1/", "v1"),
		towards("api.example.org", "/v1/admin", "admin"),
		towards("api.example.org", "/V2", "v2"),
		towards("*.example.org", "", "below"),
		towards("*.eu.example.org", "", "eu"),
		towards("*.eu.example.org", "/k%C3%A4se", "cheese"),
		towards("shop.example.net www.example.net [::1]", "", "shop"),
		towards("", "/health", "health"),
	}})
	for in, want := range map[string]string{
		"api.example.org /v1":                 "v1",
		"api.example.org /v1/":                "v1",
		"api.example.org /v1/users":           "v1",
		"api.example.org /v10":                "below", // a prefix ends at a slash
		"api.example.org /":                   "below", // what the exact name has no path for, the wildcard has
		"api.example.org /v1/admin":           "admin",
		"api.example.org /v1/admin/users":     "admin",
		"api.example.org /v1/admins":          "v1",
		"API.Example.ORG. /v1":                "v1",
		"api.example.org:8443 /v1":            "v1",
		"api.example.org /V2/x":               "v2",
		"www.example.org /":                   "below",
		"a.b.c.example.org /v1":               "below",
		"example.org /":                       "none", // it is not below itself
		"badexample.org /":                    "none",
		"x.eu.example.org /":                  "eu",
		"x.eu.example.org /k%c3%a4se/gouda":   "cheese",
		"eu.example.org /":                    "below",
		"shop.example.net /a/b":               "shop",
		"WWW.example.net /health":             "shop", // the host comes first
		"[::1]:8080 /":                        "shop",
		"x.shop.example.net /":                "none",
		"unknown /health":                     "health",
		"unknown /health/db":                  "health",
		"unknown /":                           "none",
		" /health":                            "health",
		"192.0.2.1 /":                         "none",
		"api.example.org /v1;x":               "unclear", // Tomcat reads /v1
		"api.example.org /v1/users;x":         "v1",
		"api.example.org /v1/..":              "unclear",
		"api.example.org /x/../v1":            "unclear",
		"api.example.org //v1":                "unclear",
		"api.example.org /v1//users":          "v1",
		"api.example.org /v1/%2e%2e/admin":    "unclear",
		"api.example.org /%2576%31":           "unclear",
		"api.example.org /V1/users":           "unclear", // IIS reads /v1
		"api.example.org /v2":                 "unclear",
		"api.example.org /v1/ADMIN":           "unclear",
		`api.example.org /v1\admin`:           "unclear",
		"api.example.org /v1/a/b/../c":        "v1",
		"api.example.org /v1/a/../../v2":      "unclear",
		"www.example.org /a/../..//;x/%2e%2e": "below", // all paths of the host go there
		"api.example.org.. /v1":               "unclear",
		"api%2eexample.org /v1":               "unclear",
		".example.org /":                      "unclear",
	} {
		host, path, _ := strings.Cut(in, " ")
		if got := r.chosen(host, path); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestRouteRest: what no route matches goes to the upstream of the gate, where there is one.
func TestRouteRest(t *testing.T) {
	r := routerOf(t, Options{Upstream: to("http://127.0.0.1:1"), Routes: []Route{{Path: "/api", Throttles: []string{"x"}}}})
	for in, want := range map[string]string{"/": "default", "/apis": "default", "/api/x": "/api", "/api;x": "unclear"} {
		if got := r.chosen("a", in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestRoutesAlike: where it makes no difference for limits, no path is refused.
func TestRoutesAlike(t *testing.T) {
	r := routerOf(t, Options{Upstream: to("http://127.0.0.1:1"), Routes: []Route{
		{Path: "/api", Headers: Headers{Response: HeaderRules{Set: map[string]string{"X-A": "b"}}}},
		{Path: "/big", Body: 1 << 30}}})
	for in, want := range map[string]string{"/api;x": "default", "/big;x": "unclear"} {
		if got := r.chosen("a", in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// servers are models of how servers read a path.
var servers = map[string]func(escaped string) string{
	"net/http": func(p string) string {
		if u, err := url.PathUnescape(p); err == nil {
			p = u
		}
		return path.Clean("/" + p)
	},
	"decoded and nothing else": func(p string) string {
		if u, err := url.PathUnescape(p); err == nil {
			p = u
		}
		return p
	},
	"tomcat": func(p string) string {
		var kept []string
		for _, s := range strings.Split(p, "/") {
			s, _, _ = strings.Cut(s, ";")
			if u, err := url.PathUnescape(s); err == nil {
				s = u
			}
			kept = append(kept, s)
		}
		return path.Clean("/" + strings.Join(kept, "/"))
	},
	"iis": func(p string) string {
		if u, err := url.PathUnescape(p); err == nil {
			p = u
		}
		return strings.ToLower(path.Clean("/" + strings.ReplaceAll(p, `\`, "/")))
	},
	"two in a row": func(p string) string {
		for range 2 {
			if u, err := url.PathUnescape(p); err == nil {
				p = u
			}
		}
		return path.Clean("/" + p)
	},
	"a string that ends": func(p string) string {
		if u, err := url.PathUnescape(p); err == nil {
			p = u
		}
		p, _, _ = strings.Cut(p, "\x00")
		return path.Clean("/" + p)
	},
}

// FuzzRoutes: whatever a server behind the gate reads in a path, the request took the route of what it reads, or none.
func FuzzRoutes(f *testing.F) {
	r := routerOf(f, Options{Routes: []Route{
		towards("", "/", "rest"), towards("", "/login", "login"), towards("", "/static", "static"),
		towards("", "/static/private", "private"), towards("one.example", "", "one"), towards("*.example", "/login", "wild")}})
	for _, p := range []string{"/login", "/LOGIN", "/login;x=1", "/static/../login", "/static/%2e%2e/login", "//login",
		"/static/..;/login", `/static\..\login`, "/%6cogin", "/%256cogin", "/static/private", "/static//private/x",
		"/static/%2fprivate", "/login%00.png", "/static/../login/..", "/" + strings.Repeat("x/..;/", 300) + "login"} {
		for _, host := range []string{"", "one.example", "a.b.example", "other"} {
			f.Add(host, p)
		}
	}
	within := func(read, prefix string) bool { return read == prefix || strings.HasPrefix(read, prefix+"/") }
	f.Fuzz(func(t *testing.T, host, p string) {
		if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "?") {
			return
		}
		got := r.chosen(host, p)
		if got == "unclear" {
			return
		}
		h := identify.Host(host)
		for name, reads := range servers {
			read := reads(p)
			want := "rest"
			switch {
			case h == "one.example":
				want = "one"
				if within(read, "/login") {
					continue // the wildcard does not reach a name that is exact
				}
			case strings.HasSuffix(h, ".example") && within(read, "/login"):
				want = "wild"
			case within(read, "/login"):
				want = "login"
			case within(read, "/static/private"):
				want = "private"
			case within(read, "/static"):
				want = "static"
			}
			if got != want {
				t.Errorf("%q %q: the gate took %s, and %s reads %q: %s", host, p, got, name, read, want)
			}
		}
	})
}

func TestRoutesAllocateNothing(t *testing.T) {
	r := routerOf(t, Options{Routes: []Route{towards("api.example.org", "/v1", "v1"), towards("*.example.org", "", "below"),
		towards("", "/health", "health")}})
	for _, host := range []string{"api.example.org", "a.b.c.example.org", "other"} {
		if n := testing.AllocsPerRun(100, func() { r.choose(host, "/v1/users/17/items", nil) }); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

func BenchmarkRoutes(b *testing.B) {
	var all []Route
	for i := range 100 {
		all = append(all, towards(fmt.Sprintf("s%d.example.org", i), fmt.Sprintf("/v%d", i), fmt.Sprintf("r%d", i)))
	}
	r := routerOf(b, Options{Routes: append(all, towards("*.example.org", "", "below"))})
	b.ReportAllocs()
	for b.Loop() {
		r.choose("s7.example.org", "/v7/users/17/items", nil)
	}
}

// A long name or path costs no more than its end or beginning.
func TestLongNames(t *testing.T) {
	r := routerOf(t, Options{Routes: []Route{towards("*.example.org", "", "below"), towards("", "/a", "a")}})
	for in, want := range map[[2]string]string{
		{strings.Repeat("a.", 10_000) + "example.org", "/"}: "below",
		{"b", "/a" + strings.Repeat("/x", 10_000)}:          "a",
	} {
		if got := r.chosen(in[0], in[1]); got != want {
			t.Errorf("%.20q: %s, want %s", in[0], got, want)
		}
	}
}

func TestValidateRoutes(t *testing.T) {
	up := to("http://127.0.0.1:3000")
	base := Options{Listen: ":80"}
	for name, c := range map[string]struct {
		change func(o *Options)
		want   string // the paths of mistakes
	}{
		"good": {func(o *Options) {
			o.Routes = []Route{towards("a", "/x", "one"), towards("a *.a", "/x/y", "two"), towards("b", "", ""),
				{Path: "/h", Answer: &Answer{}}, {Host: Hosts{"c"}, Redirect: &Redirect{To: "https"}},
				{Host: Hosts{"d"}, Redirect: &Redirect{To: "https://d.example", Status: 301}}}
		}, ""},
		"leads nowhere":      {func(o *Options) { o.Routes = []Route{{Path: "/x"}} }, "routes[0]"},
		"the gate's":         {func(o *Options) { o.Upstream, o.Routes = up, []Route{{Path: "/x"}} }, ""},
		"the same":           {func(o *Options) { o.Routes = []Route{towards("a", "/x", "1"), towards("b A.", "/x/", "2")} }, "routes[1]"},
		"the same, any host": {func(o *Options) { o.Routes = []Route{towards("", "", "1"), towards("", "/", "2")} }, "routes[1]"},
		"case matters":       {func(o *Options) { o.Routes = []Route{towards("", "/s", "1"), towards("", "/S", "2")} }, ""},
		"names": {func(o *Options) {
			o.Routes = []Route{towards("a", "", "x"), towards("b", "", "x"), towards("c", "", "none"), towards("d", "", "a b")}
		}, "routes[1].name routes[2].name routes[3].name"},
		"hosts": {func(o *Options) {
			o.Routes = []Route{towards("* a:80 a..b a/b *.*.b", "", "x")}
		}, "routes[0].host[0] routes[0].host[1] routes[0].host[2] routes[0].host[3] routes[0].host[4]"},
		"paths": {func(o *Options) {
			o.Routes = []Route{towards("", "x", "1"), towards("", "/x/*", "2"), towards("", "/x/../y", "3"), towards("", "/x?y", "4"),
				towards("", "/"+strings.Repeat("a", maxRoutePath-1), "5"), towards("", "/"+strings.Repeat("b", maxRoutePath), "6")}
		}, "routes[0].path routes[1].path routes[2].path routes[3].path routes[5].path"},
		"ends": {func(o *Options) {
			o.Routes = []Route{{Path: "/1", Answer: &Answer{}, Redirect: &Redirect{To: "https://x"}},
				{Path: "/2", Answer: &Answer{}, Upstream: &up}, {Path: "/3", Redirect: &Redirect{To: "https://x"}, Upstream: &up},
				{Path: "/4", Answer: &Answer{Status: 100}}, {Path: "/5", Answer: &Answer{Status: 204, Body: "x"}},
				{Path: "/6", Answer: &Answer{Body: strings.Repeat("x", maxAnswer+1)}},
				{Path: "/7", Answer: &Answer{Type: "a\nb"}}, {Path: "/8", Answer: &Answer{Body: strings.Repeat("x", maxAnswer)}}}
		}, "routes[0].redirect routes[1].upstream routes[2].upstream routes[3].answer.status routes[4].answer.body " +
			"routes[5].answer.body routes[6].answer.type"},
		"redirects": {func(o *Options) {
			o.Routes = []Route{{Path: "/1", Redirect: &Redirect{To: "https"}}, {Path: "/2", Redirect: &Redirect{}},
				{Path: "/3", Redirect: &Redirect{To: "ftp://x"}}, {Path: "/4", Redirect: &Redirect{To: "https://x/y"}},
				{Path: "/5", Redirect: &Redirect{To: "https://x", Status: 200}},
				{Host: Hosts{"x"}, Redirect: &Redirect{To: "http://X"}}, {Host: Hosts{"y"}, Redirect: &Redirect{To: "https://y"}}}
		}, "routes[0].redirect.to routes[1].redirect.to routes[2].redirect.to routes[3].redirect.to " +
			"routes[4].redirect.status routes[5].redirect.to"},
		"capacity": {func(o *Options) {
			o.Capacity = &admission.Options{Concurrent: 1}
			o.Routes = []Route{{Path: "/1", Answer: &Answer{}, Capacity: &admission.Options{Concurrent: 1}}, towards("", "", "x")}
		}, "capacity routes[0].capacity"},
		"account": {func(o *Options) {
			o.Routes = []Route{{Path: "/1", Upstream: &up, Account: []string{"beaver"}},
				{Path: "/2", Upstream: &up, Account: []string{"cert", "jwt:sub"}}}
		}, "routes[0].account[0] routes[1].account routes[1].account"},
		"prefixes": {func(o *Options) {
			o.Routes = []Route{{Upstream: &up, StripPrefix: true}, {Path: "/a", Answer: &Answer{}, StripPrefix: true},
				{Path: "/b", Redirect: &Redirect{To: "https://x"}, StripPrefix: true},
				{Path: "/c", Upstream: &up, StripPrefix: true},
				{Path: "/d", Host: Hosts{"x"}, Redirect: &Redirect{To: "https"}, Upstream: &up, StripPrefix: true}}
		}, "routes[0].strip_prefix routes[1].strip_prefix routes[2].strip_prefix"},
		"one message": {func(o *Options) {
			o.Routes = []Route{towards("", "x", ""), towards("", "/x", ""), towards("", "x", ""), towards("a..b", "", ""),
				towards("a..b", "", "")}
		}, "routes[0].path routes[2].path routes[3].host[0] routes[4].host[0]"},
		"the rest": {func(o *Options) {
			o.Routes = []Route{{Path: "/1", Upstream: &behind.Options{}, Body: -1, Timeouts: RouteTimeouts{-1, -1},
				Headers: Headers{Request: HeaderRules{Remove: []string{"Host"}}}}}
		}, "routes[0].upstream.servers routes[0].headers.request.remove[0] routes[0].body routes[0].timeouts.connect " +
			"routes[0].timeouts.response"},
		"many": {func(o *Options) {
			for i := range MaxRoutes {
				o.Routes = append(o.Routes, towards("", fmt.Sprintf("/%d", i), ""))
			}
		}, ""},
		"one too many": {func(o *Options) {
			for i := range MaxRoutes + 1 {
				o.Routes = append(o.Routes, towards("", fmt.Sprintf("/%d", i), ""))
			}
		}, "routes"},
		"many hosts": {func(o *Options) { o.Routes = []Route{towards(manyHosts(MaxRouteHosts), "", "x")} }, ""},
		"a host too many": {func(o *Options) { o.Routes = []Route{towards(manyHosts(MaxRouteHosts+1), "", "x")} },
			"routes[0].host"},
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			c.change(&o)
			err := o.Validate()
			var paths []string
			for _, fe := range weir.FieldErrors(err) {
				paths = append(paths, fe.Path)
				if fe.Msg == "" || fe.Hint == "" {
					t.Errorf("%v has no hint", fe)
				}
			}
			if got := strings.Join(paths, " "); got != c.want {
				t.Errorf("\n got %s\nwant %s\n%v", got, c.want, err)
			}
			if err == nil {
				if err := o.WithDefaults().Validate(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func manyHosts(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("h%d", i))
	}
	return strings.Join(all, " ")
}

// TestRouteOptions: a route takes from the gate what it does not say itself.
func TestRouteOptions(t *testing.T) {
	capacity := &admission.Options{Concurrent: 8}
	gate := Options{Listen: ":80", Upstream: to("http://a"), Capacity: capacity, Throttles: []string{"edge"},
		Account: []string{"bearer"}, Headers: Headers{Response: HeaderRules{
			Set: map[string]string{"Strict-Transport-Security": "max-age=1", "X-A": "gate", "x-b": "gate"}, Remove: []string{"Server"}}}}
	same := gate.Of(Route{Path: "/x"})
	if same.Upstream.String() != "http://a" || same.Capacity != capacity || same.Throttles[0] != "edge" || gate.OwnChain(Route{}) {
		t.Errorf("%+v", same)
	}
	r := Route{Upstream: new(to("http://b")), Throttles: []string{}, Account: []string{},
		Headers: Headers{Response: HeaderRules{Set: map[string]string{"X-B": "route"}, Remove: []string{"x-a"}}}}
	own := gate.Of(r)
	if own.Upstream.String() != "http://b" || own.Capacity != nil || len(own.Throttles)+len(own.Account) != 0 ||
		!gate.OwnChain(r) {
		t.Errorf("%+v", own)
	}
	h := http.Header{"Server": {"x"}, "X-A": {"up"}, "X-B": {"up"}, "X-C": {"up"}}
	rules := own.Headers.Response.ready()
	rules.apply(h)
	if got := fmt.Sprint(h); got != "map[Strict-Transport-Security:[max-age=1] X-B:[route] X-C:[up]]" {
		t.Error(got)
	}
	if !gate.OwnChain(Route{Upstream: new(to("http://b"))}) {
		t.Error("a capacity is that of an upstream")
	}
}
