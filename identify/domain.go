package identify

import (
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// domains converts names in any script to the form of the DNS. Only letters, digits and hyphens are accepted, so that
// no character turns into an @ or a dot.
var domains = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(true),
	idna.VerifyDNSLength(true))

// Domain returns the one form of a domain: in lower case, in ASCII, without a dot at the end. München.example. becomes
// xn--mnchen-3ya.example. An invalid name in another script is only lower-cased.
func Domain(domain string) string {
	domain = strings.TrimRight(strings.ToLower(domain), ".。．｡")
	if !strings.ContainsFunc(domain, func(r rune) bool { return r >= 0x80 }) {
		return domain // an xn-- name has one spelling
	}
	if ascii, err := domains.ToASCII(domain); err == nil {
		return ascii
	}
	return domain
}

// domainName reports whether a text can be a domain in a configuration.
func domainName(text string) bool {
	if text == "" || len(text) > maxDomain || strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") ||
		strings.Contains(text, "..") {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r < 0x80 && r != '.' && r != '-' && r != '_' &&
			!isLetter(byte(r)) && !isDigit(byte(r))
	})
}
