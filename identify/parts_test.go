package identify

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir"
)

type claims map[string]string

func (c claims) Claim(name string) string { return c[name] }

func withParts(t *testing.T, specs ...string) Accounts {
	t.Helper()
	a, err := Accounts{}.By(ConflictRefuse, "").WithParts(key(t, specs...).Said())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A part of a key is read as strictly as an account.
func TestPartsOfRequests(t *testing.T) {
	a := withParts(t, "account", "header:X-Tenant", "query:region", "cookie:session", "jwt:org")
	for _, c := range []struct {
		name, target string
		header       http.Header
		want         string // values in order, or the error
		rewrite      bool
	}{
		{name: "nothing", target: "/", want: ""},
		{name: "all", target: "/?region=eu", header: http.Header{"X-Tenant": {" acme "}, "Cookie": {"session=s1"}},
			want: "header:X-Tenant=acme query:region=eu cookie:session=s1 jwt:org=o1"},
		{name: "the same twice", target: "/", header: http.Header{"X-Tenant": {"acme", "acme"}},
			want: "header:X-Tenant=acme jwt:org=o1"},
		{name: "twice", target: "/", header: http.Header{"X-Tenant": {"acme", "globex"}},
			want: "limits count by header:X-Tenant, and it is there twice, with different values: send it once"},
		{name: "a list", target: "/", header: http.Header{"X-Tenant": {"acme,globex"}},
			want: "limits count by header:X-Tenant, and it has a comma or a space in it, so that servers may read several " +
				"values: send one"},
		{name: "a hop", target: "/", header: http.Header{"X-Tenant": {"acme"}, "Connection": {"keep-alive, x_tenant"}},
			want: "limits count by header:X-Tenant, and the Connection header tells the gate to remove it: leave the name " +
				"out there"},
		{name: "a parameter spelled differently", target: "/?REGION=eu",
			want: "limits count by query:region, and its name is spelled so that some servers read it, and others do not: " +
				"write it as it is"},
		{name: "two cookies", target: "/", header: http.Header{"Cookie": {"session=a; session=b"}},
			want: "cookie:session=a jwt:org=o1", rewrite: true},
		{name: "no text", target: "/", header: http.Header{"X-Tenant": {"a\x7fb"}},
			want: "limits count by header:X-Tenant, and it has control characters or white space around it, or is not UTF-8"},
		{name: "as long as it may be", target: "/", header: http.Header{"X-Tenant": {strings.Repeat("x", MaxAccount)}},
			want: "header:X-Tenant=" + strings.Repeat("x", MaxAccount) + " jwt:org=o1"},
		{name: "one byte longer", target: "/", header: http.Header{"X-Tenant": {strings.Repeat("x", MaxAccount+1)}},
			want: "limits count by header:X-Tenant, and it is longer than 256 bytes"},
		{name: "like an address, which is no matter", target: "/", header: http.Header{"X-Tenant": {"source:192.0.2.1"}},
			want: "header:X-Tenant=source:192.0.2.1 jwt:org=o1"},
	} {
		r := httptest.NewRequest("GET", c.target, nil)
		if c.header != nil {
			r.Header = c.header
		}
		var said Claims
		if c.name != "nothing" {
			said = claims{"org": "o1", "sub": "s"}
		}
		parts, rewrite, err := a.Parts(nil, r, r.Header, said)
		var all []string
		for _, p := range parts {
			all = append(all, p.Name+"="+p.Value)
		}
		got := strings.Join(all, " ")
		if err != nil {
			got = err.Error()
			if _, ok := errors.AsType[*PartError](err); !ok {
				t.Errorf("%s: %T", c.name, err)
			}
		}
		if got != c.want || rewrite != c.rewrite {
			t.Errorf("%s: %s, rewrite %v; want %s", c.name, got, rewrite, c.want)
		}
	}
}

// What the upstream may take for a part is treated like what it may take for an account.
func TestPartsArePassedOnAsTheyWereRead(t *testing.T) {
	a := withParts(t, "header:X-Tenant", "cookie:session", "jwt:org")
	for header, want := range map[string][2]bool{
		"X-Tenant": {true, false}, "X_Tenant": {true, true}, "X.Tenant": {true, true}, "X-Other": {false, false},
		"Authorization": {true, false}, "Cookie": {true, false},
	} {
		if got := [2]bool{a.Names(header), a.Alias(header)}; got != want {
			t.Errorf("%s: %v, want %v", header, got, want)
		}
	}
	if got := a.Claims(); len(got) != 1 || got[0] != "org" {
		t.Errorf("claims %v", got)
	}
	if got := a.Cookies([]string{"x=1; session=a; session=b"}); len(got) != 1 || got[0] != "session=a; x=1" {
		t.Errorf("cookies %q", got)
	}
}

// Whoever cannot change a request refuses it where others would change it.
func TestPartsOfRequestsThatStay(t *testing.T) {
	a := withParts(t, "header:X-Tenant", "cookie:session")
	for _, c := range []struct {
		header http.Header
		err    error
	}{
		{http.Header{"X-Tenant": {"t"}, "Cookie": {"session=a"}}, nil},
		{http.Header{"X-Tenant": {"t"}, "X_tenant": {"u"}}, ErrAccountSpelling},
		{http.Header{"Cookie": {"session=a; session=b"}}, ErrAccountTwice},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header = c.header
		if _, err := a.PartsOf(nil, r); !errors.Is(err, c.err) {
			t.Errorf("%v: %v, want %v", c.header, err, c.err)
		}
	}
}

func TestPartsAllocateNothing(t *testing.T) {
	a := withParts(t, "header:X-Tenant", "query:region", "jwt:org")
	r := httptest.NewRequest("GET", "/?region=eu", nil)
	r.Header.Set("X-Tenant", "acme")
	said := Claims(claims{"org": "o1"})
	room := make([]weir.Part, 0, 4)
	if n := testing.AllocsPerRun(100, func() { _, _, _ = a.Parts(room, r, r.Header, said) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
