package identify

import (
	"strings"
	"unicode"
)

// Name returns the one form of a person's name: in lower case, and with one space between words. Other spellings of a
// letter stay different, since they may be another name.
func Name(name string) string {
	if plainName(name) {
		return name
	}
	var b strings.Builder
	b.Grow(len(name))
	space := false
	for _, r := range name {
		if unicode.IsSpace(r) {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		// by way of the capital letter, so that the two small sigmas become one
		b.WriteRune(unicode.ToLower(unicode.ToUpper(r)))
	}
	return b.String()
}

func plainName(name string) bool {
	last := byte(' ')
	for i := range len(name) {
		c := name[i]
		if c >= 0x80 || c >= 'A' && c <= 'Z' || c < ' ' || c == ' ' && last == ' ' {
			return false
		}
		last = c
	}
	return name == "" || last != ' '
}
