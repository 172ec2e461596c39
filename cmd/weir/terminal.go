package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"weir/internal/tabular"
)

// A terminal is where commands write, and ask.
type terminal struct {
	in       io.Reader
	inTTY    bool // in is a terminal
	out, err io.Writer
	colour   bool // on out
	outTTY   bool // out is a terminal
	errTTY   bool // err is a terminal
}

// newTerminal uses colour only on terminals (https://no-color.org).
func newTerminal(out, err *os.File) *terminal {
	return &terminal{
		in: os.Stdin, inTTY: term.IsTerminal(int(os.Stdin.Fd())),
		out: out, err: err,
		colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd())),
		outTTY: os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd())),
		errTTY: term.IsTerminal(int(err.Fd())),
	}
}

// An output keeps why something could not be written: commands print, and do not look at every error.
type output struct {
	io.Writer
	mu  sync.Mutex
	err error
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.Writer.Write(text)
	o.err = cmp.Or(o.err, err)
	return n, err
}

// unwritten returns why a part of what the command printed is lost, if it is.
func (t *terminal) unwritten() error {
	o, ok := t.out.(*output)
	if !ok {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return fmt.Errorf("the output cannot be written: %w", o.err)
	}
	return nil
}

func (t *terminal) json(v any) error {
	e := json.NewEncoder(t.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (t *terminal) paint(c tabular.Tint, text string) string {
	return tabular.Ink(t.colour).Paint(c, text)
}

type cell struct {
	text  string
	tint  tabular.Tint
	right bool
}

func text(s string) cell { return cell{text: s} }
func number[T int | int64 | uint64](n T) cell {
	return cell{text: strconv.FormatInt(int64(n), 10), right: true}
}

type table struct {
	heads []string
	rows  [][]cell
}

func (b *table) row(cells ...cell) { b.rows = append(b.rows, cells) }

// write writes the table. Columns of numbers are aligned to the right.
func (t *terminal) write(b *table) {
	var aligned tabular.Table
	for i, h := range b.heads {
		aligned.Columns = append(aligned.Columns,
			tabular.Column{Head: strings.ToUpper(h), Right: len(b.rows) > 0 && b.rows[0][i].right})
	}
	for _, row := range b.rows {
		var cells []tabular.Cell
		for _, c := range row {
			cells = append(cells, tabular.Cell{Text: printable(c.text), Tint: c.tint})
		}
		aligned.Rows = append(aligned.Rows, cells)
	}
	for _, line := range aligned.Lines(0, tabular.Ink(t.colour)) {
		io.WriteString(t.out, line+"\n")
	}
}

// section writes a heading, and a table below it unless that is nil.
func (t *terminal) section(head string, b *table) {
	io.WriteString(t.out, "\n"+t.paint(tabular.Head, head)+"\n")
	if b != nil {
		t.write(b)
	}
}

// printable quotes control characters, which a terminal would obey: names come from clients.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}
