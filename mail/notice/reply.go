package notice

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/emersion/go-message"
)

// Bounds of a reply.
const (
	// MaxReply is how much of a mail is read. A longer one will do if what matters stands before.
	MaxReply = 256 << 10

	maxParts = 50
	maxDepth = 8
)

// A Reply is a mail that came to the command address.
type Reply struct {
	Command   Command
	MessageID string // without angle brackets; empty where there is no proper one
	Subject   string
}

// ReadReply reads a mail that came to the command address: what is written above the quoted notice, line by line.
// ErrAuto for a mail that no person wrote, ErrNothing where no line is a command, a *CommandError where one cannot be
// followed, ErrLarge and ErrMail where the mail is too long or cannot be read. With an error of the last four kinds
// MessageID and Subject are there as far as they are known.
func ReadReply(r io.Reader) (Reply, error) {
	in := &bounded{r: r, left: MaxReply}
	e, err := message.ReadWithOptions(in, &message.ReadOptions{MaxHeaderBytes: -1}) // in is bounded
	if e == nil {
		return Reply{}, in.because(err)
	}
	if isAuto(&e.Header) {
		return Reply{}, ErrAuto
	}
	subject, _ := e.Header.Text("Subject") // as it is where it cannot be decoded
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

// isAuto reports whether a machine wrote the mail (RFC 3834, and what came before it).
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

// texts are what can be read of a mail: the first part of plain text, and the first of HTML.
type texts struct {
	plain, html []byte
	parts       int
}

var errDone = errors.New("notice: found")

// read looks through a part and what is inside, until it finds plain text.
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
	switch {
	case kind == "text/plain" || kind == "":
		text, err := io.ReadAll(e.Body)
		if err != nil {
			t.html = nil // the text is there, and cannot be read: nothing else stands for it
			return err
		}
		if len(bytes.TrimSpace(text)) > 0 { // some programs put an empty one before the HTML
			t.plain = text
			return errDone
		}
	case kind == "text/html" && t.html == nil:
		text, err := io.ReadAll(e.Body)
		if err != nil {
			return err
		}
		t.html = text
	}
	return nil
}

// decoded reads bytes as UTF-8 where they are, and as Latin 1 otherwise: commands are ASCII in every charset.
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

type bounded struct {
	r    io.Reader
	left int
	err  error // of reading, other than the end
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.left == 0 {
		var one [1]byte
		n, err := io.ReadFull(b.r, one[:])
		if n > 0 {
			err = ErrLarge
		}
		if !errors.Is(err, io.EOF) {
			b.err = err
		}
		return 0, err
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// because returns why a mail could not be read: it could not, it is too long, or it is none.
func (b *bounded) because(err error) error {
	if b.err != nil {
		return b.err
	}
	if errors.Is(err, ErrMail) || err == nil {
		return ErrMail
	}
	return errors.Join(ErrMail, err)
}
