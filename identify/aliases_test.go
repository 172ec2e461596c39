package identify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir"
)

func aliases(t testing.TB, rules ...AliasRule) *Aliases {
	t.Helper()
	s, err := NewAliases(rules)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSameAddress(t *testing.T) {
	tagged := AliasRule{Domains: []string{"*"}, Tags: "+-"}
	for name, test := range map[string]struct {
		rules []AliasRule
		same  map[string]string
	}{
		"nothing said": {nil, map[string]string{
			"ann@example.org":                 "ann@example.org",
			"Ann <ANN@Example.org>":           "ann@example.org",
			"ann@example.org.":                "ann@example.org",
			"<ann@example.org.>":              "ann@example.org",
			"ann+shop@example.org":            "ann+shop@example.org",
			"a.n.n@example.org":               "a.n.n@example.org",
			"ann@MÜNCHEN.example":             "ann@xn--mnchen-3ya.example",
			"ann@münchen.example.":            "ann@xn--mnchen-3ya.example",
			"ann@mu\u0308nchen。example":       "ann@xn--mnchen-3ya.example",
			"ann@XN--Mnchen-3ya.example":      "ann@xn--mnchen-3ya.example",
			"ann@straße.example":              "ann@xn--strae-oqa.example",
			"ann@\u200dx.example":             "ann@\u200dx.example", // no valid name
			"jürgen@example.org":              "jürgen@example.org",
			"ann@[192.0.2.1]":                 "ann@[192.0.2.1]",
			"ann@x＠gmail.com":                 "ann@x＠gmail.com", // never another @
			"A.n.n+shop@gmail.com":            "ann@gmail.com",
			"ann@GoogleMail.com.":             "ann@gmail.com",
			"+ann@gmail.com":                  "+ann@gmail.com", // no name is left
			`"..."@gmail.com`:                 "...@gmail.com",
			`"a@b+c"@gmail.com`:               "a@b@gmail.com",
			"a.n.n+x@outlook.com":             "a.n.n@outlook.com",
			"ann+x@me.com":                    "ann@me.com",
			"ann+x@mail.gmail.com":            "ann+x@mail.gmail.com",
			"ann@example.org..":               "",
			"ann@.example.org":                "",
			"ann@@example.org":                "",
			"ann.@example.org":                "",
			".ann@example.org":                "",
			"@example.org":                    "",
			"ann@":                            "",
			"":                                "",
			".":                               "",
			".>":                              "",
			"ann@example.org, bob@example.or": "",
		}},
		"everybody else": {[]AliasRule{tagged}, map[string]string{
			"ann+x@example.org":  "ann@example.org",
			"ann-x@example.org":  "ann@example.org",
			"ann-x@gmail.com":    "ann-x@gmail.com", // which keeps its own rule
			"an.n+x@gmail.com":   "ann@gmail.com",
			"a.b@[192.0.2.1]":    "a.b@[192.0.2.1]",
			"ann+x@a.b.c.d.test": "ann@a.b.c.d.test",
		}},
		"an own rule goes before the known one": {[]AliasRule{{Domains: []string{"googlemail.com"}}, tagged},
			map[string]string{
				"a.b+x@googlemail.com": "a.b+x@googlemail.com",
				// of the others: the known rule is off for both, which belong together
				"a.b+x@gmail.com": "a.b@gmail.com",
			}},
		"the narrowest": {[]AliasRule{
			{Domains: []string{".example.org"}, Tags: "+"}, {Domains: []string{".b.example.org"}, Dots: true},
			{Domains: []string{"c.b.example.org"}, As: "München.example"},
		}, map[string]string{
			"a.n+x@example.org":       "a.n@example.org",
			"a.n+x@a.example.org":     "a.n@a.example.org",
			"a.n+x@b.example.org":     "an+x@b.example.org",
			"a.n+x@a.b.example.org":   "an+x@a.b.example.org",
			"a.n+x@c.b.example.org":   "a.n+x@xn--mnchen-3ya.example",
			"a.n+x@d.c.b.example.org": "an+x@d.c.b.example.org",
			"a.n+x@notexample.org":    "a.n+x@notexample.org",
		}},
		"what others are the same as": {[]AliasRule{{Domains: []string{"Büro.example"}, Tags: "+", As: "Example.net"}},
			map[string]string{
				"ann+x@büro.example":         "ann@example.net",
				"ann+x@xn--bro-hoa.example.": "ann@example.net",
				"ann+x@example.net":          "ann@example.net",
			}},
	} {
		s := aliases(t, test.rules...)
		for text, want := range test.same {
			got, err := s.Address(text)
			if got != want || (err == nil) != (want != "") {
				t.Errorf("%s: %q is %q, want %q (%v)", name, text, got, want, err)
			}
			if err != nil && !errors.Is(err, ErrRecipient) {
				t.Errorf("%s: %q: %v", name, text, err)
			}
		}
	}
}

func TestSameLong(t *testing.T) {
	s := aliases(t, AliasRule{Domains: []string{"a.example"}, As: strings.Repeat("b", 60) + ".example"})
	for _, domain := range []string{"@example.org", "@gmail.com", "@a.example", "@ü.example"} {
		for _, n := range []int{MaxRecipient, MaxRecipient + 1} {
			long := strings.Repeat("a", n-len(domain)) + domain
			if got, err := s.Address(long); (err == nil) != (n == MaxRecipient) || len(got) > MaxRecipient {
				t.Errorf("%d bytes at %s: %d, %v", n, domain, len(got), err)
			}
		}
	}
}

func TestNewSamenessMistakes(t *testing.T) {
	domains := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("d%d.example", i))
		}
		return all
	}
	rules := func(n int) (all []AliasRule) {
		for i := range n {
			all = append(all, AliasRule{Domains: []string{fmt.Sprintf("d%d.example", i)}})
		}
		return all
	}
	ok := AliasRule{Domains: []string{"example.org"}, Tags: "+", As: "example.net"}
	for name, test := range map[string]struct {
		rules []AliasRule
		want  []string // paths
	}{
		"none": {nil, nil},
		"good": {[]AliasRule{ok, {Domains: []string{".example.org", "*"}, Tags: "+-_=#", Dots: true}},
			nil},
		"no domains":       {[]AliasRule{ok, {Tags: "+"}}, []string{"[1].domains"}},
		"most domains":     {[]AliasRule{{Domains: domains(MaxAliasDomains)}}, nil},
		"too many domains": {[]AliasRule{{Domains: domains(MaxAliasDomains + 1)}}, []string{"[0].domains"}},
		"most rules":       {rules(MaxAliasRules), nil},
		"too many rules":   {rules(MaxAliasRules + 1), []string{""}},
		"no domain": {[]AliasRule{{Domains: []string{"", "a b", "ann@example.org", "*.example.org", "..x",
			"x."}}}, paths("[0].domains[%d]", 6)},
		"long domain": {[]AliasRule{{Domains: []string{strings.Repeat("a", maxDomain),
			strings.Repeat("a", maxDomain+1)}}}, []string{"[0].domains[1]"}},
		"tags": {[]AliasRule{{Domains: []string{"a.example"}, Tags: "+."},
			{Domains: []string{"b.example"}, Tags: "x"}}, []string{"[0].tags", "[1].tags"}},
		"many tags": {[]AliasRule{{Domains: []string{"a.example"}, Tags: strings.Repeat("+", maxTags+1)}},
			[]string{"[0].tags"}},
		"tags in another script": {[]AliasRule{{Domains: []string{"a.example"}, Tags: "＋"}}, []string{"[0].tags"}},
		"as": {[]AliasRule{{Domains: []string{"a.example"}, As: ".b"},
			{Domains: []string{"*"}, As: "b.example"}}, []string{"[0].as", "[1].as"}},
		"twice": {[]AliasRule{ok, {Domains: []string{"b.example", "EXAMPLE.org"}}},
			[]string{"[1].domains[1]"}},
		"twice, in two scripts": {[]AliasRule{{Domains: []string{"ü.example", "xn--tda.example"}}},
			[]string{"[0].domains[1]"}},
		"as twice":       {[]AliasRule{ok, {Domains: []string{"b.example"}, As: "Example.net"}}, []string{"[1].as"}},
		"as with a rule": {[]AliasRule{ok, {Domains: []string{"example.net"}}}, []string{"[0].as"}},
	} {
		s, err := NewAliases(test.rules)
		var got []string
		for _, mistake := range weir.FieldErrors(err) {
			got = append(got, mistake.Path)
			if mistake.Msg == "" || mistake.Hint == "" || len(mistake.Error()) > 300 {
				t.Errorf("%s: %v", name, mistake)
			}
		}
		if !slices.Equal(got, test.want) || (s == nil) != (err != nil) {
			t.Errorf("%s: %q, want %q: %v", name, got, test.want, err)
		}
	}
}

func paths(format string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

// TestSameAllocates nothing for an address that is in its one form already.
func TestSameAllocates(t *testing.T) {
	s := aliases(t, AliasRule{Domains: []string{".example.org"}, Tags: "+"})
	for _, address := range []string{"ann@example.org", "ann@example.net", "ann@gmail.com"} {
		if n := testing.AllocsPerRun(100, func() { s.Address(address) }); n != 0 {
			t.Errorf("%s: %v allocations", address, n)
		}
	}
}

// FuzzSameAddress: the one form is its own one form, the quick way says what the careful one says, and no address is
// let in that Recipient keeps out.
func FuzzSameAddress(f *testing.F) {
	for _, seed := range []string{
		"ann@example.org", `"a b"@example.org`, "Ann <a.n.n+x@GMAIL.com.>", "ann@[192.0.2.1]", "a@b@c", "ÄÖ@ü。",
		"a@ß.example", "a-b+c@x.example.org", "a@xn--a",
	} {
		f.Add(seed)
	}
	s := aliases(f, AliasRule{Domains: []string{".example.org"}, Tags: "-"},
		AliasRule{Domains: []string{"b.example"}, As: "ü.example", Dots: true},
		AliasRule{Domains: []string{"*"}, Tags: "+"})
	f.Fuzz(func(t *testing.T, text string) {
		if at := plainAddress(text); at > 0 {
			if careful, err := Recipient(text); err != nil || careful != strings.ToLower(text) ||
				strings.LastIndexByte(careful, '@') != at ||
				Domain(careful[at+1:]) != careful[at+1:] {
				t.Fatalf("%q is %q, %v", text, careful, err)
			}
		}
		got, err := s.Address(text)
		if err != nil {
			if got != "" || !errors.Is(err, ErrRecipient) {
				t.Errorf("%q, %v", got, err)
			}
			return
		}
		if len(got) > MaxRecipient+16 || !strings.Contains(got, "@") || strings.ContainsAny(got, "\r\n\x00") {
			t.Errorf("%q is %q", text, got)
		}
		if plainAddress(got) == 0 || got[0] == '+' || got[0] == '-' {
			return // it had quotes, or no name before the tag
		}
		if again, err := s.Address(got); err != nil || again != got {
			t.Errorf("%q is %q, and that is %q, %v", text, got, again, err)
		}
	})
}

func BenchmarkSameAddress(b *testing.B) {
	s := aliases(b)
	for name, address := range map[string]string{"plain": "ann@example.org", "tagged": "ann.b+shop@gmail.com",
		"careful": "Ann <ann@münchen.example>"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Address(address)
			}
		})
	}
}
