package main

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// A terminal is where commands write.
type terminal struct {
	out, err io.Writer
	colour   bool // on out
	errTTY   bool // err is a terminal
}

// newTerminal looks at where the output goes: colour is for people (https://no-color.org).
func newTerminal(out, err *os.File) *terminal {
	return &terminal{
		out: out, err: err,
		colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(out.Fd())),
		errTTY: term.IsTerminal(int(err.Fd())),
	}
}

// json writes v for scripts.
func (t *terminal) json(v any) error {
	e := json.NewEncoder(t.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// A tint is a colour, by what it means.
type tint string

const (
	plain tint = ""
	good  tint = "32"
	warn  tint = "33"
	bad   tint = "31"
	faint tint = "2"
	head  tint = "1"
)

// paint colours text on a terminal that has colours.
func (t *terminal) paint(c tint, text string) string {
	if !t.colour || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// A cell of a table.
type cell struct {
	text  string
	tint  tint
	right bool
}

func text(s string) cell { return cell{text: s} }
func number[T int | int64 | uint64](n T) cell {
	return cell{text: strconv.FormatInt(int64(n), 10), right: true}
}

// A table is written with aligned columns.
type table struct {
	heads []string
	rows  [][]cell
}

func (b *table) row(cells ...cell) { b.rows = append(b.rows, cells) }

// write writes the table; columns of numbers stand to the right.
func (t *terminal) write(b *table) {
	heads := make([]cell, len(b.heads))
	for i, h := range b.heads {
		heads[i] = cell{text: strings.ToUpper(h), tint: head, right: len(b.rows) > 0 && b.rows[0][i].right}
	}
	rows := append([][]cell{heads}, b.rows...)
	widths := make([]int, len(heads))
	for _, r := range rows {
		for i := range r {
			r[i].text = printable(r[i].text)
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i].text))
		}
	}
	var line strings.Builder
	for _, r := range rows {
		line.Reset()
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			switch {
			case c.right:
				line.WriteString(pad + t.paint(c.tint, c.text))
			case i == len(r)-1:
				line.WriteString(t.paint(c.tint, c.text))
			default:
				line.WriteString(t.paint(c.tint, c.text) + pad)
			}
			if i < len(r)-1 {
				line.WriteString("  ")
			}
		}
		io.WriteString(t.out, strings.TrimRight(line.String(), " ")+"\n")
	}
}

// printable shows what a terminal would obey: names come from clients.
func printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 && utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}
