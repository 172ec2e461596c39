package weir

import (
	"fmt"
	"strings"
	"unicode"
)

// Bounds of the lists of users, domains and addresses in options.
const (
	MaxListed = 1_000
	MaxName   = 320 // bytes of a user, a domain or an address
)

// List wants a list to have at most MaxListed texts, each of them valid and there once. check returns what is wrong
// with a text, and form the form in which texts are compared.
func (m *Mistakes) List(path string, all []string, form func(string) string, check func(string) (msg, hint string)) {
	if !m.AtMost(path, "", len(all), MaxListed) {
		return
	}
	first := map[string]int{}
	for i, one := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		if msg, hint := check(one); msg != "" {
			m.Add(at, msg, hint)
		} else if before, double := first[form(one)]; double {
			m.Add(at, fmt.Sprintf("%q is listed twice", one), fmt.Sprintf("it is %s[%d] already", path, before))
		} else {
			first[form(one)] = i
		}
	}
}

// Names wants a list of users.
func (m *Mistakes) Names(path string, all []string) {
	m.List(path, all, func(s string) string { return s }, BadName)
}

// Domains wants a list of domains: example.org, or .example.org with everything below it. addresses is the hint for
// somebody who writes an address there; empty for the usual one.
func (m *Mistakes) Domains(path string, all []string, addresses string, form func(string) string) {
	m.List(path, all, form, func(s string) (msg, hint string) {
		const example = "write example.org, or .example.org for everything below it too"
		switch bare := strings.TrimPrefix(s, "."); {
		case bare == "":
			return "a domain is missing", example
		case strings.Contains(s, "@") && addresses != "":
			return fmt.Sprintf("%.64q is an address", s), addresses
		case strings.Contains(s, "@"):
			return fmt.Sprintf("%.64q is an address", s), example
		case strings.HasPrefix(s, "*"):
			return fmt.Sprintf("%.64q is not a domain", s), "write " + strings.TrimPrefix(s, "*")
		case Unfit(s), strings.ContainsAny(s, "*/:,;<>()"), strings.Contains(bare, ".."), strings.HasPrefix(bare, "."),
			strings.HasSuffix(s, "."):
			return fmt.Sprintf("%.64q is not a domain", s), example
		}
		return "", ""
	})
}

// BadName returns what is wrong with the name of a user.
func BadName(s string) (msg, hint string) {
	switch {
	case s == "":
		return "a name is missing", ""
	case len(s) > MaxName:
		return fmt.Sprintf("%.64q… is too long", s), fmt.Sprintf("at most %d bytes", MaxName)
	case Unfit(s):
		return fmt.Sprintf("%q is not a name", s), "names have no spaces"
	}
	return "", ""
}

// Unfit reports whether a text is longer than MaxName, or has spaces or characters that cannot be printed.
func Unfit(s string) bool {
	return len(s) > MaxName ||
		strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}
