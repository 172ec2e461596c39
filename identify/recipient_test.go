package identify

import (
	"errors"
	"strings"
	"testing"
)

func TestRecipient(t *testing.T) {
	long := strings.Repeat("a", MaxRecipient-len("@example.org")) + "@example.org"
	for text, want := range map[string]string{
		"ann@example.org":                       "ann@example.org",
		"<Ann@Example.ORG>":                     "ann@example.org",
		`"Ann, of Ulm" <ann@example.org>`:       "ann@example.org",
		`"ann"@example.org`:                     "ann@example.org",
		"=?koi8-r?Q?=C1?= <ann@example.org>":    "ann@example.org",
		"jürgen@münchen.example":                "jürgen@münchen.example",
		"JÜRGEN@example.org":                    "jürgen@example.org",
		long:                                    long,
		"a" + long:                              "",
		"":                                      "",
		"ann":                                   "",
		"ann@example.org, bob@example.org":      "",
		"ann@example.org\r\nBcc: x@example.org": "",
		strings.Repeat("<", 100_000):            "",
		"<a" + long + ">":                       "",
	} {
		got, err := Recipient(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.60q is %.60q, %v", text, got, err)
		}
		if err != nil && (!errors.Is(err, ErrRecipient) || len(err.Error()) > 2000) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// FuzzRecipient: what comes out goes in again, and stays what it is, unless it needs the quotes that it had.
func FuzzRecipient(f *testing.F) {
	for _, seed := range []string{"ann@example.org", `"a b"@example.org`, "Ann <ann@EXAMPLE.org>", "ann@[192.0.2.1]",
		"@", "a@b@c", "ÄÖ@ü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Recipient(text)
		if err != nil {
			if got != "" || !errors.Is(err, ErrRecipient) {
				t.Errorf("%q, %v", got, err)
			}
			return
		}
		if !strings.Contains(got, "@") || strings.ContainsAny(got, "\r\n\x00") {
			t.Errorf("%q is %q", text, got)
		}
		// the quotes are off
		if again, err := Recipient(got); err == nil && again != strings.TrimSpace(got) &&
			!strings.ContainsAny(got, " \"\\<>(),;:[]") {
			t.Errorf("%q is %q, and that is %q", text, got, again)
		}
	})
}
