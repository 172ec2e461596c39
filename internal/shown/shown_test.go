package shown

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"Über 100 % · 你好 👩\u200d🚀": "Über 100 % · 你好 👩\u200d🚀",
		"invoice-\u202egnp.exe":    "invoice-⟨U+202E⟩gnp.exe",
		"a\u2066b\u2069\u200bc":    "a⟨U+2066⟩b⟨U+2069⟩⟨U+200B⟩c",
		"\x1b[31mred\x00":          "⟨U+001B⟩[31mred⟨U+0000⟩",
		"a b\tc\u00a0d":            "a b\tc\u00a0d",
		"tag \U000e0041\U000e007f": "tag ⟨U+E0041⟩⟨U+E007F⟩",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                    "",
		" a\r\n\tb\x00c ":     "a b c",
		"e\u202evil\x1b[31m!": "evil[31m!",
		"1234567890":          "1234567890",
		"123456789 0":         "123456789…",
		"12345678901":         "1234567890…",
	} {
		if got := Line(in, 10, "…"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestFill(t *testing.T) {
	for in, want := range map[string]string{
		"":              "To:",
		"a bc d ef ghi": "To: a bc d|  ef ghi",
		"ä öü ß éß ghi": "To: ä öü ß|  éß ghi",
		"a " + strings.Repeat("x", longest) + "y": "To: a|  " + strings.Repeat("x", longest) + "|  y",
		strings.Repeat("ü", longest/2) + "ü b":    "To: " + strings.Repeat("ü", longest/2) + "|  ü b",
	} {
		var got []string
		Fill(func(line string) { got = append(got, line) }, 10, "To: ", "  ", in)
		if strings.Join(got, "|") != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"as it is": "as it is", "two\r\nlines\x00\u0085": "two  lin", "\xffbroken": "?broken",
		"1234567ä": "1234567", "123456ä": "123456ä",
	} {
		if got := Plain(text, 8); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
