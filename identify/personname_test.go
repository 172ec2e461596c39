package identify

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	for text, want := range map[string]string{
		"ann of ulm":                "ann of ulm",
		"  Ann\t of\n\u2003Ulm\r\n": "ann of ulm",
		"ÉMILE":                     "émile",
		"ΟΔΥΣΣΕΥΣ":                  "οδυσσευσ",
		"Οδυσσεύς":                  "οδυσσεύσ",
		"Ａnn":                       "ａnn", // wide letters stay
		"":                          "",
		" ":                         "",
		"a\xff":                     "a\ufffd",
	} {
		if got := Name(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Name("ann of ulm") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzName(f *testing.F) {
	f.Add(" Ann  of\tUlm ")
	f.Add("ſtraße İ ı K")
	f.Fuzz(func(t *testing.T, text string) {
		got := Name(text)
		if Name(got) != got || !utf8.ValidString(got) || strings.Contains(got, "  ") || strings.TrimSpace(got) != got {
			t.Errorf("%q is %q, and that is %q", text, got, Name(got))
		}
	})
}
