// Package shown makes text of strangers fit to be looked at: subjects, names and addresses that pages and notices
// quote.
//
// Most callers want Text.
package shown

import (
	"fmt"
	"strings"
	"unicode"
)

// Text returns s with what does not show written as what it is, ⟨U+202E⟩. Such characters turn text around or hide in
// it: without this, a name can end in gnp.exe and look as if it ended in exe.png. Joiners, which emoji and some scripts
// are written with, stay.
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

// hidden reports whether a character is there and is not seen.
func hidden(r rune) bool {
	const nonJoiner, joiner, softHyphen = '\u200c', '\u200d', '\u00ad'
	return !unicode.IsPrint(r) && !unicode.IsSpace(r) && r != nonJoiner && r != joiner && r != softHyphen
}
