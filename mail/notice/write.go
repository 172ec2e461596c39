package notice

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"weir/internal/shown"
	"weir/internal/words"
)

// Write writes the notice as a message, with CRLF line ends. Everything but addresses is in ASCII.
func Write(w io.Writer, n *Notice) error {
	h, err := n.header()
	if err != nil {
		return err
	}
	body, encoding := n.body(), "7bit"
	if !plain(body) {
		encoding = "quoted-printable"
		var b strings.Builder // its writes never fail
		q := quotedprintable.NewWriter(&b)
		_, _ = io.WriteString(q, body)
		_ = q.Close()
		body = b.String()
	}
	h.field("Content-Transfer-Encoding", encoding)
	h.line("")
	h.b.WriteString(body)
	_, err = w.Write(h.b.Bytes())
	return err
}

// header writes the header up to Content-Transfer-Encoding, which depends on the text.
func (n *Notice) header() (*lines, error) {
	h := &lines{}
	if n.Kind > Moved {
		return nil, fmt.Errorf("%w: no kind %d", ErrInvalid, n.Kind)
	}
	if n.Link != "" && !isLink(n.Link) {
		return nil, fmt.Errorf("%w: %.64q is not a link", ErrInvalid, n.Link)
	}
	from, to, reply := mailbox(n.From), mailbox(n.To), mailbox(n.ReplyTo)
	for _, a := range []struct{ name, given, read string }{{"From", n.From, from}, {"To", n.To, to},
		{"ReplyTo", n.ReplyTo, reply}} {
		if a.read == "" && (a.given != "" || a.name != "ReplyTo") {
			return nil, fmt.Errorf("%w: %s: %.64q is not an address", ErrInvalid, a.name, a.given)
		}
	}
	id := messageID(n.MessageID)
	if id == "" && n.MessageID != "" {
		return nil, fmt.Errorf("%w: %.64q is not an id", ErrInvalid, n.MessageID)
	}
	id = cmp.Or(id, messageID(NewNonce()+"@"+n.Host), NewNonce()+"@invalid")
	h.field("From", encodeWords(n.Language.Say("Mail service"))+" "+from)
	h.field("To", to)
	if reply != "" {
		h.field("Reply-To", reply)
	}
	h.field("Subject", encodeWords(n.Heading()))
	h.field("Date", n.Now.Format(time.RFC1123Z))
	h.field("Message-ID", "<"+id+">")
	if answered := messageID(n.InReplyTo); answered != "" {
		h.field("In-Reply-To", "<"+answered+">")
		h.field("References", "<"+answered+">")
	}
	auto := "auto-generated"
	if n.Kind == Answer {
		auto = "auto-replied"
	}
	h.field("Auto-Submitted", auto)
	h.field("X-Auto-Response-Suppress", "All") // no holiday answers to the command address
	h.field("MIME-Version", "1.0")
	h.field("Content-Type", "text/plain; charset=utf-8")
	if n.Language != nil && n.Language != words.English {
		h.field("Content-Language", n.Language.Tag())
	}
	return h, nil
}

// mailbox writes an address for a header. It is empty if the text is no address.
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

// messageID returns an id without angle brackets. It is empty if the text is no id.
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
		clean(link, maxLink) == link && !strings.ContainsAny(link, " <>\"") && shown.ASCII(link)
}

// encodeWords writes text for a header (RFC 2047). ASCII stays as it is, unless it looks like encoded words.
func encodeWords(text string) string {
	if shown.ASCII(text) && !strings.Contains(text, "=?") {
		return text
	}
	const most = 39 // bytes: encoded, with the longest name of a field, they are a line
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

// plain reports whether a text can be sent without an encoding.
func plain(text string) bool {
	for line := range strings.SplitSeq(text, "\r\n") {
		if len(line) > 78 || strings.HasPrefix(line, "From ") || strings.HasSuffix(line, " ") {
			return false
		}
	}
	return shown.ASCII(text)
}

type lines struct{ b bytes.Buffer }

func (l *lines) line(text string) {
	l.b.WriteString(text)
	l.b.WriteString("\r\n")
}

func (l *lines) field(name, value string) { l.fill(name+": ", " ", value) }

func (l *lines) fill(first, others, text string) { shown.Fill(l.line, 72, first, others, text) }

// cite is clean for text that people are to recognise: characters that do not show are written as what they are.
func cite(text string, most int) string { return clean(shown.Text(text), most) }

// clean makes text from outside harmless.
func clean(text string, most int) string { return shown.Line(text, most, "…") }
