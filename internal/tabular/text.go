package tabular

import (
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Visible returns how many columns a text takes on a terminal.
func Visible(text string) int {
	n := 0
	for _, escape := range Glyphs(text) {
		if !escape {
			n++
		}
	}
	return n
}

// Clip cuts a text to a number of columns. Escape sequences take none and are kept, so that no colour continues.
func Clip(text string, width int) string {
	var b strings.Builder
	n := 0
	for part, escape := range Glyphs(text) {
		if !escape {
			n++
		}
		if escape || n <= width {
			b.WriteString(part)
		}
	}
	return b.String()
}

// Glyphs walks over the runes and the escape sequences for colours of a text.
func Glyphs(text string) iter.Seq2[string, bool] {
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

// Wrap breaks a text into lines.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && Visible(line)+1+Visible(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// Grouped writes a number with commas between thousands.
func Grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
