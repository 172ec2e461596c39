package simulate

import (
	"bytes"
	"strings"
	"unicode"
)

// nameOf returns the name of a user or recipient that a text is: in lower case as gates count it, without spaces around
// it. ok is false for one that is too long or cannot be printed.
func nameOf(text []byte) (name string, ok bool) {
	if text = bytes.TrimSpace(text); len(text) > MaxLogName {
		return "", false
	}
	name = strings.ToLower(strings.ToValidUTF8(string(text), "\ufffd"))
	return name, !strings.ContainsFunc(name, unicode.IsControl)
}

// separates reports whether a character stands between recipients.
func separates(r rune) bool { return r == ';' || r == ',' || r == ' ' || r == '\t' }

// namesOf reads recipients that are separated by semicolons, commas or spaces. ok is false where one is no name. It
// reads at most one more than most.
func namesOf(text []byte, most int) (to []string, ok bool) {
	for one := range bytes.FieldsFuncSeq(text, separates) {
		name, ok := nameOf(one)
		if !ok {
			return nil, false
		}
		if name == "" {
			continue
		}
		if to = append(to, name); len(to) > most {
			break
		}
	}
	return to, true
}
