package outbreak

import (
	"fmt"
	"strings"
	"unicode"
)

// Counted reports whether a recipient, as a normalised address, is counted: neither internal nor listed as free, in any
// case. A Routed address is counted, unless it is listed just so.
func (o *Options) Counted(recipient string) bool {
	for _, free := range o.Free {
		if strings.EqualFold(free, recipient) {
			return false
		}
	}
	at := strings.LastIndexByte(recipient, '@')
	if at < 0 || Routed(recipient) {
		return true
	}
	host := recipient[at+1:]
	for _, internal := range o.Internal {
		if within(host, internal) {
			return false
		}
	}
	return true
}

// Routed reports whether what stands before the last @ may be the way to somebody else, as servers still understand it:
// ann%example.net@example.org, example.net!ann@example.org, "ann@example.net"@example.org and
// @example.org:ann@example.net. The domain says nothing then about who gets the mail.
func Routed(address string) bool {
	return strings.ContainsAny(address[:max(0, strings.LastIndexByte(address, '@'))], "%!@")
}

// within reports whether a domain is an internal one, or below one that is written with a dot in front.
func within(host, internal string) bool {
	base, deep := strings.CutPrefix(internal, ".")
	if strings.EqualFold(host, base) {
		return true
	}
	// Ends with the dot, too, so that an internal .example.org says nothing about badexample.org. Where letters have
	// another length in the other case, addresses are equal only as they are written.
	return deep && len(host) > len(internal) && strings.EqualFold(host[len(host)-len(internal):], internal)
}

func name(s string) (msg, hint string) {
	switch {
	case s == "":
		return "a name is missing", ""
	case len(s) > MaxName:
		return fmt.Sprintf("%.64q… is too long", s), fmt.Sprintf("at most %d bytes", MaxName)
	case strings.ContainsFunc(s, unprintable):
		return fmt.Sprintf("%q is not a name", s), "names have no spaces"
	}
	return "", ""
}

func domain(s string) (msg, hint string) {
	const example = "write example.org, or .example.org for everything below it too"
	switch bare := strings.TrimPrefix(s, "."); {
	case bare == "":
		return "a domain is missing", example
	case strings.Contains(s, "@"):
		return fmt.Sprintf("%.64q is an address", s), "single addresses stand under free"
	case strings.HasPrefix(s, "*"):
		return fmt.Sprintf("%.64q is not a domain", s), "write " + strings.TrimPrefix(s, "*")
	case len(s) > MaxName, strings.ContainsFunc(s, unprintable), strings.ContainsAny(s, "*/:,;<>()"),
		strings.Contains(bare, ".."), strings.HasPrefix(bare, "."), strings.HasSuffix(s, "."):
		return fmt.Sprintf("%.64q is not a domain", s), example
	}
	return "", ""
}

func address(s string) (msg, hint string) {
	const example = "write support@example.org"
	at := strings.LastIndexByte(s, '@')
	switch {
	case s == "":
		return "an address is missing", example
	case at < 0:
		return fmt.Sprintf("%.64q is not an address", s), example + "; whole domains stand under internal"
	case at == 0 || at == len(s)-1 || len(s) > MaxName || strings.ContainsFunc(s, unprintable) ||
		strings.ContainsAny(s[at:], ",;<>*"):
		return fmt.Sprintf("%.64q is not an address", s), example
	}
	return "", ""
}

func unprintable(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
