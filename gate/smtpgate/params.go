package smtpgate

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds on parameters of DSN and SIZE.
const (
	maxEnvelope = 100 // RFC 3461 section 5.4
	maxOriginal = 500 // RFC 3461 section 4.2
	maxDigits   = 20  // RFC 1870 section 3
)

// mailParams are the parameters of MAIL.
type mailParams struct {
	size     int64
	utf8     bool
	eightBit bool
	ret      string // RFC 3461
	envelope string
}

// rcptParams are the parameters of RCPT (RFC 3461).
type rcptParams struct {
	notify   string
	original string // with its type, as a bounce shows it
}

// eachParam calls take for each parameter. They must be known, and come only once.
func eachParam(text string, known []string, take func(key, value string) *no) *no {
	var seen []string
	for word := range strings.SplitSeq(strings.Trim(text, " "), " ") {
		if word == "" {
			continue
		}
		key, value, given := strings.Cut(word, "=")
		key = strings.ToUpper(key)
		switch {
		case given && !isValue(value), slices.Contains(seen, key):
			return badParam(key)
		case !slices.Contains(known, key):
			return refuse(MailMalformed, 555, 554, "this parameter is not known: "+oneLine(key, 40))
		}
		seen = append(seen, key)
		if n := take(key, value); n != nil {
			return n
		}
	}
	return nil
}

// isValue reports whether a text is the value of a parameter (RFC 5321 section 4.1.2, RFC 6531 section 3.3).
func isValue(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '=' || r == 0x7f })
}

func badParam(key string) *no {
	return refuse(MailMalformed, 501, 554, "cannot read the parameter "+oneLine(key, 40))
}

var (
	mailKnown = []string{"SIZE", "BODY", "SMTPUTF8", "AUTH", "RET", "ENVID"}
	rcptKnown = []string{"NOTIFY", "ORCPT"}
)

// readMailParams reads the parameters of MAIL.
func readMailParams(text string) (p mailParams, n *no) {
	n = eachParam(text, mailKnown, func(key, value string) *no {
		ok := true
		switch upper := strings.ToUpper(value); key {
		case "SIZE":
			p.size, ok = parseSize(value)
		case "BODY":
			if upper == "BINARYMIME" {
				return refuse(MailMalformed, 504, 554, "BINARYMIME is not taken")
			}
			p.eightBit, ok = upper == "8BITMIME", upper == "8BITMIME" || upper == "7BIT"
		case "SMTPUTF8":
			p.utf8, ok = true, value == ""
		case "AUTH": // who has written it, for servers that believe the client (RFC 4954 section 5)
			_, ok = decodeXtext(value)
		case "RET":
			p.ret, ok = upper, upper == "FULL" || upper == "HDRS"
		case "ENVID":
			if p.envelope, ok = decodeXtext(value); ok && len(p.envelope) > maxEnvelope {
				return refuse(MailMalformed, 501, 554, "ENVID is too long")
			}
		}
		if !ok {
			return badParam(key)
		}
		return nil
	})
	return p, n
}

// readRcptParams reads the parameters of RCPT.
func readRcptParams(text string) (p rcptParams, n *no) {
	n = eachParam(text, rcptKnown, func(key, value string) *no {
		ok := true
		switch key {
		case "NOTIFY":
			p.notify, ok = parseNotify(value)
		case "ORCPT":
			p.original, ok = parseOriginal(value)
		}
		if !ok {
			return badParam(key)
		}
		return nil
	})
	return p, n
}

// parseSize reads a number of bytes. One that is larger than an int64 is too large for any message, but not malformed.
func parseSize(text string) (int64, bool) {
	if !isDigits(text) || len(text) > maxDigits {
		return 0, false
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return size, true
}

// parseNotify reads NEVER, or any of the others, each once.
func parseNotify(text string) (string, bool) {
	text = strings.ToUpper(text)
	if text == "NEVER" {
		return text, true
	}
	var seen []string
	for word := range strings.SplitSeq(text, ",") {
		if !slices.Contains([]string{"SUCCESS", "FAILURE", "DELAY"}, word) || slices.Contains(seen, word) {
			return "", false
		}
		seen = append(seen, word)
	}
	return text, true
}

// parseOriginal reads an address with its type.
func parseOriginal(text string) (string, bool) {
	kind, coded, _ := strings.Cut(text, ";")
	kind = strings.ToLower(kind)
	original, ok := "", false
	switch kind {
	case "rfc822":
		original, ok = decodeXtext(coded)
	case "utf-8":
		original, ok = decodeUTF8(coded)
	}
	bad := func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError }
	if !ok || len(original) > maxOriginal || strings.ContainsFunc(original, bad) {
		return "", false
	}
	return kind + ";" + original, true
}

// decodeXtext reads a text in which +2B is a plus (RFC 3461 section 4). It is printable ASCII, and not empty.
func decodeXtext(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '+' {
			if i+2 >= len(text) || strings.ToUpper(text[i:i+3]) != text[i:i+3] {
				return "", false
			}
			code, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return "", false
			}
			c, i = byte(code), i+2
		}
		if c < ' ' || c > '~' {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), b.Len() > 0
}

// decodeUTF8 reads a text in which \x{FC} is a character (RFC 6533 section 3). It may also have the character itself.
func decodeUTF8(text string) (string, bool) {
	if !utf8.ValidString(text) {
		return "", false
	}
	var b strings.Builder
	for text != "" {
		if text[0] == '+' || text[0] == '=' {
			return "", false
		}
		if text[0] != '\\' {
			_, n := utf8.DecodeRuneInString(text)
			b.WriteString(text[:n])
			text = text[n:]
			continue
		}
		hex, rest, found := strings.Cut(text, "}")
		hex, ok := strings.CutPrefix(hex, `\x{`)
		code, err := strconv.ParseUint(hex, 16, 21)
		if !found || !ok || err != nil || strings.ToUpper(hex) != hex || !utf8.ValidRune(rune(code)) {
			return "", false
		}
		b.WriteRune(rune(code))
		text = rest
	}
	return b.String(), b.Len() > 0
}
