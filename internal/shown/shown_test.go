package shown

import "testing"

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
