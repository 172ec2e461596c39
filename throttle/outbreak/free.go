package outbreak

import (
	"fmt"
	"strings"

	"weir"
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

func address(s string) (msg, hint string) {
	const example = "write support@example.org"
	at := strings.LastIndexByte(s, '@')
	switch {
	case s == "":
		return "an address is missing", example
	case at < 0:
		return fmt.Sprintf("%.64q is not an address", s), example + "; put whole domains under internal"
	case at == 0 || at == len(s)-1 || weir.Unfit(s) || strings.ContainsAny(s[at:], ",;<>*"):
		return fmt.Sprintf("%.64q is not an address", s), example
	}
	return "", ""
}
