package payer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"slices"
	"strings"

	"weir/identify"
	"weir/throttle/stamp"
)

// Bounds of a mail that is stamped.
const (
	MaxMail       = 64 << 20
	MaxMailHeader = 1 << 20
	// MaxRecipients is how many recipients a mail may have: no more stamps are looked at.
	MaxRecipients = stamp.MaxMailStamps
	maxAddress    = identify.MaxRecipient
)

// What is wrong with a mail as a whole. A MailError says what is wrong with a line of it.
var (
	ErrNoMail      = errors.New("payer: there is no message")
	ErrMailSize    = fmt.Errorf("payer: the message is larger than %d MiB", MaxMail>>20)
	ErrHeaderSize  = fmt.Errorf("payer: the header of the message is larger than %d KiB", MaxMailHeader>>10)
	ErrNoRecipient = errors.New("payer: the message has no recipient")
	ErrRecipients  = fmt.Errorf("payer: the message has more than %d recipients", MaxRecipients)
	ErrAddress     = errors.New("payer: not an address")
	ErrStale       = errors.New("payer: the parameters are out of date")
)

// A MailError is a mistake in the header of a mail.
type MailError struct {
	Line int // from 1
	Msg  string
}

func (e *MailError) Error() string {
	return fmt.Sprintf("payer: line %d of the message: %s", e.Line, e.Msg)
}

// A Mail is a message on its way to sendmail. Most callers want ReadMail, Stamp and WriteTo. Its bytes stay as they
// are, line ends included; only stamps are put in before its header, and old ones taken out. It is for one goroutine.
type Mail struct {
	envelope []byte // the "From " line of a mailbox, which sendmail takes, too
	fields   []mailField
	rest     []byte // the empty line and the body
	body     []byte
	lineEnd  string
	stamps   []string
}

// A mailField is a field of the header, as it was written.
type mailField struct {
	name string // in lower case
	raw  []byte
	line int
}

// ReadMail reads a message to its end.
func ReadMail(r io.Reader) (*Mail, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxMail+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > MaxMail:
		return nil, ErrMailSize
	case len(text) == 0:
		return nil, ErrNoMail
	}
	return parseMail(text)
}

// parseMail takes a message apart. It is strict about the header (RFC 5322 section 2.2): a field that is not one may be
// the beginning of the body, and then everything after it would be stamped wrongly.
func parseMail(text []byte) (*Mail, error) {
	m := &Mail{lineEnd: "\r\n", rest: text}
	if first, _, _ := bytes.Cut(text, []byte("\n")); !bytes.HasSuffix(first, []byte("\r")) {
		m.lineEnd = "\n"
	}
	for line, read := 1, 0; len(m.rest) > 0; line++ {
		raw := m.rest
		if end := bytes.IndexByte(raw, '\n'); end >= 0 {
			raw = raw[:end+1]
		}
		content := bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))
		if len(content) == 0 {
			m.body = m.rest[len(raw):]
			break
		}
		if read += len(raw); read > MaxMailHeader {
			return nil, ErrHeaderSize
		}
		if bytes.ContainsAny(content, "\x00\r") {
			return nil, &MailError{line, "has a character that no header may have"}
		}
		m.rest = m.rest[len(raw):]
		switch name, ok := fieldName(content); {
		case line == 1 && bytes.HasPrefix(content, []byte("From ")):
			m.envelope = raw
		case content[0] == ' ' || content[0] == '\t':
			if len(m.fields) == 0 {
				return nil, &MailError{line, "goes on with a header field that has not begun"}
			}
			// Fields lie one behind the other in the text: a longer slice has the next line, too.
			last := &m.fields[len(m.fields)-1]
			last.raw = last.raw[:len(last.raw)+len(raw)]
		case !ok:
			return nil, &MailError{line, "is not a header field; an empty line ends the header"}
		default:
			m.fields = append(m.fields, mailField{name, raw, line})
		}
	}
	if len(m.fields) == 0 {
		return nil, &MailError{1, "the message has no header"}
	}
	return m, nil
}

// fieldName is the name of the header field that a line begins. Old software puts a space before the colon.
func fieldName(line []byte) (string, bool) {
	name, _, found := bytes.Cut(line, []byte(":"))
	name = bytes.TrimRight(name, " \t")
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return "", false
		}
	}
	return strings.ToLower(string(name)), found && len(name) > 0
}

// addresses reads what stands in To and its like. The names may be in any charset: they do not matter.
var addresses = mail.AddressParser{WordDecoder: &mime.WordDecoder{
	CharsetReader: func(_ string, r io.Reader) (io.Reader, error) { return r, nil },
}}

// unfold makes one line of a header field.
var unfold = strings.NewReplacer("\r\n", "", "\n", "")

// Recipients returns the addresses in To, Cc and Bcc, or in the fields of the same names with Resent-
// before it where there is one: as sendmail -t reads it. Each is named once.
func (m *Mail) Recipients() ([]string, error) {
	prefix := ""
	for _, f := range m.fields {
		if strings.HasPrefix(f.name, "resent-") && isAddressee(f.name, "resent-") {
			prefix = "resent-"
		}
	}
	var all []string
	for _, f := range m.fields {
		if !isAddressee(f.name, prefix) {
			continue
		}
		_, value, _ := strings.Cut(unfold.Replace(string(f.raw)), ":")
		if strings.TrimSpace(value) == "" {
			continue
		}
		list, err := addresses.ParseList(value)
		if err != nil {
			return nil, &MailError{f.line,
				"cannot be read as a list of addresses: " + strings.TrimPrefix(err.Error(), "mail: ")}
		}
		for _, a := range list {
			if len(a.Address) > maxAddress {
				return nil, &MailError{f.line, "has an address that is too long"}
			}
			all = append(all, strings.ToLower(a.Address))
		}
	}
	return once(all)
}

func isAddressee(name, prefix string) bool {
	return name == prefix+"to" || name == prefix+"cc" || name == prefix+"bcc"
}

// StripBcc takes Bcc out of the header.
func (m *Mail) StripBcc() {
	m.remove("bcc")
	m.remove("resent-bcc")
}

func (m *Mail) remove(name string) int {
	before := len(m.fields)
	m.fields = slices.DeleteFunc(m.fields, func(f mailField) bool { return f.name == name })
	return before - len(m.fields)
}

// WriteTo writes the message with its stamps.
func (m *Mail) WriteTo(w io.Writer) (n int64, err error) {
	parts := [][]byte{m.envelope}
	for _, s := range m.stamps {
		parts = append(parts, []byte(strings.ReplaceAll(stamp.FoldMailHeader(s), "\r\n", m.lineEnd)))
	}
	for _, f := range m.fields {
		parts = append(parts, f.raw)
	}
	for _, p := range append(parts, m.rest) {
		k, err := w.Write(p)
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}
