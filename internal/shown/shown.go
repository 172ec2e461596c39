// Package shown makes text of strangers safe to show: subjects, names and addresses in pages, notices and bounces.
//
// Pages want Text. Mail wants Line, and Fill for its lines. What is stored is Plain.
package shown

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
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

// Line returns s as one line, without control characters, characters that do not show and characters that turn the
// direction of writing. Of a longer text it returns most characters and then the text more.
func Line(s string, most int, more string) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || r == 0: // keeps words apart
			space = n > 0
			continue
		case !unicode.IsPrint(r):
			continue
		}
		if space {
			n++
		}
		if n++; n > most {
			b.WriteString(more)
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Plain returns at most so many bytes of s, as it is but for control characters and broken UTF-8.
func Plain(s string, most int) string {
	return Cut(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")), most)
}

// Cut shortens s to at most so many bytes, without breaking a character.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// longest is how many bytes of a word Fill puts on a line. A line of SMTP has 998.
const longest = 900

// Fill gives a text to line in lines of at most width characters, where its words allow that. The first line begins
// with first, the others with others.
func Fill(line func(string), width int, first, others, text string) {
	now, empty := first, true
	end := func() {
		line(now)
		now, empty = others, true
	}
	for word := range strings.FieldsSeq(text) {
		for len(word) > longest {
			cut := longest
			for cut > 1 && !utf8.RuneStart(word[cut]) {
				cut--
			}
			if !empty {
				end()
			}
			now += word[:cut]
			end()
			word = word[cut:]
		}
		if !empty && utf8.RuneCountInString(now)+1+utf8.RuneCountInString(word) > width {
			end()
		}
		if !empty {
			now += " "
		}
		now, empty = now+word, false
	}
	if !empty || now == first {
		line(strings.TrimRight(now, " "))
	}
}

// ASCII reports whether a text has no other characters.
func ASCII[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
