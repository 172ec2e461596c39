package notice

import (
	"strings"
	"unicode"

	"weir/internal/shown"
)

// cite is clean for what people are to recognise: what is not seen is shown as what it is, and not left out.
func cite(text string, most int) string { return clean(shown.Text(text), most) }

// clean makes text from outside harmless: one line, no control characters, nothing that is not seen or turns the
// direction of writing, and not longer than most characters.
func clean(text string, most int) string {
	var b strings.Builder
	n, space := 0, false
	for _, c := range text {
		switch {
		case unicode.IsSpace(c) || c == 0: // no words grow together
			space = n > 0
			continue
		case !unicode.IsPrint(c):
			continue
		}
		if space {
			b.WriteByte(' ')
			n, space = n+1, false
		}
		if n++; n > most {
			b.WriteString("…")
			break
		}
		b.WriteRune(c)
	}
	return b.String()
}
