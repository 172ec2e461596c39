package notice

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// Write writes the notice as a mail, with CRLF line ends. It is in ASCII but for addresses that are not.
func Write(w io.Writer, n *Notice) error {
	h, err := n.header()
	if err != nil {
		return err
	}
	body := n.body()
	if plain(body) {
		h.field("Content-Transfer-Encoding", "7bit")
		h.line("")
		h.b.WriteString(body)
	} else {
		h.field("Content-Transfer-Encoding", "quoted-printable")
		h.line("")
		q := quotedprintable.NewWriter(&h.b)
		if _, err = io.WriteString(q, body); err == nil {
			err = q.Close()
		}
		if err != nil {
			return err
		}
	}
	_, err = w.Write(h.b.Bytes())
	return err
}

// header checks what comes from the configuration, and writes all of the header that does not depend on the text.
func (n *Notice) header() (*lines, error) {
	h := &lines{}
	if n.Kind > AdminFlagged {
		return nil, fmt.Errorf("%w: no kind %d", ErrInvalid, n.Kind)
	}
	if n.Link != "" && !isLink(n.Link) {
		return nil, fmt.Errorf("%w: %.64q is no link", ErrInvalid, n.Link)
	}
	from, to, reply := mailbox(n.From), mailbox(n.To), mailbox(n.ReplyTo)
	for _, a := range []struct{ name, given, read string }{{"From", n.From, from}, {"To", n.To, to},
		{"ReplyTo", n.ReplyTo, reply}} {
		if a.read == "" && (a.given != "" || a.name != "ReplyTo") {
			return nil, fmt.Errorf("%w: %s: %.64q is no address", ErrInvalid, a.name, a.given)
		}
	}
	id := messageID(n.MessageID)
	if id == "" && n.MessageID != "" {
		return nil, fmt.Errorf("%w: %.64q is no id", ErrInvalid, n.MessageID)
	}
	if id == "" {
		if id = messageID(NewNonce() + "@" + n.Host); id == "" {
			id = NewNonce() + "@" + "invalid"
		}
	}
	h.field("From", "Mail service "+from)
	h.field("To", to)
	if reply != "" {
		h.field("Reply-To", reply)
	}
	h.field("Subject", encodeWords(n.subject()))
	h.field("Date", n.Now.Format(time.RFC1123Z))
	h.field("Message-ID", "<"+id+">")
	if answered := messageID(n.InReplyTo); answered != "" {
		h.field("In-Reply-To", "<"+answered+">")
		h.field("References", "<"+answered+">")
	}
	if n.Kind == Answer {
		h.field("Auto-Submitted", "auto-replied")
	} else {
		h.field("Auto-Submitted", "auto-generated")
	}
	h.field("X-Auto-Response-Suppress", "All") // no holiday answers to the command address
	h.field("MIME-Version", "1.0")
	h.field("Content-Type", "text/plain; charset=utf-8")
	return h, nil
}

// mailbox writes an address for a header; empty where it is none.
func mailbox(address string) string {
	if len(address) > 320 || clean(address, 320) != address {
		return ""
	}
	a, err := mail.ParseAddress(address)
	if err != nil || a.Name != "" {
		return ""
	}
	return a.String()
}

// messageID returns an id without angle brackets; empty where it is none.
func messageID(id string) string {
	id = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(id), "<"), ">")
	left, right, ok := strings.Cut(id, "@")
	if !ok || left == "" || right == "" || len(id) > maxName {
		return ""
	}
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' || strings.IndexByte(`<>()\",;`, c) >= 0 {
			return ""
		}
	}
	return id
}

func isLink(link string) bool {
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && len(link) <= maxLink &&
		clean(link, maxLink) == link &&
		!strings.ContainsAny(link, " <>\"") && ascii(link)
}

// encodeWords writes text for a header (RFC 2047). ASCII stays as it is, unless it pretends to be encoded.
func encodeWords(text string) string {
	if ascii(text) && !strings.Contains(text, "=?") {
		return text
	}
	const most = 39 // bytes: a word of them and the longest name of a field make a line
	var words []string
	for len(text) > 0 {
		cut := min(most, len(text))
		for cut < len(text) && !utf8.RuneStart(text[cut]) {
			cut--
		}
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString([]byte(text[:cut]))+"?=")
		text = text[cut:]
	}
	return strings.Join(words, " ")
}

// plain reports whether a text can stand in a mail as it is.
func plain(text string) bool {
	for line := range strings.SplitSeq(text, "\r\n") {
		if len(line) > 78 || strings.HasPrefix(line, "From ") || strings.HasSuffix(line, " ") {
			return false
		}
	}
	return ascii(text)
}

func ascii(text string) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c > 127 }) < 0
}

type lines struct{ b bytes.Buffer }

func (l *lines) line(text string) {
	l.b.WriteString(text)
	l.b.WriteString("\r\n")
}

func (l *lines) field(name, value string) { l.fill(name+": ", " ", value) }

func (l *lines) fill(first, others, text string) {
	const width = 72
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			l.line(line)
			line, empty = others, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	l.line(strings.TrimRight(line, " "))
}
