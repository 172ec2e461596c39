package smtpgate

import (
	"bytes"
	"mime"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"weir/store"
)

// A header is what the gate wants to know of the header of a mail.
type header struct {
	subject  string
	received int
	date, id bool
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
			h.received++
		case fold(name, "date"):
			h.date = true
		case fold(name, "message-id"):
			h.id = true
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

// fieldEnd is where the field ends that begins at a place.
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

// subjects reads subjects that are written in the ways of old.
var subjects mime.WordDecoder

// subjectOf is the subject that a field gives, as one line of bounded length. What cannot be read is shown as it was
// written.
func subjectOf(field []byte) string {
	_, value, _ := bytes.Cut(field[:min(len(field), 8*store.MaxSubject)], []byte(":"))
	raw := strings.NewReplacer("\r\n", "").Replace(string(bytes.TrimSpace(value)))
	text, err := subjects.DecodeHeader(raw)
	if err != nil {
		text = raw
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > store.MaxSubject {
		end := store.MaxSubject
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.TrimSpace(text)
}

// A trace is what a server writes before a mail (RFC 5321 section 4.4).
type trace struct {
	helo      string
	source    netip.Addr
	host      string
	id        store.MailID
	tls, auth bool
	utf8      bool
	recipient string // the only one; empty where there are several: they need not know of each other
	at        time.Time
}

// dateForm is how mails write dates (RFC 5322 section 3.3).
const dateForm = "Mon, 02 Jan 2006 15:04:05 -0700"

// appendTo appends the Received field.
func (t *trace) appendTo(b []byte) []byte {
	b = append(b, "Received: from "...)
	b = append(b, plainHelo(t.helo)...)
	b = append(b, " (["...)
	if t.source.Is6() {
		b = append(b, "IPv6:"...)
	}
	b = append(t.source.AppendTo(b), "])\r\n\tby "...)
	b = append(append(b, t.host...), " with "...)
	b = append(append(b, t.protocol()...), " id "...)
	b = append(b, t.id.String()...)
	if t.recipient != "" {
		b = append(append(append(b, "\r\n\tfor <"...), t.recipient...), '>')
	}
	b = append(b, ";\r\n\t"...)
	return append(t.at.UTC().AppendFormat(b, dateForm), "\r\n"...)
}

// protocol is how the mail came in (RFC 3848, RFC 6531 section 4.3).
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

// appendMissing appends the fields that every mail has and a submitted one may lack (RFC 6409 section 8).
func (t *trace) appendMissing(b []byte, h *header) []byte {
	if !h.date {
		b = append(b, "Date: "...)
		b = append(t.at.UTC().AppendFormat(b, dateForm), "\r\n"...)
	}
	if !h.id {
		b = append(b, "Message-ID: <"...)
		b = append(append(b, t.id.String()...), '@')
		b = append(append(b, t.host...), ">\r\n"...)
	}
	return b
}

// plainHelo is what a client calls itself, as far as it can stand in a header field.
func plainHelo(helo string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', strings.ContainsRune(".-_:[]", r):
			return r
		}
		return -1
	}, helo)
	if clean == "" {
		return "unknown"
	}
	return clean[:min(len(clean), maxHostname)]
}
