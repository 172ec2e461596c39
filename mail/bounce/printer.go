package bounce

import (
	"crypto/rand"
	"io"
	"mime/quotedprintable"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"weir/internal/shown"
)

const date = time.RFC1123Z

// A printer writes lines, and remembers the first error.
type printer struct {
	w    io.Writer
	utf8 bool // characters over 127 may be written
	err  error
}

func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text+"\r\n")
	}
}

// coded begins quoted-printable, which may have all characters. The function that it returns ends it.
func (p *printer) coded() (end func()) {
	was := *p
	q := quotedprintable.NewWriter(p.w)
	p.w, p.utf8 = q, true
	return func() {
		p.w, p.utf8 = was.w, was.utf8
		if err := q.Close(); p.err == nil {
			p.err = err
		}
	}
}

func (p *printer) delimiter(boundary string) {
	p.line("")
	p.line("--" + boundary)
}

const width = 76 // of lines

func (p *printer) field(name, value string) { shown.Fill(p.line, width, name+": ", " ", value) }

func (p *printer) paragraph(indent, text string) { shown.Fill(p.line, width, indent, indent, text) }

// clean makes text from outside harmless, and ASCII if the notification is.
func (p *printer) clean(text string, most int) string {
	text = shown.Line(text, most, "")
	if p.utf8 {
		return text
	}
	return strings.Map(func(c rune) rune {
		if c > 127 {
			return '?'
		}
		return c
	}, text)
}

// name keeps of a text what may be in the name of a server or a type.
func (p *printer) name(text string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(`;()<>"\ `, c) {
			return -1
		}
		return c
	}, p.clean(text, maxName))
}

// mailbox writes an address for a header, quoted if necessary.
func (p *printer) mailbox(address, host string) string {
	address = p.clean(strings.Trim(address, "<>"), maxAddress)
	at := strings.LastIndexByte(address, '@')
	local, domain := address, p.domain(host)
	if at >= 0 {
		local, domain = address[:at], p.domain(address[at+1:])
	}
	if local == "" || local == `""` {
		local = "invalid"
	}
	if !isDotAtom(local) {
		local = quote(local)
	}
	return "<" + local + "@" + domain + ">"
}

// quote writes a local part, which may be quoted already, as a quoted string.
func quote(local string) string {
	quoted := len(local) >= 2 && local[0] == '"' && local[len(local)-1] == '"'
	if quoted {
		local = local[1 : len(local)-1]
	}
	var b strings.Builder
	b.WriteByte('"')
	escaped := false
	for _, c := range local {
		if quoted && c == '\\' && !escaped {
			escaped = true
			continue
		}
		escaped = false
		if c == '"' || c == '\\' {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	b.WriteByte('"')
	return b.String()
}

// domain keeps of a text what may be in a domain.
func (p *printer) domain(text string) string {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		if a, err := netip.ParseAddr(strings.TrimPrefix(inner, "IPv6:")); err == nil && a.Zone() == "" {
			return "[" + inner + "]"
		}
	}
	text = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune("-._", c),
			c > 127 && p.utf8:
			return c
		}
		return -1
	}, p.clean(text, maxName))
	if !isDotAtom(text) {
		return "invalid"
	}
	return text
}

const atom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~\\x{80}-\\x{10ffff}-]+"

var dotAtom = regexp.MustCompile(`^` + atom + `(\.` + atom + `)*$`)

// isDotAtom reports whether a part of an address needs no quotes (RFC 5322 section 3.2.3, RFC 6532).
func isDotAtom(text string) bool { return dotAtom.MatchString(text) }

// messageID returns that of the report, or a random one.
func messageID(r *Report) string {
	left, right, _ := strings.Cut(strings.Trim(r.MessageID, "<>"), "@")
	if !shown.ASCII(r.MessageID) || !isDotAtom(left) || len(left) > maxName || !isDotAtom(right) ||
		len(right) > maxName {
		left, right = random(), new(printer).domain(r.Host)
	}
	return left + "@" + right
}

func random() string { return "weir-" + rand.Text() }
