package smtpgate

import (
	"errors"
	"strings"
	"unicode/utf8"

	"weir/identify"
)

// An address is one of the envelope, taken apart, without quotes.
type address struct {
	local, domain string
}

var (
	errAddress = errors.New("not an address")
	errUTF8    = errors.New("an address with letters beyond ASCII needs SMTPUTF8")
)

// parseAddress takes apart an address that parsePath has read from a command. The quotes are off by now, and what is
// written into another command later must still be the same address. wide allows letters beyond ASCII.
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

// isDomain reports whether a text can be the part behind the @: a name, or an address in brackets.
func isDomain(domain string) bool {
	if literal, ok := strings.CutPrefix(domain, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		return ok && literal != "" && !strings.ContainsFunc(literal, func(r rune) bool {
			return r != '.' && r != ':' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') &&
				(r < 'A' || r > 'Z')
		})
	}
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') &&
				r < 0x80
		}) {
			return false
		}
	}
	return true
}

// String writes the address as it stands in a command, with quotes where it needs them.
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

// sameAddress reports whether two addresses, as String writes them, are one in any case: what stands before the @ is
// for its server to read, which may tell Ann from ann.
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
