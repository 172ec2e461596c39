// Package tabular writes tables for people: aligned, in color if the terminal has it, and narrower if there is little
// space.
package tabular

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Tint is a colour, by what it means.
type Tint string

// What colours mean.
const (
	Plain Tint = ""
	Good  Tint = "32"
	Warn  Tint = "33"
	Bad   Tint = "31"
	Faint Tint = "2"
	Head  Tint = "1"
)

// Ink says whether colours are used.
type Ink bool

// Paint colours text, if colours are used.
func (i Ink) Paint(t Tint, text string) string {
	if !i || t == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// A Table has aligned columns. A row of one cell goes across all of them.
type Table struct {
	Columns []Column
	Rows    [][]Cell
}

// A Column of a table. If there is not enough space, the one with the highest rank is left out first. Rank 0 always
// stays.
type Column struct {
	Head  string
	Right bool // aligned to the right, as numbers are
	Rank  int
}

type Cell struct {
	Text string
	Tint Tint
}

// Text returns a cell without a colour.
func Text(text string) Cell { return Cell{Text: text} }

// Tinted returns a cell with a colour.
func Tinted(tint Tint, text string) Cell { return Cell{Text: text, Tint: tint} }

const gap = 2

// Width returns how wide the table is.
func (t *Table) Width() int { return total(t.widths()) }

func (t *Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c.Head)
		for _, r := range t.Rows {
			if len(r) > 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(r[i].Text))
			}
		}
	}
	return widths
}

// total adds widths up, with the gaps between them. A column of width 0 is left out.
func total(widths []int) int {
	sum := -gap
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return sum
}

// Drop removes a column, where it says nothing.
func (t *Table) Drop(head string) {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Head == head })
	t.Columns = slices.Delete(t.Columns, i, i+1)
	for j, cells := range t.Rows {
		if len(cells) > 1 {
			t.Rows[j] = slices.Delete(cells, i, i+1)
		}
	}
}

// Lines writes the table, in no more than width if that can be done. A width of 0 is no bound.
func (t *Table) Lines(width int, ink Ink) []string {
	widths := t.widths()
	for width > 0 && total(widths) > width {
		last := -1
		for i, c := range t.Columns {
			if c.Rank > 0 && widths[i] > 0 && (last < 0 || c.Rank > t.Columns[last].Rank) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		widths[last] = 0
	}
	heads := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = Tinted(Head, c.Head)
	}
	lines := []string{t.line(heads, widths, ink)}
	for _, r := range t.Rows {
		if len(r) == 1 {
			lines = append(lines, ink.Paint(r[0].Tint, r[0].Text))
			continue
		}
		lines = append(lines, t.line(r, widths, ink))
	}
	return lines
}

func (t *Table) line(cells []Cell, widths []int, ink Ink) string {
	var b strings.Builder
	pending := 0 // spaces that are written only when something follows
	for i, c := range cells {
		if widths[i] == 0 {
			continue
		}
		text := strings.TrimRight(c.Text, " ")
		pad := widths[i] - utf8.RuneCountInString(text)
		if t.Columns[i].Right {
			pending, pad = pending+pad, 0
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", pending) + ink.Paint(c.Tint, text))
			pending = 0
		}
		pending += pad + gap
	}
	return b.String()
}
