package smtpgate

import (
	"bytes"
	"cmp"
	"fmt"
	"mime"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"weir/internal/shown"
	"weir/store"
)

// A header is what the gate needs to know of the header of a message.
type header struct {
	subject  string
	received int
	date     bool
	id       string // Message-ID, without angle brackets
	origin   string // the id by which the server before knows it
	text     []byte // without Return-Path, which only the last server writes (RFC 5321 section 4.4)
}

// readHeader looks at the fields of a header, each of which is complete.
func readHeader(text []byte) (h header) {
	kept, from := []byte(nil), 0 // what is kept of text, up to from
	for at := 0; at < len(text); {
		end := fieldEnd(text, at)
		field := text[at:end]
		switch name := fieldName(field); {
		case fold(name, "received"):
			if m := originForm.FindSubmatch(field); m != nil && h.received == 0 {
				h.origin = string(m[1])
			}
			h.received++
		case fold(name, "date"):
			h.date = true
		case fold(name, "message-id"):
			if h.id == "" {
				h.id = idOf(field)
			}
		case fold(name, "subject") && h.subject == "":
			h.subject = subjectOf(field)
		case fold(name, "return-path"):
			kept = append(kept, text[from:at]...)
			from = end
		}
		at = end
	}
	if h.text = text; from > 0 {
		h.text = append(kept, text[from:]...)
	}
	return h
}

// idForm is what may stand in the log as the id of a message.
var idForm = regexp.MustCompile(`^[!-~]{1,250}$`)

// idOf is the id in a Message-ID field. One that nobody could look for is none.
func idOf(field []byte) string {
	_, value, _ := bytes.Cut(field, []byte(":"))
	id := strings.Trim(strings.TrimSpace(string(value)), "<>")
	if !idForm.MatchString(id) {
		return "invalid"
	}
	return id
}

// originForm is where a server that hands a message on says what it calls it (RFC 5321 section 4.4).
var originForm = regexp.MustCompile(`\sid ([0-9A-Za-z-]{6,32})[\s;]`)

// fieldEnd is the end of the field that begins at a position.
func fieldEnd(text []byte, at int) int {
	for {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		if at += i + 1; at == len(text) || text[at] != ' ' && text[at] != '\t' {
			return at
		}
	}
}

func fold(name []byte, want string) bool {
	return len(name) == len(want) && strings.EqualFold(string(name), want)
}

// subjects decodes encoded words (RFC 2047).
var subjects mime.WordDecoder

// subjectOf is the subject of a field, as one line of bounded length. One that cannot be decoded stays as it is.
func subjectOf(field []byte) string {
	_, value, _ := bytes.Cut(field[:min(len(field), 8*store.MaxSubject)], []byte(":"))
	raw := strings.ReplaceAll(string(bytes.TrimSpace(value)), "\r\n", "")
	text, err := subjects.DecodeHeader(raw)
	if err != nil {
		text = raw
	}
	return strings.TrimSpace(shown.Plain(text, store.MaxSubject))
}

// A trace is what a server writes before a message (RFC 5321 section 4.4).
type trace struct {
	helo      string
	source    netip.Addr
	host      string
	id        store.MailID
	tls, auth bool
	utf8      bool
	recipient string // the only one; empty if there are several, which must not be revealed
	at        time.Time
}

// date is in the form of RFC 5322 section 3.3.
func (t *trace) date() string { return t.at.UTC().Format(time.RFC1123Z) }

// appendTo appends the Received field.
func (t *trace) appendTo(b []byte) []byte {
	v6 := ""
	if t.source.Is6() {
		v6 = "IPv6:"
	}
	b = fmt.Appendf(b, "Received: from %s ([%s%s])\r\n\tby %s with %s id %s", plainHelo(t.helo), v6, t.source, t.host,
		t.protocol(), t.id)
	if t.recipient != "" {
		b = fmt.Appendf(b, "\r\n\tfor <%s>", t.recipient)
	}
	return fmt.Appendf(b, ";\r\n\t%s\r\n", t.date())
}

// protocol is how the message came in (RFC 3848, RFC 6531 section 4.3).
func (t *trace) protocol() string {
	name := "ESMTP"
	if t.utf8 {
		name = "UTF8SMTP"
	}
	if t.tls {
		name += "S"
	}
	if t.auth {
		name += "A"
	}
	return name
}

// appendMissing appends required fields that a submitted message may lack (RFC 6409 section 8).
func (t *trace) appendMissing(b []byte, h *header) []byte {
	if !h.date {
		b = fmt.Appendf(b, "Date: %s\r\n", t.date())
	}
	if h.id == "" {
		h.id = fmt.Sprintf("%s@%s", t.id, t.host)
		b = fmt.Appendf(b, "Message-ID: <%s>\r\n", h.id)
	}
	return b
}

var unfit = regexp.MustCompile(`[^a-zA-Z0-9._:[\]-]+`)

// plainHelo removes characters from the name in EHLO that must not be in a header field.
func plainHelo(helo string) string {
	clean := unfit.ReplaceAllString(helo, "")
	return cmp.Or(clean[:min(len(clean), maxHostname)], "unknown")
}
