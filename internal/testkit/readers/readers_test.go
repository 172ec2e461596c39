package readers

import "testing"

// TestServersDiffer: each trick that the models are for shows in one of them at least.
func TestServersDiffer(t *testing.T) {
	for _, c := range []struct {
		place, query string
		lines        []Line
		how, reads   string
	}{
		{"header:X-Api-Key", "", []Line{{"X-Api-Key", "a"}, {"x-api-key", "b"}}, "plain, last", "b"},
		{"header:X-Api-Key", "", []Line{{"X-Api-Key", "a, b"}}, "list, last", "b"},
		{"header:X-Api-Key", "", []Line{{"X-Api-Key", "a"}, {"X_Api_Key", "b"}}, "CGI, last", "b"},
		{"header:X-Api-Key", "", []Line{{"X-Api-Key", "a"}, {"X.Api~Key", "b"}}, "every sign, last", "b"},
		{"header:X-Api-Key", "", []Line{{"X-Api-Key", "a"}, {"X-Api-Key", "a"}}, "joined", "a"},
		{"bearer", "", []Line{{"Authorization", "Bearer a"}, {"Authorization", "Bearer b"}}, "words, last", "b"},
		{"bearer", "", []Line{{"Authorization", "Digest x=y, bearer b"}}, "list, first", "b"},
		{"bearer", "", []Line{{"Authorization", "Bearer a b"}}, "rest, first", "a b"},
		{"query:key", "key=a&key=b", nil, "form, last", "b"},
		{"query:key", "key=a&%6bey=b", nil, "form, last", "b"},
		{"query:key", "key=a&key[]=b", nil, "PHP, last", "b"},
		{"query:key", "key=a&KEY=b", nil, "any case, last", "b"},
		{"query:key", "key=a&x=1;key=b", nil, "semicolons, last", "b"},
		{"query:key", "key=a&%256bey=b", nil, "twice, last", "b"},
		{"query:key", "key=a+b", nil, "plus, first", "a+b"},
		{"cookie:s", "", []Line{{"Cookie", "s=a; s=b"}}, "RFC 6265, last", "b"},
		{"cookie:s", "", []Line{{"Cookie", "s=a; S=b"}}, "any case, last", "b"},
		{"cookie:s", "", []Line{{"Cookie", "s=a; x=1 s=b"}}, "SimpleCookie, last", "b"},
		{"cookie:s", "", []Line{{"Cookie", "s=a; x=1, s=b"}}, "RFC 2965, last", "b"},
		{"cookie:s", "", []Line{{"Cookie", `x="1; s=a`}}, "RFC 2965, last", ""},
		{"cookie:s", "", []Line{{"Cookie", `s="a"`}}, "RFC 2965, first", "a"},
	} {
		if got := Account(c.place, c.query, c.lines)[c.how]; got != c.reads {
			t.Errorf("%s by %q in %q %v: %q, want %q", c.place, c.how, c.query, c.lines, got, c.reads)
		}
	}
}
