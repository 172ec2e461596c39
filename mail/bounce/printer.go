package bounce

import (
	"crypto/rand"
	"io"
	"mime/quotedprintable"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	date = "Mon, 02 Jan 2006 15:04:05 -0700"

	width   = 76  // of lines, where words allow it
	longest = 900 // bytes of a line in any case; SMTP ends at 998
)

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

// coded writes in quoted-printable, in which all characters may stand, until the function is called that it returns.
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

func (p *printer) field(name, value string) { p.fill(name+": ", " ", value) }

// paragraph writes text for people, in lines.
func (p *printer) paragraph(indent, text string) { p.fill(indent, indent, text) }

// fill breaks text between words, and words that are longer than a line may be.
func (p *printer) fill(first, others, text string) {
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		for len(word) > longest {
			cut := longest
			for cut > 1 && !utf8.RuneStart(word[cut]) {
				cut--
			}
			if !empty {
				p.line(line)
				line = others
			}
			p.line(line + word[:cut])
			line, empty, word = others, true, word[cut:]
		}
		if !empty && len(line)+1+len(word) > width {
			p.line(line)
			line, empty = others, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	if !empty || line == first {
		p.line(strings.TrimRight(line, " "))
	}
}

// clean makes text from outside harmless: one line, no control characters and nothing that turns the direction of
// writing, not longer than most characters, and in ASCII where the notification is.
func (p *printer) clean(text string, most int) string {
	text = clean(text, most)
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

func clean(text string, most int) string {
	var b strings.Builder
	n, space := 0, false
	for _, c := range text {
		switch {
		case unicode.IsSpace(c) || c == 0: // no words grow together
			space = n > 0
			continue
		case !unicode.IsPrint(c):
			continue
		}
		if n++; n > most {
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(c)
	}
	return b.String()
}

// name cleans the name of a server, or of a type, to what stands in such names.
func (p *printer) name(text, instead string) string {
	text = strings.Map(func(c rune) rune {
		if c == ';' || c == '(' || c == ')' || c == '<' || c == '>' || c == '"' || c == '\\' || c == ' ' {
			return -1
		}
		return c
	}, p.clean(text, maxName))
	if text == "" {
		return instead
	}
	return text
}

// mailbox writes an address for a header, quoted where it must be.
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

// quote writes a local part as a quoted string, also where it is one already.
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

// domain keeps of a domain what can stand there.
func (p *printer) domain(text string) string {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		if a, err := netip.ParseAddr(strings.TrimPrefix(inner, "IPv6:")); err == nil && a.Zone() == "" {
			return "[" + inner + "]"
		}
	}
	text = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.', c == '_', c > 127 &&
			p.utf8:
			return c
		}
		return -1
	}, p.clean(text, maxName))
	if !isDotAtom(text) {
		return "invalid"
	}
	return text
}

// isDotAtom reports whether text stands in an address as it is (RFC 5322 section 3.2.3, RFC 6532).
func isDotAtom(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" {
			return false
		}
		for _, c := range part {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c > 127 ||
				strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", c)) {
				return false
			}
		}
	}
	return true
}

// messageID returns the report's, or one by chance.
func messageID(r *Report) string {
	p := printer{}
	left, right, _ := strings.Cut(strings.Trim(r.MessageID, "<>"), "@")
	if !ascii(r.MessageID) || !isDotAtom(left) || len(left) > maxName || !isDotAtom(right) || len(right) > maxName {
		left, right = chance(), p.domain(r.Host)
	}
	return left + "@" + right
}

func chance() string { return "weir-" + rand.Text() }

func ascii(text string) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c > 127 }) < 0
}
