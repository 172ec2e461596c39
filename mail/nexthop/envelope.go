package nexthop

import (
	"bufio"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/shown"
)

const (
	maxAddress  = 1000
	maxEnvelope = 100 // RFC 3461 section 5.4
	maxOriginal = 500 // RFC 3461 section 4.2
)

func (t *transaction) mail() {
	j, e := t.job, &t.ext
	t.say("MAIL FROM:<", path(j.Sender), ">")
	if e.sized && j.Size > 0 {
		t.say(" SIZE=", strconv.FormatInt(j.Size, 10))
	}
	if e.eightBit && j.EightBit {
		t.say(" BODY=8BITMIME")
	}
	if e.utf8 && t.utf8 {
		t.say(" SMTPUTF8")
	}
	if !e.dsn {
		return
	}
	if j.Return == "FULL" || j.Return == "HDRS" {
		t.say(" RET=", j.Return)
	}
	if j.Envelope != "" && len(j.Envelope) <= maxEnvelope {
		t.say(" ENVID=")
		xtext(t.out, j.Envelope)
	}
}

func (t *transaction) rcpt(to *Recipient) {
	t.say("RCPT TO:<", path(to.Address), ">")
	if !t.ext.dsn {
		return
	}
	if to.Notify != "" && isNotify(to.Notify) {
		t.say(" NOTIFY=", to.Notify)
	}
	kind, original, _ := strings.Cut(to.Original, ";")
	switch {
	case original == "" || len(original) > maxOriginal ||
		strings.Trim(strings.ToLower(kind), "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
	case strings.EqualFold(kind, "utf-8"):
		t.say(" ORCPT=utf-8;")
		unitext(t.out, original, t.ext.utf8 && t.utf8)
	case shown.ASCII(original):
		t.say(" ORCPT=", kind, ";")
		xtext(t.out, original)
	}
}

func isNotify(text string) bool {
	for word := range strings.SplitSeq(text, ",") {
		switch word {
		case "SUCCESS", "FAILURE", "DELAY":
		case "NEVER":
			return text == "NEVER"
		default:
			return false
		}
	}
	return true
}

const upperHex = "0123456789ABCDEF"

// xtext encodes characters that are not allowed in a command (RFC 3461 section 4).
func xtext(w *bufio.Writer, text string) {
	for _, c := range []byte(text) {
		if c > ' ' && c < 0x7f && c != '+' && c != '=' {
			w.WriteByte(c)
			continue
		}
		w.Write([]byte{'+', upperHex[c>>4], upperHex[c&15]})
	}
}

// unitext encodes an address with characters beyond ASCII (RFC 6533 section 3). asIs leaves them as they are.
func unitext(w *bufio.Writer, text string, asIs bool) {
	for _, r := range text {
		if r > ' ' && r < 0x7f && r != '+' && r != '=' && r != '\\' || r > 0x7f && asIs {
			w.WriteRune(r)
			continue
		}
		w.WriteString(`\x{`)
		w.WriteString(strings.ToUpper(strconv.FormatInt(int64(r), 16)))
		w.WriteByte('}')
	}
}

// path writes an address as it is between < and >. The quotes of its local part may be missing.
func path(address string) string {
	at := strings.LastIndexByte(address, '@')
	local, domain := address, ""
	if at >= 0 {
		local, domain = address[:at], address[at:]
	}
	if local == "" || isDotString(local) || isQuoted(local) {
		return address
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(local) + `"` + domain
}

func isDotString(local string) bool { return !strings.ContainsAny(local, "()<>[]:;@\\,\" ") }

func isQuoted(local string) bool {
	if len(local) < 2 || local[0] != '"' {
		return false
	}
	for i := 1; i < len(local); i++ {
		switch local[i] {
		case '\\':
			i++
		case '"':
			return i == len(local)-1
		}
	}
	return false
}

// isAddress reports whether an address can be put into a command without becoming another command or address.
func isAddress(address string) bool {
	if address == "" || len(address) > maxAddress || !utf8.ValidString(address) ||
		strings.ContainsFunc(address, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return isDotString(address) // <postmaster> (RFC 5321 section 4.1.1.3)
	}
	return at > 0 && at < len(address)-1 && !strings.ContainsAny(address[at:], " <>\"\\,;()")
}
