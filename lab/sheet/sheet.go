// Package sheet shows what a study has found: on a terminal, and as one page of HTML that needs nothing else: no
// network, no scripts, no fonts.
package sheet

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"weir/internal/plot"
	"weir/internal/tabular"
)

// A Sheet has the parts of every study: the result in a sentence, key figures, tables and plots, and how to read them.
type Sheet struct {
	Command  string // that wrote it, such as simulate mail
	Title    string
	About    []string // what was looked at
	Verdict  []string
	Tiles    []Tile
	Sections []Section
	Readings []string // on the page alone
	Names    string   // what the page gives away
}

// A Tile is a key figure.
type Tile struct{ Value, Name, Note string }

// A Section is shown on a terminal without its plots.
type Section struct {
	ID, Title, Note string
	Text            []string
	Table           *tabular.Table
	Code            string
	Plots           []*plot.Plot
}

var (
	//go:embed sheet.html
	html string
	//go:embed sheet.css
	css string

	page = template.Must(template.New("sheet").Funcs(template.FuncMap{"class": class}).Parse(html))
)

// class is how a cell is shown on the page: numbers on the right.
func class(c tabular.Column, cell tabular.Cell) string {
	name := map[tabular.Tint]string{tabular.Good: "good", tabular.Bad: "bad"}[cell.Tint]
	if c.Right {
		name += " n"
	}
	return name
}

// Page writes the sheet as a page.
func (s *Sheet) Page(w io.Writer) error {
	err := page.Execute(w, struct {
		*Sheet
		Style template.CSS
	}{s, template.CSS(plot.CSS + css)})
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// readable is how long a line of text is at most.
const readable = 100

// Lines shows the sheet on a terminal, in no more than width where that is possible. A width of 0 is no bound. What is
// shown goes through printable first: names come from others.
func (s *Sheet) Lines(width int, ink tabular.Ink, printable func(string) string) (lines []string) {
	wide := readable
	if width > 0 {
		wide = min(wide, width)
	}
	text := func(paragraphs []string) {
		for _, p := range paragraphs {
			lines = append(lines, tabular.Wrap(printable(p), wide)...)
		}
	}
	text(s.About)
	if len(s.Verdict) > 0 {
		lines = append(lines, "")
		text(s.Verdict)
	}
	if len(s.Tiles) > 0 {
		t := tabular.Table{Columns: []tabular.Column{{}, {Right: true}, {Rank: 1}}}
		for _, tile := range s.Tiles {
			t.Rows = append(t.Rows, []tabular.Cell{tabular.Text(tile.Name), tabular.Tinted(tabular.Head, tile.Value),
				tabular.Tinted(tabular.Faint, tile.Note)})
		}
		lines = append(lines, t.Lines(width, ink)...) // the empty line of heads is between them
	}
	for _, c := range s.Sections {
		if len(c.Text) == 0 && c.Table == nil {
			continue
		}
		lines = append(lines, "", ink.Paint(tabular.Head, c.Title))
		text(c.Text)
		if c.Table != nil {
			lines = append(lines, onTerminal(c.Table, printable).Lines(width, ink)...)
		}
		if c.Code != "" {
			lines = append(lines, "", strings.TrimRight(c.Code, "\n"))
		}
	}
	return lines
}

// onTerminal is a table as terminals show it.
func onTerminal(t *tabular.Table, printable func(string) string) *tabular.Table {
	shown := &tabular.Table{}
	for _, c := range t.Columns {
		c.Head = strings.ToUpper(c.Head)
		shown.Columns = append(shown.Columns, c)
	}
	for _, row := range t.Rows {
		var cells []tabular.Cell
		for _, c := range row {
			cells = append(cells, tabular.Tinted(c.Tint, printable(c.Text)))
		}
		shown.Rows = append(shown.Rows, cells)
	}
	return shown
}

// Grid makes a table. Its first column is on the left, the others are numbers.
func Grid(heads []string, rows ...[]string) *tabular.Table {
	t := &tabular.Table{}
	for i, h := range heads {
		t.Columns = append(t.Columns, tabular.Column{Head: h, Right: i > 0})
	}
	for _, row := range rows {
		AddRow(t, row...)
	}
	return t
}

// AddRow adds a row without colours.
func AddRow(t *tabular.Table, texts ...string) {
	var row []tabular.Cell
	for _, text := range texts {
		row = append(row, tabular.Text(text))
	}
	t.Rows = append(t.Rows, row)
}
