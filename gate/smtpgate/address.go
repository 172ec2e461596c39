package smtpgate

import (
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	"weir/identify"
)

// An address of the envelope, without quotes.
type address struct {
	local, domain string
}

var (
	errAddress = errors.New("not an address")
	errUTF8    = errors.New("an address with letters beyond ASCII needs SMTPUTF8")
)

// parseAddress parses an address that parsePath has read from a command. String must be able to write it into another
// command as the same address. wide allows characters beyond ASCII.
func parseAddress(text string, wide bool) (address, error) {
	at := strings.LastIndexByte(text, '@')
	if at < 1 || at == len(text)-1 || len(text) > identify.MaxRecipient || !utf8.ValidString(text) {
		return address{}, errAddress
	}
	a := address{text[:at], text[at+1:]}
	for _, r := range text {
		switch {
		case r < ' ' || r == 0x7f:
			return address{}, errAddress
		case r >= 0x80 && !wide:
			return address{}, errUTF8
		case r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
			return address{}, errAddress
		}
	}
	if strings.ContainsRune(a.local, '@') || !isDomain(a.domain) {
		return address{}, errAddress
	}
	return a, nil
}

// CheckAddress returns an error for an address that gates do not take.
func CheckAddress(text string) error {
	_, err := parseAddress(text, true)
	return err
}

const labelForm = `[a-zA-Z0-9_\x{80}-\x{10ffff}-]+`

var domainForm = regexp.MustCompile(`^(\[[a-zA-Z0-9.:-]+\]|` + labelForm + `(\.` + labelForm + `)*)$`)

// isDomain reports whether a text can be the part behind the @: a name, or an address in brackets.
func isDomain(text string) bool { return domainForm.MatchString(text) }

// String writes the address as in a command, with quotes if it needs them.
func (a address) String() string {
	if a.local == "" {
		return ""
	}
	if strings.ContainsAny(a.local, "()<>[]:;@\\,\" ") || a.local[0] == '.' || strings.HasSuffix(a.local, ".") ||
		strings.Contains(a.local, "..") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(a.local) + `"@` + a.domain
	}
	return a.local + "@" + a.domain
}

// sameAddress reports whether two addresses, as String writes them, are the same to every server. A server may tell Ann
// from ann in the part before the @.
func sameAddress(a, b string) bool {
	at := strings.LastIndexByte(a, '@')
	return at >= 0 && len(a) == len(b) && a[:at] == b[:at] && strings.EqualFold(a[at:], b[at:])
}

// normal is the form by which addresses are compared.
func (a address) normal() string {
	text := a.String()
	if r, err := identify.Recipient(text); err == nil {
		return r
	}
	return strings.ToLower(text)
}
