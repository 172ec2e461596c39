package console

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
)

// Bounds of what is read of a message to show its text.
const (
	MaxMailText  = 64 << 10 // bytes of the text that is shown
	maxMailParts = 50
	maxMailDepth = 5
)

// MailText returns what people can read of a message: its first part in plain text, or else the source of its first
// part in HTML, which is never rendered. raw may be cut off anywhere.
func MailText(raw []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return ""
	}
	f := &textFinder{left: maxMailParts}
	f.find(header(m.Header), m.Body, 0)
	if f.plain != "" {
		return f.plain
	}
	return f.html
}

type header map[string][]string

func (h header) get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// A textFinder goes through the parts of a message until it has found plain text.
type textFinder struct {
	plain, html string
	left        int // parts that may still be looked at
}

func (f *textFinder) find(h header, body io.Reader, depth int) {
	if f.left--; f.left < 0 || f.plain != "" {
		return
	}
	kind, params, err := mime.ParseMediaType(h.get("Content-Type"))
	if err != nil || kind == "" {
		kind = "text/plain"
	}
	if strings.HasPrefix(kind, "multipart/") && depth < maxMailDepth {
		parts := multipart.NewReader(body, params["boundary"])
		for f.left > 0 && f.plain == "" {
			p, err := parts.NextRawPart()
			if err != nil {
				return
			}
			f.find(header(p.Header), p, depth+1)
		}
		return
	}
	if kind != "text/plain" && kind != "text/html" {
		return
	}
	switch strings.ToLower(strings.TrimSpace(h.get("Content-Transfer-Encoding"))) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	text, _ := io.ReadAll(io.LimitReader(body, MaxMailText)) // what could be read is shown
	read := inUTF8(text, strings.ToLower(params["charset"]))
	if kind == "text/plain" {
		f.plain = read
	} else if f.html == "" {
		f.html = read
	}
}

// inUTF8 makes text of bytes. Of a character set that it does not know it keeps what is ASCII.
func inUTF8(b []byte, charset string) string {
	switch charset {
	case "", "utf-8", "us-ascii":
		return strings.ToValidUTF8(string(b), "\ufffd")
	}
	var out strings.Builder
	for _, c := range b {
		switch {
		case c < 0x80 || (charset == "iso-8859-1" || charset == "iso-8859-15" || charset == "windows-1252") && c >= 0xa0:
			out.WriteRune(rune(c))
		default:
			out.WriteRune('\ufffd')
		}
	}
	return out.String()
}
