// Package roster reads lists of mail users and their contacts: CSV with a heading, and LDIF (RFC 2849).
//
// ReadCSV and ReadLDIF return the entries that can be used and, with its line, what is wrong with each of the others.
// They neither store anything nor know which names and addresses are valid.
package roster

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a list.
const (
	MaxEntries = 1_000_000
	MaxBytes   = 256 << 20
	MaxLine    = 64 << 10 // of LDIF, without the lines that it is folded into
	maxWrong   = 1000     // that are returned
	maxFields  = 1000     // of an entry
)

// An Entry is one user.
type Entry struct {
	Line     int // where it begins, from 1
	Name     string
	Contact  string
	Language string
}

// A Wrong is what cannot be used.
type Wrong struct {
	Line int
	Why  string
}

// Columns are what the fields of an entry are called, in any case.
type Columns struct{ Name, Contact, Language string }

// Errors of a list as a whole.
var (
	ErrLarge   = errors.New("roster: the list is too long")
	ErrHeading = errors.New("roster: the first line must name the columns")
)

// A List is what was read.
type List struct {
	Entries []Entry
	Wrong   []Wrong // at most 1,000
	Wrongs  int     // how many there are
}

func (l *List) wrong(line int, format string, args ...any) {
	if l.Wrongs++; len(l.Wrong) < maxWrong {
		l.Wrong = append(l.Wrong, Wrong{line, fmt.Sprintf(format, args...)})
	}
}

func (l *List) add(e Entry) error {
	if len(l.Entries) >= MaxEntries {
		return ErrLarge
	}
	switch {
	case e.Name == "":
		l.wrong(e.Line, "no name")
	case !utf8.ValidString(e.Name + e.Contact + e.Language):
		l.wrong(e.Line, "not text in UTF-8")
	default:
		l.Entries = append(l.Entries, e)
	}
	return nil
}

// set sets a field by the name of its column. Of several values of a name or a contact, the first one counts.
func (c *Columns) set(e *Entry, name, value string) {
	for _, f := range []struct {
		column string
		to     *string
	}{{c.Name, &e.Name}, {c.Contact, &e.Contact}, {c.Language, &e.Language}} {
		if f.column != "" && strings.EqualFold(name, f.column) && *f.to == "" {
			*f.to = strings.TrimSpace(value)
		}
	}
}

// ReadCSV reads lines of values separated by commas, or by semicolons where the heading has those.
func ReadCSV(r io.Reader, c Columns) (*List, error) {
	in := bufio.NewReader(&bounded{r: r, left: MaxBytes})
	first, err := in.Peek(min(in.Size(), 4096))
	if len(first) == 0 {
		return nil, errors.Join(ErrHeading, ignoreEOF(err))
	}
	if mark := []byte("\xef\xbb\xbf"); bytes.HasPrefix(first, mark) {
		_, _ = in.Discard(len(mark))
	}
	heading, _, _ := bytes.Cut(first, []byte("\n"))
	lines := csv.NewReader(in)
	lines.FieldsPerRecord, lines.ReuseRecord = -1, true
	if bytes.Count(heading, []byte(";")) > bytes.Count(heading, []byte(",")) {
		lines.Comma = ';'
	}
	record, err := lines.Read()
	if err != nil {
		return nil, errors.Join(ErrHeading, err)
	}
	columns := slices.Clone(record)
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	has := func(name string) bool {
		return slices.ContainsFunc(columns, func(column string) bool { return strings.EqualFold(column, name) })
	}
	if !has(c.Name) || !has(c.Contact) {
		return nil, fmt.Errorf("%w: %s and %s, and perhaps %s", ErrHeading, c.Name, c.Contact, c.Language)
	}
	l := &List{}
	for {
		record, err := lines.Read()
		var wrong *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return l, nil
		case errors.As(err, &wrong):
			l.wrong(wrong.StartLine, "%v", wrong.Err)
			continue
		case err != nil:
			return l, err
		}
		line, _ := lines.FieldPos(0)
		if len(record) > len(columns) {
			l.wrong(line, "%d values, but %d columns", len(record), len(columns))
			continue
		}
		e := Entry{Line: line}
		for i, value := range record {
			c.set(&e, columns[i], value)
		}
		if err := l.add(e); err != nil {
			return l, err
		}
	}
}

// ReadLDIF reads entries as directories export them. Entries without a name, as of organisations, are passed over.
func ReadLDIF(r io.Reader, c Columns) (*List, error) {
	l, in := &List{}, bufio.NewReader(&bounded{r: r, left: MaxBytes})
	var e Entry
	var text []byte // of the line, unfolded
	at, began, fields, bad := 0, 0, 0, ""
	take := func() { // the line is complete
		line := string(text)
		if text = text[:0]; line == "" || line[0] == '#' || bad != "" {
			return
		}
		name, value, found := strings.Cut(line, ":")
		fields++
		switch {
		case !found:
			bad = "a line without a colon"
		case fields > maxFields:
			bad = "too many lines"
		case strings.HasPrefix(value, "<"):
			value = "" // a file that is named instead of a value is not read
		case strings.HasPrefix(value, ":"):
			b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value[1:]))
			if value = string(b); err != nil {
				bad = "not base64: " + name
			}
		}
		if strings.EqualFold(name, "changetype") && strings.TrimSpace(value) != "add" {
			bad = "a change, not an entry"
		}
		name, _, _ = strings.Cut(name, ";") // of options, as in mail;lang-de
		c.set(&e, name, value)
	}
	end := func() error { // the entry is complete
		take()
		e.Line = began
		var err error
		switch {
		case bad != "":
			l.wrong(began, "%s", bad)
		case e.Name != "":
			err = l.add(e)
		}
		e, began, fields, bad = Entry{}, 0, 0, ""
		return err
	}
	for {
		line, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return l, err
		}
		for more := err; errors.Is(more, bufio.ErrBufferFull); { // no value of ours is that long
			bad = "a line that is too long"
			_, more = in.ReadSlice('\n')
			err = more
		}
		at++
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) > 0 && line[0] == ' ':
			if text = append(text, line[1:]...); len(text) > MaxLine {
				bad, text = "a line that is too long", text[:0]
			}
		case len(line) == 0:
			if err := end(); err != nil {
				return l, err
			}
		default:
			take()
			if began == 0 && line[0] != '#' {
				began = at
			}
			text = append(text, line...)
		}
		if errors.Is(err, io.EOF) {
			return l, end()
		}
		if err != nil {
			return l, err
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// A bounded reader returns ErrLarge after a number of bytes.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, ErrLarge
	}
	return n, err
}
