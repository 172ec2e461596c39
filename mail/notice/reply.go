package notice

import (
	"bytes"
	"errors"
	"html"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/emersion/go-message"
)

// Bounds of a reply.
const (
	// MaxReply is how many bytes of a message are read. A longer one is fine if its commands come before.
	MaxReply = 256 << 10

	maxParts = 50
	maxDepth = 8
)

// A Reply is a message that came to the command address.
type Reply struct {
	Command   Command
	MessageID string // without angle brackets; empty if there is no valid one
	Subject   string
}

// ReadReply reads the commands of a message to the command address: the lines above the quoted notice. It returns
// ErrAuto if a program wrote the message, ErrNothing if no line is a command, a *CommandError if one cannot be carried
// out, and ErrLarge or ErrMail if the message is too long or cannot be read. With all of them but ErrAuto it returns
// MessageID and Subject as far as they are known.
func ReadReply(r io.Reader) (Reply, error) {
	in := &bounded{r: r, left: MaxReply}
	e, err := message.ReadWithOptions(in, &message.ReadOptions{MaxHeaderBytes: -1}) // in is bounded
	if e == nil {
		return Reply{}, in.because(err)
	}
	if isAuto(&e.Header) {
		return Reply{}, ErrAuto
	}
	subject, _ := e.Header.Text("Subject") // as it is if it cannot be decoded
	reply := Reply{MessageID: messageID(e.Header.Get("Message-Id")), Subject: clean(subject, maxSubject)}
	var t texts
	if err := t.read(e, 0); err != nil && t.plain == nil && t.html == nil {
		return reply, in.because(err)
	}
	text := ""
	switch {
	case t.plain != nil:
		text = decoded(t.plain)
	case t.html != nil:
		text = stripTags(decoded(t.html))
	}
	reply.Command, err = readCommands(text)
	return reply, err
}

// isAuto reports whether a program wrote the message (RFC 3834, and customs before it).
func isAuto(h *message.Header) bool {
	field := func(name string) string { return strings.ToLower(strings.TrimSpace(h.Get(name))) }
	word, _, _ := strings.Cut(field("Auto-Submitted"), ";")
	if word = strings.TrimSpace(word); word != "" && word != "no" {
		return true
	}
	switch field("Precedence") {
	case "bulk", "list", "junk", "auto_reply":
		return true
	}
	if h.Has("Return-Path") && strings.Trim(field("Return-Path"), "<> \t") == "" {
		return true
	}
	for _, name := range []string{"X-Autoreply", "X-Autorespond"} {
		if h.Has(name) && field(name) != "no" {
			return true
		}
	}
	kind, _, _ := h.ContentType()
	return kind == "multipart/report"
}

// texts are the first part of plain text of a message, and the first of HTML.
type texts struct {
	plain, html []byte
	parts       int
}

var errDone = errors.New("notice: found")

// read looks through a part and the parts inside, until it finds plain text.
func (t *texts) read(e *message.Entity, depth int) error {
	if t.parts++; t.parts > maxParts || depth > maxDepth {
		return ErrMail
	}
	if how, _, _ := e.Header.ContentDisposition(); strings.EqualFold(how, "attachment") {
		return nil
	}
	kind, _, _ := e.Header.ContentType()
	if parts := e.MultipartReader(); parts != nil {
		for {
			p, err := parts.NextPart()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if p == nil {
				return err
			}
			if err := t.read(p, depth+1); err != nil {
				return err
			}
		}
	}
	plain := kind == "text/plain" || kind == ""
	if !plain && (kind != "text/html" || t.html != nil) {
		return nil
	}
	text, err := io.ReadAll(e.Body)
	switch {
	case err != nil && plain:
		t.html = nil // plain text that cannot be read is not replaced by HTML
	case err == nil && !plain:
		t.html = text
	case err == nil && len(bytes.TrimSpace(text)) > 0: // some programs put an empty part before the HTML
		t.plain, err = text, errDone
	}
	return err
}

// decoded reads bytes as UTF-8, or as Latin 1 if they are not. Commands are ASCII in every charset.
func decoded(text []byte) string {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if utf8.Valid(text) {
		return string(text)
	}
	var b strings.Builder
	for _, c := range text {
		b.WriteRune(rune(c))
	}
	return b.String()
}

// A bounded reader returns ErrLarge after a number of bytes.
type bounded struct {
	r    io.Reader
	left int
	err  error // of reading, other than the end
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		n, err = n-1, ErrLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// because returns why a message could not be read.
func (b *bounded) because(err error) error {
	if b.err != nil {
		return b.err
	}
	if errors.Is(err, ErrMail) || err == nil {
		return ErrMail
	}
	return errors.Join(ErrMail, err)
}

// breaks are the tags that end a line.
var breaks = []string{"br", "p", "div", "li", "tr", "table", "ul", "ol", "hr", "h1", "h2", "h3", "h4", "pre", "body"}

// hidden are the elements whose text does not show.
var hidden = []string{"style", "script", "head", "title"}

// quotes are the names that mail programs give to the element with the quoted message.
var quotes = []string{"gmail_quote", "yahoo_quoted", "moz-cite-prefix", "divrplyfwdmsg", "appendonsend"}

var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

// stripTags returns the text of HTML up to the quoted message. It is not for showing, and need not be exact: whoever
// wrote the HTML could have written any text.
func stripTags(page string) string {
	var b strings.Builder
	for page != "" {
		text, rest, found := strings.Cut(page, "<")
		b.WriteString(lineEnds.Replace(text))
		if !found {
			break
		}
		if comment, ok := strings.CutPrefix(rest, "!--"); ok {
			_, page, _ = strings.Cut(comment, "-->")
			continue
		}
		var tag string
		tag, page, _ = strings.Cut(rest, ">")
		tag = strings.ToLower(tag)
		name, ends := strings.CutPrefix(tag, "/")
		if i := strings.IndexAny(name, " \t\r\n/"); i >= 0 {
			name = name[:i]
		}
		quote := func(q string) bool { return strings.Contains(tag, q) }
		if name == "blockquote" || slices.ContainsFunc(quotes, quote) {
			break
		}
		if slices.Contains(breaks, name) {
			b.WriteByte('\n')
		}
		if slices.Contains(hidden, name) && !ends {
			page = after(page, "</"+name)
		}
	}
	return html.UnescapeString(b.String())
}

// after returns the page from an end tag on, in upper or lower case. It is empty if there is no such tag.
func after(page, end string) string {
	for i := 0; ; i++ {
		next := strings.IndexByte(page[i:], '<')
		if next < 0 {
			return ""
		}
		i += next
		if len(page)-i >= len(end) && strings.EqualFold(page[i:i+len(end)], end) {
			return page[i:]
		}
	}
}
