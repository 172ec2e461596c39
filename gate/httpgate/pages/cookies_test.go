package pages

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/http1"
)

func TestStrip(t *testing.T) {
	for given, want := range map[string]string{
		"":                                "",
		"a=1":                             "a=1",
		"weir-client=x":                   "",
		"a=1; weir-client=x; b=2":         "a=1; b=2",
		"weir-stamp=x; weir-ticket=y;a=1": "a=1",
		"weir-stamp-AbC_-123=x; b=2":      "b=2",
		"weir-ticket-0123456789ab=x; c=3; weir-ticketing=z":                                              "c=3; weir-ticketing=z",
		"weir-stamps=mine; weird=yes; my-weir-ticket=":                                                   "weir-stamps=mine; weird=yes; my-weir-ticket=",
		"__Host-weir-client=x; __Host-weir-stamp-AbC-cross=y; __Host-a=1":                                "__Host-a=1",
		"a=weir-stamp; weir-client":                                                                      "a=weir-stamp",
		"weir-client-cross=x; weir-ticket-cross=y; weir-stamp-cross=z; weir-stamp-AbC-cross=; a-cross=1": "a-cross=1",
	} {
		var h http1.Fields
		h.AddHeader(http.Header{"Stamp": {"x"}, "Stamp-Ticket": {"y"}, "Stamp-Collection": {"z"}})
		if given != "" {
			h.Set("Cookie", given)
		}
		Strip(&h)
		if got := h.Get("Cookie"); got != want || (want == "") == h.Has("Cookie") {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
		if h.Has("Stamp") || h.Has("Stamp-Ticket") || h.Get("Stamp-Collection") != "z" {
			t.Errorf("%v", h)
		}
	}
	var two http1.Fields
	two.AddHeader(http.Header{"Cookie": {"a=1; weir-client=x", "b=2"}})
	if Strip(&two); !slices.Equal(two.Values("Cookie"), []string{"a=1; b=2"}) {
		t.Errorf("%q", two.Values("Cookie"))
	}
}

// TestCookiesThatCross: in frames and for forms of other sites, a cookie has a twin that browsers keep and send there.
// Either is taken.
func TestCookiesThatCross(t *testing.T) {
	for _, c := range []struct {
		method, mode, dest, site string
		want                     bool
	}{
		{"GET", "navigate", "document", "none", false},
		{"GET", "navigate", "document", "cross-site", false}, // a link
		{"POST", "navigate", "document", "same-origin", false},
		{"POST", "navigate", "document", "same-site", false},
		{"POST", "navigate", "document", "cross-site", true},
		{"POST", "no-cors", "empty", "cross-site", false},
		{"GET", "navigate", "iframe", "cross-site", true},
		{"GET", "navigate", "iframe", "same-origin", true}, // a link in a frame of another site
		{"GET", "navigate", "embed", "cross-site", true},
		{"GET", "no-cors", "image", "cross-site", false},
		{"GET", "", "", "", false},
	} {
		r, w := httptest.NewRequest(c.method, "/", nil), httptest.NewRecorder()
		for name, value := range map[string]string{"Sec-Fetch-Mode": c.mode, "Sec-Fetch-Dest": c.dest,
			"Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		Give(w, r, false, "weir-ticket", "abc", time.Minute)
		want := []string{"weir-ticket=abc; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"}
		if c.want {
			want = append(want,
				"weir-ticket-cross=abc; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=None; Partitioned")
		}
		if got := w.Header()["Set-Cookie"]; !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

// TestBrought: cookies that a host beside this one has planted are not taken for the gate's own over TLS. Without it,
// the last ones count, as they are for the shortest path, and no more than a few of them.
func TestBrought(t *testing.T) {
	const name = "weir-ticket"
	for cookies, want := range map[string][2][]string{
		"":                                  {},
		name + "=a":                         {{"a"}, nil},
		name + "-cross=b":                   {{"b"}, nil},
		name + "-cross=b; " + name + "=a":   {{"a", "b"}, nil},
		name + "=planted; " + name + "=own": {{"own", "planted"}, nil},
		name + "=1; __Host-" + name + "=2; __Host-" + name + "-cross=3": {{"1"}, {"2", "3"}},
		strings.Repeat(name+"=x; ", 99) + name + "=own":                 {{"own", "x", "x", "x"}, nil},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Cookie", cookies)
		for i, secure := range []bool{false, true} {
			if got := Brought(r, secure, name); !slices.Equal(got, want[i]) {
				t.Errorf("TLS %t, %.60q: %q, want %q", secure, cookies, got, want[i])
			}
		}
	}
}

// TestFromElsewhere: what browsers say when a page of another origin makes them send a request.
func TestFromElsewhere(t *testing.T) {
	for _, c := range []struct {
		origin, site string
		want         bool
	}{
		{"", "", false}, {"", "none", false}, {"", "same-origin", false}, {"http://example.com", "", false},
		{"https://EXAMPLE.com", "same-origin", false}, {"", "cross-site", true}, {"", "same-site", true},
		{"http://example.com", "cross-site", true}, {"http://other.example", "", true}, {"null", "", true},
		{"http://example.com:81", "", true}, {"http://example.com.other.example", "", true},
	} {
		r := httptest.NewRequest("GET", "http://example.com/", nil)
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if got := FromElsewhere(r, r.Header); got != c.want {
			t.Errorf("Origin %q, Sec-Fetch-Site %q: %t", c.origin, c.site, got)
		}
	}
}

func post(kind, body string) *http.Request {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	return r
}

const formKind = "application/x-www-form-urlencoded"

func TestFormFields(t *testing.T) {
	for body, want := range map[string][]FormField{
		"":                    nil,
		"a=1&b=2":             {{"a", "1"}, {"b", "2"}},
		"a=1&&a=2&":           {{"a", "1"}, {"a", "2"}},
		"a":                   {{"a", ""}},
		"a+b=c%2Bd%26":        {{"a b", "c+d&"}},
		"t=x%0D%0Ay":          {{"t", "x\r\ny"}},
		"%F0%9F%8E%88=%22%3C": {{"🎈", `"<`}},
		"n%E4me=%83A%80":      {{"n\xe4me", "\x83A\x80"}},
		"_charset_=shift_jis": {{"_charset_", "shift_jis"}},
	} {
		if got, ok := FormFields(post(formKind+"; charset=UTF-8", body), []byte(body)); !ok ||
			!slices.Equal(got, want) {
			t.Errorf("%q: %q %t, want %q", body, got, ok, want)
		}
	}
	for name, r := range map[string]*http.Request{
		"a broken escape": post(formKind, "a=%z"), "a zero": post(formKind, "a=%00"),
		"no name":         post(formKind, "a=1&=2"),
		"half a line end": post(formKind, "a=%0d"), "the other half": post(formKind, "a=%0a"),
		"another kind": post("text/plain", "a=1"), "no kind": post("", "a=1"),
	} {
		b := make([]byte, 64)
		n, _ := r.Body.Read(b)
		if _, ok := FormFields(r, b[:n]); ok {
			t.Errorf("%s is a form that can be sent again", name)
		}
	}
	put := post(formKind, "a=1")
	put.Method = "PUT"
	if _, ok := FormFields(put, []byte("a=1")); ok {
		t.Error("a browser does not PUT")
	}
}

// FuzzFormFields: what is taken for a form is the same form when a browser has sent it again.
func FuzzFormFields(f *testing.F) {
	for _, seed := range []string{"", "a=1&b=2", "a=%0D%0A&a=+", "=&&=", "%F0%9F%8E%88=%22", "a=%zz", "a=\xff",
		"%F6=%83A", "_charset_=x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		fields, ok := FormFields(post(formKind, ""), []byte(body))
		if !ok {
			return
		}
		var again []string
		for _, f := range fields {
			again = append(again, url.QueryEscape(f.Name)+"="+url.QueryEscape(f.Value))
		}
		back, ok := FormFields(post(formKind, ""), []byte(strings.Join(again, "&")))
		if !ok || !slices.Equal(back, fields) {
			t.Errorf("%q became %q", fields, back)
		}
	})
}

// FuzzStrip: whatever cookies say, the upstream gets all of them but ours.
func FuzzStrip(f *testing.F) {
	for _, seed := range []string{"", "a=1; weir-client=x", "weir-stamp-abc=; ;;weir-ticket", "weir-\x00=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		var h http1.Fields
		h.Add("Cookie", line)
		Strip(&h)
		for _, kept := range h.Values("Cookie") {
			for c := range strings.SplitSeq(kept, ";") {
				if ours(strings.TrimSpace(c)) {
					t.Errorf("%q is left of %q", c, line)
				}
			}
		}
	})
}
