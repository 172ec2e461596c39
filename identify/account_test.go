package identify

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"weir"
)

// TestWhatProvesAnAccount: only tokens, certificates and addresses are more than what a client says.
func TestWhatProvesAnAccount(t *testing.T) {
	for _, c := range []struct {
		places   []string
		unproven string
		programs bool
	}{
		{nil, "", false},
		{[]string{"source"}, "", false},
		{[]string{"jwt:sub", "cert", "cert:san", "source"}, "", true},
		{[]string{"cert"}, "", true},
		{[]string{"jwt:sub", "header:x-api-key"}, "header:X-Api-Key", true},
		{[]string{"bearer"}, "bearer", true},
		{[]string{"query:key", "bearer"}, "query:key", true},
		{[]string{"source", "cookie:session"}, "cookie:session", false},
		{[]string{"path:2"}, "path:2", false},
	} {
		a, err := ParseAccounts(c.places)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Unproven(); got != c.unproven {
			t.Errorf("%q: %q is unproven", c.places, got)
		}
		if a.Programs() != c.programs {
			t.Errorf("%q: programs %t", c.places, !c.programs)
		}
	}
}

func TestAccount(t *testing.T) {
	long := strings.Repeat("x", MaxAccount)
	for _, c := range []struct {
		name   string
		specs  []string
		target string
		header []string
		want   string
		err    error
	}{
		{"nothing", nil, "/", nil, "", nil},
		{"header", []string{"header:x-api-key"}, "/", []string{"X-Api-Key", "  acme "}, "acme", nil},
		{"header empty, then set", []string{"header:X-Api-Key"}, "/", []string{"X-Api-Key", " ", "X-Api-Key", "acme"},
			"", ErrAccountTwice},
		{"first present counts", []string{"header:X-Api-Key", "query:key"}, "/?key=q", nil, "q", nil},
		{"places disagree", []string{"query:key", "header:X-Api-Key"}, "/?key=q", []string{"X-Api-Key", "h"}, "",
			ErrAccountsDiffer},
		{"places agree", []string{"query:key", "header:X-Api-Key"}, "/?key=q", []string{"X-Api-Key", "q"}, "q", nil},
		{"empty is none", []string{"query:key", "header:X-Api-Key"}, "/?key=", []string{"X-Api-Key", "h"}, "h", nil},
		{"bearer", []string{"bearer"}, "/", []string{"Authorization", "bEARER  tok "}, "tok", nil},
		{"not bearer", []string{"bearer"}, "/", []string{"Authorization", "Basic tok"}, "", nil},
		{"query escaped", []string{"query:a key"}, "/?x=1&a+key=%41b", nil, "Ab", nil},
		{"query with semicolon", []string{"query:key"}, "/?a=1;key=2", nil, "", ErrAccountWritten},
		{"cookie", []string{"cookie:session"}, "/", []string{"Cookie", `a=b; session="s1"`}, "s1", nil},
		{"path", []string{"path:2"}, "/v1/acme/x", nil, "acme", nil},
		{"path, read alike by all", []string{"path:2"}, "/v1/acme//x;y=1", nil, "acme", nil},
		{"path with a parameter", []string{"path:1"}, "/acme;x=1/y", nil, "", ErrAccountPath},
		{"path with dots", []string{"path:1"}, "/other/..;/acme", nil, "", ErrAccountPath},
		{"path with an escaped slash", []string{"path:2"}, "/v1/a%2Fb", nil, "", ErrAccountPath},
		{"path with a host", []string{"path:1"}, "//v1/acme", nil, "", ErrAccountPath},
		{"path, escaped as it need not be", []string{"path:1"}, "/%61cme/x", nil, "acme", nil},
		{"path, escaped slash and what net/url would escape", []string{"path:1"}, "/a%2Fb|c", nil, "", ErrAccountPath},
		{"path too short", []string{"path:3"}, "/v1/acme", nil, "", nil},
		{"path of root", []string{"path:1"}, "/", nil, "", nil},
		{"source", []string{"header:X-Api-Key", "source"}, "/", nil, "source:192.0.2.1", nil},
		{"longest", []string{"header:K"}, "/", []string{"K", long}, long, nil},
		{"too long", []string{"header:K"}, "/", []string{"K", long + "x"}, "", ErrAccountTooLong},
		{"control", []string{"query:k"}, "/?k=a%0ab", nil, "", ErrAccountBytes},
		{"C1 control", []string{"query:k"}, "/?k=a%C2%85b", nil, "", ErrAccountBytes},
		{"not UTF-8", []string{"query:k"}, "/?k=%ff", nil, "", ErrAccountBytes},
		{"UTF-8", []string{"query:k"}, "/?k=%C3%A4", nil, "ä", nil},
		{"reserved", []string{"header:K"}, "/", []string{"K", "source:192.0.2.1"}, "", ErrAccountReserved},
	} {
		a, err := ParseAccounts(c.specs)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "http://a/", nil)
		r.URL, _ = url.ParseRequestURI(c.target)
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Add(c.header[i], c.header[i+1])
		}
		id, err := a.Account(r, netip.MustParseAddr("::ffff:192.0.2.1"))
		if !errors.Is(err, c.err) || err == nil && id != c.want {
			t.Errorf("%s: %q, %v", c.name, id, err)
		}
	}
}

func TestParseAccounts(t *testing.T) {
	_, err := ParseAccounts([]string{"bearer", "haeder:X", "header:", "header:a b", "bearer:x", "path:0", "path:x",
		"query:", "cookie:a=b", "nonsense"})
	var got []string
	for _, fe := range weir.FieldErrors(err) {
		got = append(got, fe.Error())
	}
	want := []string{
		`[1]: an account cannot be found by "haeder:X" (did you mean header:X?)`,
		`[2]: "header:" names no header (write header:X-Api-Key)`,
		`[3]: "header:a b" names no header (write header:X-Api-Key)`,
		`[4]: bearer takes no name (write bearer)`,
		`[5]: "path:0" names no segment of the path (write path:1 for the first)`,
		`[6]: "path:x" names no segment of the path (write path:1 for the first)`,
		`[7]: "query:" names no parameter (write query:key)`,
		`[8]: "cookie:a=b" names no cookie (write cookie:session)`,
		`[9]: an account cannot be found by "nonsense" (one of header:NAME, bearer, query:NAME, cookie:NAME, path:N, source, cert, cert:san, jwt:CLAIM)`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestChallenges(t *testing.T) {
	a, _ := ParseAccounts([]string{"header:x-api-key", "bearer", "path:1", `query:k"y`})
	want := `ApiKey realm="weir", in="header", name="X-Api-Key"|Bearer realm="weir"|ApiKey realm="weir", in="query", name="k\"y"`
	if got := strings.Join(a.Challenges(), "|"); got != want {
		t.Errorf("%s", got)
	}
	if got := new(Accounts).Challenges(); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestMask(t *testing.T) {
	a := Mask("a")
	if Mask("") != "" || a == Mask("b") || a != Mask("a") || len(Mask("secret")) != 8 ||
		Mask(strings.Repeat("x", 9999)) == "" {
		t.Error("masks are wrong")
	}
}

func TestAccountAllocates(t *testing.T) {
	a, _ := ParseAccounts([]string{"bearer", "cookie:c", "query:q", "path:7", "header:X-Api-Key"})
	r := httptest.NewRequest("GET", "/v1/x?a=b", nil)
	r.Header = http.Header{"X-Api-Key": {"acme"}, "Authorization": {"Basic x"}, "Cookie": {"a=b"}}
	if n := testing.AllocsPerRun(100, func() { _, _ = a.Account(r, netip.Addr{}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzAccount(f *testing.F) {
	f.Add("Bearer x", "a=b; c=d", "k=v&k=w", "/a/../b")
	f.Fuzz(func(t *testing.T, authorization, cookie, query, p string) {
		for _, spec := range []string{"bearer", "cookie:c", "query:k", "path:1", "path:2"} {
			a, _ := ParseAccounts([]string{spec})
			r := &http.Request{Header: http.Header{"Authorization": {authorization}, "Cookie": {cookie}},
				URL: &url.URL{RawQuery: query, Path: p}}
			id, err := a.Account(r, netip.Addr{})
			if err == nil && (len(id) > MaxAccount || !utf8.ValidString(id) || strings.ContainsAny(id, "\x00\r\n") ||
				strings.HasPrefix(id, SourcePrefix)) {
				t.Errorf("%s gives %q", spec, id)
			}
			if spec == "query:k" && err == nil {
				if values, wrong := url.ParseQuery(query); wrong == nil && values.Get("k") != "" &&
					strings.Trim(values.Get("k"), " \t") != id {
					t.Errorf("net/url reads %q, we read %q", values.Get("k"), id)
				}
			}
		}
	})
}

func TestOfSource(t *testing.T) {
	with, _ := ParseAccounts([]string{"bearer", "source"})
	without, _ := ParseAccounts([]string{"bearer"})
	for addr, want := range map[string]string{"192.0.2.7": "source:192.0.2.7", "2001:db8::1:2": "source:2001:db8::"} {
		if got := with.OfSource(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
		if got := without.OfSource(netip.MustParseAddr(addr)); got != "" {
			t.Errorf("%s: %s, want none", addr, got)
		}
	}
}
