package identify

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/readers"
)

// request makes one of header lines as they are sent.
func request(query string, lines []readers.Line) *http.Request {
	r := &http.Request{Method: "GET", Host: "example.com", URL: &url.URL{Path: "/v1/x", RawQuery: query},
		Header: http.Header{}}
	for _, l := range lines {
		r.Header.Add(l.Name, l.Value)
	}
	return r
}

// passedOn are the lines that an upstream gets, in an order of the map's.
func passedOn(a *Accounts, r *http.Request, rewrite bool) (lines []readers.Line) {
	for name, values := range r.Header {
		if a.Alias(name) {
			continue
		}
		if name == "Cookie" && rewrite {
			values = a.Cookies(values)
		}
		for _, v := range values {
			lines = append(lines, readers.Line{Name: name, Value: v})
		}
	}
	return lines
}

func lines(pairs ...string) (all []readers.Line) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, readers.Line{Name: pairs[i], Value: pairs[i+1]})
	}
	return all
}

// TestNamedTwice: what used to pass a limit by showing one name to the gate and another to the upstream.
func TestNamedTwice(t *testing.T) {
	for _, c := range []struct {
		name, place, query string
		lines              []readers.Line
		want               string // charged by those who pass the request on
		err                error
		asked              error // for those who cannot change the request, where it differs
	}{
		{"two lines", "header:X-Api-Key", "", lines("X-Api-Key", "a", "X-Api-Key", "b"), "", ErrAccountTwice, nil},
		{"equal lines", "header:X-Api-Key", "", lines("X-Api-Key", "a", "x-api-key", " a "), "a", nil, nil},
		{"comma", "header:X-Api-Key", "", lines("X-Api-Key", "a, b"), "", ErrAccountList, nil},
		{"comma, equal", "header:X-Api-Key", "", lines("X-Api-Key", "a,a"), "", ErrAccountList, nil},
		{"underscores", "header:X-Api-Key", "", lines("X-Api-Key", "a", "X_Api_Key", "b"), "a", nil,
			ErrAccountSpelling},
		{"another sign", "header:X-Api-Key", "", lines("X-Api-Key", "a", "x.api-key", "b"), "a", nil,
			ErrAccountSpelling},
		{"only underscores", "header:X-Api-Key", "", lines("X_Api_Key", "b"), "", nil, ErrAccountSpelling},
		{"dashes for a name with underscores", "header:X_Api_Key", "", lines("X_Api_Key", "a", "X-Api-Key", "b"), "a",
			nil, ErrAccountSpelling},
		{"other header", "header:X-Api-Key", "", lines("X-Api-Key", "a", "X-Api-Keys", "b", "X-Other", "c, d"), "a",
			nil, nil},
		{"hop by hop", "header:X-Api-Key", "", lines("X-Api-Key", "a", "Connection", "close, x-api-key"), "",
			ErrAccountHop, nil},
		{"hop by hop, other", "header:X-Api-Key", "", lines("X-Api-Key", "a", "Connection", "close, x-other"), "a", nil,
			nil},
		{"two tokens", "bearer", "", lines("Authorization", "Bearer a", "Authorization", "Bearer b"), "",
			ErrAccountTwice, nil},
		{"two schemes", "bearer", "", lines("Authorization", "Bearer a", "Authorization", "Basic b"), "",
			ErrAccountTwice, nil},
		{"list of tokens", "bearer", "", lines("Authorization", "Bearer a, Bearer b"), "", ErrAccountList, nil},
		{"token in a list", "bearer", "", lines("Authorization", "Digest a=b, Bearer c"), "", ErrAccountList, nil},
		{"digest", "bearer", "", lines("Authorization", `Digest username="a", realm="b"`), "", nil, nil},
		{"token behind a tab", "bearer", "", lines("Authorization", "Bearer\ta"), "a", nil, nil},
		{"two words", "bearer", "", lines("Authorization", "Bearer a b"), "", ErrAccountList, nil},
		{"token taken away", "bearer", "", lines("Authorization", "Bearer a", "Connection", "authorization"), "",
			ErrAccountHop, nil},
		{"query twice", "query:key", "key=a&key=b", nil, "", ErrAccountTwice, nil},
		{"query twice, equal", "query:key", "key=a&x=1&key=%61", nil, "a", nil, nil},
		{"escaped name", "query:key", "key=a&%6bey=b", nil, "", ErrAccountTwice, nil},
		{"name escaped twice", "query:key", "key=a&%256bey=b", nil, "", ErrAccountTwice, nil},
		{"brackets", "query:key", "key=a&key[]=b", nil, "", ErrAccountTwice, nil},
		{"escaped brackets", "query:key", "key=a&key%5B0%5D=b", nil, "", ErrAccountTwice, nil},
		{"only brackets", "query:key", "key[]=b", nil, "", ErrAccountSpelling, nil},
		{"only escaped", "query:key", "%6bey=b", nil, "", ErrAccountSpelling, nil},
		{"only another case", "query:key", "Key=b", nil, "", ErrAccountSpelling, nil},
		{"only another cookie", "cookie:session", "", lines("Cookie", "Session=b; x=1"), "", nil, ErrAccountTwice},
		{"escaped where it must be", "query:f[user]", "f%5Buser%5D=a", nil, "a", nil, nil},
		{"brackets in the name", "query:f[user]", "f[user]=a&f[x]=b", nil, "a", nil, nil},
		{"dots for underscores", "query:api_key", "api_key=a&api.key=b", nil, "", ErrAccountTwice, nil},
		{"case", "query:key", "KEY=b&key=a", nil, "", ErrAccountTwice, nil},
		{"space in front", "query:key", "key=a&%20key=b", nil, "", ErrAccountTwice, nil},
		{"name cut at NUL", "query:key", "key=a&key%00x=b", nil, "", ErrAccountTwice, nil},
		{"semicolon", "query:key", "x=1;key=b&key=a", nil, "", ErrAccountWritten, nil},
		{"entity", "query:key", "key=a&amp;key=b", nil, "", ErrAccountWritten, nil},
		{"semicolon in another", "query:key", "x=1;y=2&key=a", nil, "a", nil, nil},
		{"fragment", "query:key", "key=a#b", nil, "", ErrAccountWritten, nil},
		{"fragment at once", "query:key", "#&key=a", nil, "", ErrAccountWritten, nil},
		{"semicolon in the value", "query:key", "key=a;b", nil, "", ErrAccountWritten, nil},
		{"empty first", "query:key", "key=&key=a", nil, "", ErrAccountTwice, nil},
		{"empty last", "query:key", "key=a&key", nil, "", ErrAccountTwice, nil},
		{"plus", "query:key", "key=a+b", nil, "", ErrAccountWritten, nil},
		{"escaped plus", "query:key", "key=a%2Bb", nil, "a+b", nil, nil},
		{"wrong escape", "query:key", "key=%zz", nil, "", ErrAccountWritten, nil},
		{"wrong escape elsewhere", "query:key", "x=%zz&key=a", nil, "a", nil, nil},
		{"value escaped twice", "query:key", "key=%2561", nil, "", ErrAccountWritten, nil},
		{"spaces around", "query:key", "key=%20a%20", nil, "a", nil, nil},
		{"blanks that are trimmed", "query:key", "key=a%C2%A0", nil, "", ErrAccountBytes, nil},
		{"cookie twice", "cookie:session", "", lines("Cookie", "x=1; session=a; session=b"), "a", nil, ErrAccountTwice},
		{"cookie in two lines", "cookie:session", "", lines("Cookie", "session=a", "Cookie", "session=b"), "a", nil,
			ErrAccountTwice},
		{"cookie twice, equal", "cookie:session", "", lines("Cookie", "session=a; session=a"), "a", nil, nil},
		{"cookie empty first", "cookie:session", "", lines("Cookie", "session=; session=a"), "a", nil, ErrAccountTwice},
		{"cookie hidden by a space", "cookie:session", "", lines("Cookie", "session=a; x=1 session=b"), "a", nil,
			ErrAccountTwice},
		{"cookie hidden by a comma", "cookie:session", "", lines("Cookie", "session=a; x=1, session=b"), "a", nil,
			ErrAccountTwice},
		{"cookie hidden by a quote", "cookie:session", "", lines("Cookie", `session=a; x="1; session=b"`), "a", nil,
			ErrAccountTwice},
		{"cookie swallowed", "cookie:session", "", lines("Cookie", `x="1; session=a; y=2"`), "a", nil, ErrAccountTwice},
		{"cookie escaped", "cookie:session", "", lines("Cookie", "session=s%3Aa"), "s:a", nil, nil},
		{"cookie of another case", "cookie:session", "", lines("Cookie", "session=a; SESSION=b"), "a", nil,
			ErrAccountTwice},
		{"cookie with a comma", "cookie:session", "", lines("Cookie", "session=a,b"), "", ErrAccountWritten, nil},
		{"cookie with a backslash", "cookie:session", "", lines("Cookie", `session="\141"`), "", ErrAccountWritten,
			nil},
		{"cookie swallowed, quotes in pairs", "cookie:session", "", lines("Cookie", `"x = "1; session=a; y=2"`), "a",
			nil, ErrAccountTwice},
		{"cookie swallowed, quotes escaped", "cookie:session", "", lines("Cookie", `x="1\"; session=a; y=2"`), "a", nil,
			ErrAccountTwice},
		{"quoted cookies", "cookie:session", "", lines("Cookie", `x="1\"2\"3"; y= "4"; session=a`), "a", nil, nil},
		{"other cookies", "cookie:session", "", lines("Cookie", `x="1"; y={"a":1,"b":[2]}; z=a=b; session=a`), "a", nil,
			nil},
	} {
		a, err := ParseAccounts([]string{c.place})
		if err != nil {
			t.Fatal(err)
		}
		r := request(c.query, c.lines)
		got, rewrite, err := a.AccountBy(r, r.Header, netip.Addr{}, nil)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
		if err == nil {
			if how, read := readers.Misread(c.place, c.query, passedOn(&a, r, rewrite), got); how != "" {
				t.Errorf("%s: charged %q, read by %q: %q", c.name, got, how, read)
			}
		}
		asked := c.asked
		if asked == nil {
			asked = c.err
		}
		if _, err := a.Account(r, netip.Addr{}); !errors.Is(err, asked) {
			t.Errorf("%s: asked about it: %v, want %v", c.name, err, asked)
		}
	}
}

// TestOtherCookiesStay: they are sent as they came, in their order, behind the one that counts.
func TestOtherCookiesStay(t *testing.T) {
	a, err := ParseAccounts([]string{"cookie:session", "cookie:user"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lines []string
		want  []string
	}{
		{[]string{`x="1"; session=a; y={"k":[1,2]};z=a=b ; session=b`},
			[]string{`session=a; x="1"; y={"k":[1,2]}; z=a=b`}},
		{[]string{"x=1; session=a", "user=u; session=b; y=2"}, []string{"user=u; session=a; x=1; y=2"}},
		{[]string{"session=; x=1"}, []string{"x=1"}},
		{[]string{"SESSION=b; x=1 session=c"}, nil},
	} {
		if got := a.Cookies(c.lines); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}

func TestToken(t *testing.T) {
	for line, want := range map[string][2]string{
		"Bearer abc": {"abc", "abc"}, "bearer  abc ": {"abc", "abc"}, "Bearer\tabc": {"abc", "abc"}, "abc": {"", "abc"},
		"Basic abc": {"", ""}, "": {"", ""}, "Bearer": {"", "Bearer"},
		"Bearer abc, Bearer d": {"!", "!"}, "Bearer abc d": {"!", "!"}, "Digest a=b, Bearer c": {"!", "!"},
		"abc,d": {"", "!"}, "Digest a=b, c=d": {"", ""},
	} {
		for i, header := range []string{"Authorization", "X-Token"} {
			got, err := Token(http.Header{header: {line, line}}, header)
			if err != nil {
				got = "!"
			}
			if got != want[i] {
				t.Errorf("%s: %q: %q", header, line, got)
			}
		}
	}
	if _, err := Token(http.Header{"X-Token": {"a", "b"}}, "X-Token"); !errors.Is(err, ErrAccountTwice) {
		t.Error(err)
	}
}

func TestPlacesDisagree(t *testing.T) {
	both := []string{"header:X-Api-Key", "bearer", "source"}
	for _, c := range []struct {
		name     string
		places   []string
		conflict Conflict
		lines    []readers.Line
		said     Claims
		want     string
		err      error
	}{
		{"refuse", both, "", lines("X-Api-Key", "a", "Authorization", "Bearer b"), nil, "", ErrAccountsDiffer},
		{"first", both, ConflictFirst, lines("X-Api-Key", "a", "Authorization", "Bearer b"), nil, "a", nil},
		{"agree", both, "", lines("X-Api-Key", "a", "Authorization", "Bearer a"), nil, "a", nil},
		{"one of them", both, "", lines("Authorization", "Bearer b"), nil, "b", nil},
		{"none of them", both, "", nil, nil, "source:192.0.2.1", nil},
		{"source never disagrees", []string{"source", "header:X-Api-Key"}, "", lines("X-Api-Key", "a"), nil,
			"source:192.0.2.1", nil},
		{"a doubt in the second", both, "",
			lines("X-Api-Key", "a", "Authorization", "Bearer a", "Authorization", "Bearer b"), nil, "",
			ErrAccountTwice},
		{"token and its claim", []string{"jwt:sub", "bearer"}, "", lines("Authorization", "Bearer x.y.z"),
			said{"sub": "ann"}, "ann", nil},
		{"bad token, taken as it is", []string{"jwt:sub", "bearer"}, "", lines("Authorization", "Bearer x.y.z"), nil,
			"x.y.z", nil},
		{"bad token beside a key", []string{"jwt:sub", "header:X-Api-Key"}, "",
			lines("Authorization", "Bearer x.y.z", "X-Api-Key", "a"), nil, "", ErrAccountsDiffer},
		{"no token beside a key", []string{"jwt:sub", "header:X-Api-Key"}, "",
			lines("Authorization", "Bearer opaque", "X-Api-Key", "a"), nil, "a", nil},
		{"two tokens", []string{"jwt:sub"}, "", lines("Authorization", "Bearer x.y.z", "Authorization", "Bearer u.v.w"),
			said{"sub": "b"}, "", ErrAccountTwice},
		{"claim and key", []string{"jwt:sub", "header:X-Api-Key"}, "",
			lines("Authorization", "Bearer x.y.z", "X-Api-Key", "a"), said{"sub": "b"}, "", ErrAccountsDiffer},
	} {
		a, err := ParseAccounts(c.places)
		if err != nil {
			t.Fatal(err)
		}
		a = a.By(c.conflict, "")
		r := request("", c.lines)
		got, _, err := a.AccountBy(r, r.Header, netip.MustParseAddr("192.0.2.1"), c.said)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// TestNobodyReadsAnotherAccount: for any request built from the configured name, whatever a server can read as the
// account of what is passed on is what was charged, or the request was refused. For those who cannot change the
// request the same holds of what came.
func TestNobodyReadsAnotherAccount(t *testing.T) {
	for _, place := range []string{"header:X-Api-Key", "bearer", "query:key", "cookie:session"} {
		a, err := ParseAccounts([]string{place})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(place, rapid.MakeCheck(func(t *rapid.T) {
			query, all := readers.Any(t, place)
			r := request(query, all)
			if id, rewrite, err := a.AccountBy(r, r.Header, netip.Addr{}, nil); err == nil {
				if how, read := readers.Misread(place, query, passedOn(&a, r, rewrite), id); how != "" {
					t.Fatalf("%q %q: charged %q, read by %q: %q", query, all, id, how, read)
				}
			}
			if id, err := a.Account(r, netip.Addr{}); err == nil {
				if how, read := readers.Misread(place, query, all, id); how != "" {
					t.Fatalf("as it came, %q %q: charged %q, read by %q: %q", query, all, id, how, read)
				}
			}
		}))
	}
	// Where there are several places, each of them says what was charged, or nothing.
	places := []string{"cookie:session", "header:X-Api-Key", "query:key", "bearer"}
	a, err := ParseAccounts(append(places, "source"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("all places", rapid.MakeCheck(func(t *rapid.T) {
		query, all := "", []readers.Line(nil)
		for _, place := range places {
			q, more := readers.Any(t, place)
			query, all = query+q, append(all, more...)
		}
		r := request(query, all)
		id, rewrite, err := a.AccountBy(r, r.Header, netip.MustParseAddr("192.0.2.1"), nil)
		if err != nil {
			return
		}
		sent := passedOn(&a, r, rewrite)
		for _, place := range places {
			if how, _ := readers.Misread(place, query, sent, ""); how == "" {
				continue // nobody reads anything there
			}
			if how, read := readers.Misread(place, query, sent, id); how != "" {
				t.Fatalf("%q %q: charged %q, read at %s by %q: %q", query, all, id, place, how, read)
			}
		}
	}))
}
