package authgate

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"weir/identify"
)

// headersOf makes headers of name, value, name, value.
func headersOf(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// but returns pairs with one of them changed, or left out when the value is empty.
func but(pairs []string, name, value string) (all []string) {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.EqualFold(pairs[i], name) {
			all = append(all, pairs[i], pairs[i+1])
		}
	}
	if value != "" {
		all = append(all, name, value)
	}
	return all
}

var (
	loopback = netip.MustParseAddr("127.0.0.1")
	trusted  = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
)

// understandBy reads a question as a gate for this dialect would.
func understandBy(d Dialect, h http.Header) (Dialect, original, error) {
	s := setup{opts: Options{For: d}, proxies: identify.NewProxies(trusted, identify.XForwardedFor)}
	var o original
	found, err := s.dialect(h)
	if err == nil {
		err = o.read(found, loopback, &s.proxies, h)
	}
	return found, o, err
}

func TestMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		dialect Dialect
		headers []string
		want    error
	}{
		"nothing": {Auto, nil, errNothing},
		"nothing of use": {Auto, []string{"X-Forwarded-For", "192.0.2.1", "X-Real-Ip", "192.0.2.1"},
			errNothing},
		"both kinds":       {Auto, append(byNginx(), byTraefik()...), errBothKinds},
		"a forged URI":     {Auto, byNginx("X-Forwarded-Uri", "/free"), errBothKinds},
		"a forged method":  {Auto, byTraefik("X-Original-Method", "GET"), errBothKinds},
		"an empty forgery": {Auto, byTraefik("X-Original-Uri", ""), errBothKinds},
		"not nginx":        {Nginx, byTraefik(), errNoMethod},
		"not Traefik":      {Traefik, byNginx(), errNoMethod},
		"no URI":           {Auto, but(byNginx(), "X-Original-Uri", ""), errNoURI},
		"two URIs":         {Auto, byNginx("X-Original-Uri", "/free"), errNoURI},
		"no method":        {Auto, but(byTraefik(), "X-Forwarded-Method", ""), errNoMethod},
		"two methods":      {Auto, byTraefik("X-Forwarded-Method", "GET"), errNoMethod},
		"a strange method": {Auto, but(byTraefik(), "X-Forwarded-Method", "GET /"), errMethod},
		"a long method": {Auto, but(byTraefik(), "X-Forwarded-Method", strings.Repeat("A", maxMethod+1)),
			errMethod},
		"two hosts":          {Auto, byTraefik("X-Forwarded-Host", "free.example"), errHost},
		"a URL":              {Auto, but(byTraefik(), "X-Forwarded-Uri", "http://example.com/"), errURI},
		"no path":            {Auto, but(byTraefik(), "X-Forwarded-Uri", "*"), errURI},
		"a tunnel":           {Auto, but(byTraefik(), "X-Forwarded-Uri", "example.com:443"), errURI},
		"wrong escapes":      {Auto, but(byNginx(), "X-Original-Uri", "/%zz"), errEscapes},
		"half an escape":     {Auto, but(byNginx(), "X-Original-Uri", "/%4"), errEscapes},
		"no source of nginx": {Auto, but(but(byNginx(), "X-Real-Ip", ""), "X-Forwarded-For", ""), errNoSource},
		"no source of Traefik": {Auto, but(byTraefik("X-Real-Ip", "192.0.2.1"), "X-Forwarded-For", ""),
			errNoSource},
		"X-Real-IP is not an address": {Auto, but(byNginx(), "X-Real-Ip", "unix:"), errRealIP},
		"two X-Real-IP":               {Auto, byNginx("X-Real-Ip", "198.51.100.9"), errRealIP},
		"X-Forwarded-For is other":    {Auto, but(byNginx(), "X-Forwarded-For", "198.51.100.9"), errSources},
		"X-Real-IP is other":          {Auto, but(byNginx(), "X-Real-Ip", "198.51.100.9"), errSources},
	} {
		if _, o, err := understandBy(c.dialect, headersOf(c.headers...)); err != c.want {
			t.Errorf("%s: %v, want %v; %+v", name, err, c.want, o)
		}
	}
}

func TestSource(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"nginx":                 {byNginx(), "192.0.2.1"},
		"X-Real-IP alone":       {but(byNginx(), "X-Forwarded-For", ""), "192.0.2.1"},
		"X-Forwarded-For alone": {but(byNginx(), "X-Real-Ip", ""), "192.0.2.1"},
		"a client that forges":  {but(byNginx(), "X-Forwarded-For", "198.51.100.9, 192.0.2.1"), "192.0.2.1"},
		"behind another proxy": {but(but(byNginx(), "X-Real-Ip", "10.0.0.7"), "X-Forwarded-For",
			"198.51.100.9, 192.0.2.1, 10.0.0.7"), "192.0.2.1"},
		"forged X-Real-IP of a proxy": {but(byNginx(), "X-Real-Ip", "127.0.0.1"), "192.0.2.1"},
		"IPv6": {but(but(byNginx(), "X-Real-Ip", "2001:db8::1"), "X-Forwarded-For",
			"2001:db8::1"), "2001:db8::1"},
		"mapped": {but(but(byNginx(), "X-Real-Ip", "::ffff:192.0.2.1"), "X-Forwarded-For",
			"192.0.2.1"), "192.0.2.1"},
		"Traefik":                      {byTraefik("X-Real-Ip", "198.51.100.9"), "192.0.2.1"},
		"Traefik behind another proxy": {but(byTraefik(), "X-Forwarded-For", "192.0.2.1, 10.0.0.7"), "192.0.2.1"},
		"several lines": {append(but(byTraefik(), "X-Forwarded-For", "198.51.100.9"), "X-Forwarded-For",
			"192.0.2.1"), "192.0.2.1"},
		"this machine": {but(byTraefik(), "X-Forwarded-For", "127.0.0.1"), "127.0.0.1"},
	} {
		if _, o, err := understandBy(Auto, headersOf(c.headers...)); err != nil || o.source.String() != c.want {
			t.Errorf("%s: %s, %v", name, o.source, err)
		}
	}
}

func TestURI(t *testing.T) {
	for uri, want := range map[string]original{
		"/":                   {raw: "/", path: "/"},
		"/a?b?c":              {raw: "/a", path: "/a", query: "b?c"},
		"/a%2Fb%20c?d=%zz":    {raw: "/a%2Fb%20c", path: "/a/b c", query: "d=%zz"},
		"//evil.example/a":    {raw: "//evil.example/a", path: "//evil.example/a"},
		"/admin#/free?x":      {raw: "/admin#/free", path: "/admin#/free"},
		"/a?x#y":              {raw: "/a", path: "/a", query: "x"},
		"/a+b;c=d":            {raw: "/a+b;c=d", path: "/a+b;c=d"},
		"/\xff\xfe":           {raw: "/\xff\xfe", path: "/\xff\xfe"},
		"/../../etc":          {raw: "/../../etc", path: "/../../etc"},
		"/" + maxPath:         {raw: "/" + maxPath, path: "/" + maxPath},
		"/x?" + maxPath + "=": {raw: "/x", path: "/x", query: maxPath + "="},
	} {
		var o original
		if err := o.readURI(uri); err != nil || o != want {
			t.Errorf("%.40s: %+v, %v", uri, o, err)
		}
	}
}

var maxPath = strings.Repeat("a/", 20000)

// FuzzOriginal feeds headers as any proxy and any client might write them. What is understood is sane, and whoever asks
// as nginx cannot change what it says by headers of the other kind.
func FuzzOriginal(f *testing.F) {
	f.Add("POST", "/v1/users?key=k1", "example.com", "192.0.2.1", "192.0.2.1", "", "")
	f.Add("GET", "/%zz", "", "198.51.100.9, 192.0.2.1", "unix:", "/free", "GET")
	f.Add("", "*", "[::1]:80", "unknown", "::ffff:1.2.3.4", "#", "A B")
	f.Add("GET", "/a#b?c", ":", "127.0.0.1, 10.0.0.1,", "10.0.0.1", "//", "")
	f.Fuzz(func(t *testing.T, method, uri, host, list, real, otherURI, otherMethod string) {
		h := http.Header{"X-Original-Uri": {uri}, "X-Original-Method": {method}, "X-Original-Host": {host},
			"X-Forwarded-For": {list}, "X-Real-Ip": {real}}
		_, o, err := understandBy(Nginx, h)
		if err == nil {
			if o.method == "" || len(o.method) > maxMethod || !strings.HasPrefix(o.raw, "/") ||
				!strings.HasPrefix(o.path, "/") ||
				strings.Contains(o.raw, "?") || strings.Contains(o.query, "#") || !o.source.IsValid() ||
				o.source != identify.Plain(o.source) {
				t.Errorf("%q gave %+v", h, o)
			}
			if _, again, err := understandBy(Auto, h); err != nil || again != o {
				t.Errorf("%+v by the headers, %+v by name, %v", again, o, err)
			}
		}
		h["X-Forwarded-Uri"], h["X-Forwarded-Method"] = []string{otherURI}, []string{otherMethod}
		if _, again, err2 := understandBy(Nginx, h); again != o || err2 != err {
			t.Errorf("%+v, %v; with the headers of another proxy %+v, %v", o, err, again, err2)
		}
		if _, _, err := understandBy(Auto, h); err != errBothKinds {
			t.Errorf("both kinds: %v", err)
		}
		if _, o, err := understandBy(Traefik, h); err == nil &&
			(!strings.HasPrefix(o.path, "/") || o.method != otherMethod || !o.source.IsValid()) {
			t.Errorf("%q gave %+v", h, o)
		}
	})
}
