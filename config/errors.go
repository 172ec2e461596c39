package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"weir"
	"weir/internal/yamltree"
)

// An Error is one mistake in a configuration, with its position.
type Error struct {
	File   string // as it was named to Load or Parse
	Line   int    // from 1; 0 when the mistake is about the file as a whole
	Column int    // from 1, in characters
	Msg    string // what is wrong
	Hint   string // what to write instead, where that is known

	source string // the line that it stands on
	cause  error
	final  bool // reading on is useless
}

// Error returns it on one line, as in: weir.yaml:12:7: unknown key "lmit" (did you mean "limit"?)
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap returns what the system said, for a file that could not be read.
func (e *Error) Unwrap() error { return e.cause }

// Explain returns it for people: the message, the source line below it and a caret under the column.
func (e *Error) Explain() string {
	if e.Line == 0 {
		return e.Error() + "\n"
	}
	line, column := excerpt(e.source, e.Column)
	margin := fmt.Sprintf("%6d", e.Line)
	return fmt.Sprintf("%s\n%s | %s\n%*s | %s^\n", e.Error(), margin, line, len(margin), "",
		strings.Repeat(" ", column-1))
}

// excerpt cuts a long line down to what stands around a column and makes every character one column wide.
func excerpt(line string, column int) (string, int) {
	const width, before = 120, 60
	runes := []rune(line)
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = ' '
		}
	}
	column = min(column, len(runes)+1)
	if len(runes) > width && column > before {
		cut := column - before
		runes, column = runes[cut:], column-cut
	}
	if len(runes) > width {
		runes = runes[:width]
	}
	return string(runes), column
}

// Errors are all the mistakes in a configuration, in the order of the file.
type Errors []*Error

// Error returns one mistake per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Explain returns every mistake with its source line and a caret under the column.
func (e Errors) Explain() string {
	var b strings.Builder
	for _, one := range e {
		b.WriteString(one.Explain())
	}
	return b.String()
}

// Unwrap returns the mistakes for errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// MaxErrors is how many mistakes are reported; the rest is only counted.
const MaxErrors = 200

// tidy sorts the mistakes by position, drops repetitions and bounds their number.
func (e Errors) tidy() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Msg, b.Msg))
	})
	e = slices.CompactFunc(e, func(a, b *Error) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Msg == b.Msg
	})
	if more := len(e) - MaxErrors; more > 0 {
		last := *e[MaxErrors]
		last.Msg, last.Hint = fmt.Sprintf("%d more errors from here on", more), ""
		e = append(e[:MaxErrors:MaxErrors], &last)
	}
	return e
}

// At puts mistakes that were found after a file was loaded at their lines. The file is read again; if it cannot be,
// they have no lines.
func At(path string, all []*weir.FieldError) (errs Errors) {
	data, err := readFile(path)
	text := strings.TrimPrefix(string(data), "\uFEFF")
	var root *yamltree.Node
	if err == nil && len(data) <= MaxFile && yamltree.Readable(text) == nil {
		root, _, _ = sections(text)
	}
	if root == nil {
		for _, fe := range all {
			errs = append(errs, &Error{File: path, Msg: fe.Error()})
		}
		return errs
	}
	for _, fe := range all {
		p := locate(root, fe.Path)
		if fe.Path == "" || len(p.nodes) == 1 { // it is about no line
			errs = append(errs, &Error{File: path, Msg: fe.Error()})
			continue
		}
		s := source{name: path, lines: strings.Split(text, "\n")}
		errs = append(errs, s.annotate(Errors{mistake(p.at, fe.Msg, fe.Hint)})...)
	}
	return errs
}
