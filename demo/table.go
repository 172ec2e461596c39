package demo

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// A tint is a colour, by what it means.
type tint string

const (
	plainly tint = ""
	good    tint = "32"
	warn    tint = "33"
	bad     tint = "31"
	faint   tint = "2"
	head    tint = "1"
)

// ink says whether there are colours.
type ink bool

func (i ink) paint(t tint, text string) string {
	if !i || t == plainly || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// A table has aligned columns. A row of one cell goes across all of them.
type table struct {
	columns []column
	rows    [][]cell
}

// A column of a table. Where there is not enough room, the one with the highest rank is left out first; rank 0 always stays.
type column struct {
	head  string
	right bool
	rank  int
}

type cell struct {
	text string
	tint tint
}

const gap = 2

// width returns how wide the table is.
func (t *table) width() int { return total(t.widths()) }

func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.head)
		for _, r := range t.rows {
			if len(r) > 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(r[i].text))
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

// lines writes the table, in no more than width if that can be done. A width of 0 is no bound.
func (t *table) lines(width int, ink ink) []string {
	widths := t.widths()
	for width > 0 && total(widths) > width {
		last := -1
		for i, c := range t.columns {
			if c.rank > 0 && widths[i] > 0 && (last < 0 || c.rank > t.columns[last].rank) {
				last = i
			}
		}
		if last < 0 {
			break
		}
		widths[last] = 0
	}
	heads := make([]cell, len(t.columns))
	for i, c := range t.columns {
		heads[i] = cell{c.head, head}
	}
	lines := []string{t.line(heads, widths, ink)}
	for _, r := range t.rows {
		if len(r) == 1 {
			lines = append(lines, ink.paint(r[0].tint, r[0].text))
			continue
		}
		lines = append(lines, t.line(r, widths, ink))
	}
	return lines
}

func (t *table) line(cells []cell, widths []int, ink ink) string {
	var b strings.Builder
	pending := 0 // spaces that are written only when something follows
	for i, c := range cells {
		if widths[i] == 0 {
			continue
		}
		text := strings.TrimRight(c.text, " ")
		pad := widths[i] - utf8.RuneCountInString(text)
		if t.columns[i].right {
			pending, pad = pending+pad, 0
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", pending) + ink.paint(c.tint, text))
			pending = 0
		}
		pending += pad + gap
	}
	return b.String()
}

// visible returns how many columns a text takes on a terminal.
func visible(text string) int {
	n := 0
	for _, escape := range glyphs(text) {
		if !escape {
			n++
		}
	}
	return n
}

// clip cuts a text to a number of columns. Escape sequences take none and are kept, so that no colour runs on.
func clip(text string, width int) string {
	var b strings.Builder
	n := 0
	for part, escape := range glyphs(text) {
		if !escape {
			n++
		}
		if escape || n <= width {
			b.WriteString(part)
		}
	}
	return b.String()
}

// glyphs walks over the runes and the escape sequences for colours of a text.
func glyphs(text string) iter.Seq2[string, bool] {
	return func(yield func(part string, escape bool) bool) {
		for len(text) > 0 {
			n, escape := 0, strings.HasPrefix(text, "\x1b[")
			if escape {
				if n = strings.IndexByte(text, 'm') + 1; n == 0 {
					n = len(text)
				}
			} else {
				_, n = utf8.DecodeRuneInString(text)
			}
			if !yield(text[:n], escape) {
				return
			}
			text = text[n:]
		}
	}
}
