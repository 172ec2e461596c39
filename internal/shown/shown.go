// Package shown makes text of strangers safe to show: subjects, names and addresses in pages and notices.
package shown

import (
	"fmt"
	"strings"
	"unicode"
)

// Text returns s with invisible characters written as ⟨U+202E⟩. Such characters reverse text or hide in it: a name that
// ends in gnp.exe could look as if it ended in exe.png. Joiners, which emoji and some scripts need, stay.
func Text(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether a character is invisible.
func hidden(r rune) bool {
	const nonJoiner, joiner, softHyphen = '\u200c', '\u200d', '\u00ad'
	return !unicode.IsPrint(r) && !unicode.IsSpace(r) && r != nonJoiner && r != joiner && r != softHyphen
}
