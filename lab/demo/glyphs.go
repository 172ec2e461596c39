package demo

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// visible returns how many columns a text takes on a terminal.
func visible(text string) int {
	n := 0
	for _, escape := range glyphs(text) {
		if !escape {
			n++
		}
	}
	return n
}

// clip cuts a text to a number of columns. Escape sequences take none and are kept, so that no colour runs on.
func clip(text string, width int) string {
	var b strings.Builder
	n := 0
	for part, escape := range glyphs(text) {
		if !escape {
			n++
		}
		if escape || n <= width {
			b.WriteString(part)
		}
	}
	return b.String()
}

// glyphs walks over the runes and the escape sequences for colours of a text.
func glyphs(text string) iter.Seq2[string, bool] {
	return func(yield func(part string, escape bool) bool) {
		for len(text) > 0 {
			n, escape := 0, strings.HasPrefix(text, "\x1b[")
			if escape {
				if n = strings.IndexByte(text, 'm') + 1; n == 0 {
					n = len(text)
				}
			} else {
				_, n = utf8.DecodeRuneInString(text)
			}
			if !yield(text[:n], escape) {
				return
			}
			text = text[n:]
		}
	}
}
