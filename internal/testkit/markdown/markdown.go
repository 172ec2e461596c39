// Package markdown reads the pages of the project, for tests of what they say.
package markdown

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// A Page is one Markdown file.
type Page struct {
	Path   string // from the root, with slashes
	Blocks []Block
	Prose  []Line // what is not in a block
}

// A Block is a fenced piece of text.
type Block struct {
	Page string
	Line int      // of its first line
	Info []string // the words after the backticks
	Text string
}

// A Line is one line of the prose.
type Line struct {
	Number int
	Text   string
}

// At is where the block stands.
func (b *Block) At() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Is reports whether a block is of a language, and marked with a word; "" for none.
func (b *Block) Is(lang, mark string) bool {
	switch len(b.Info) {
	case 1:
		return b.Info[0] == lang && mark == ""
	case 2:
		return b.Info[0] == lang && b.Info[1] == mark
	}
	return false
}

// Pages reads every Markdown file below a folder, that of the project.
func Pages(root string) (all []Page, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		p, err := Parse(filepath.ToSlash(rel), string(text))
		all = append(all, p)
		return err
	})
	if err == nil && len(all) < 5 {
		err = fmt.Errorf("only %d pages found: is %s the root?", len(all), root)
	}
	return all, err
}

// Parse splits a page into blocks and prose. An indented command counts as a block too.
func Parse(path, text string) (Page, error) {
	p := Page{Path: path}
	var open *Block
	for i, s := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(strings.TrimSpace(s), "```")
		switch {
		case fence && open == nil:
			open = &Block{Page: path, Line: i + 2, Info: strings.Fields(info)}
		case fence:
			p.Blocks = append(p.Blocks, *open)
			open = nil
		case open != nil:
			open.Text += s + "\n"
		default:
			p.Prose = append(p.Prose, Line{i + 1, s})
			if command, indented := strings.CutPrefix(s, "    weir "); indented {
				p.Blocks = append(p.Blocks,
					Block{Page: path, Line: i + 1, Info: []string{"sh"}, Text: "weir " + command})
			}
		}
	}
	if open != nil {
		return p, fmt.Errorf("%s: the block is never closed", open.At())
	}
	return p, nil
}

var (
	// InlineCode is code in a line of the prose.
	InlineCode = regexp.MustCompile("`[^`]*`")
	// LinkMarkup is a link, with its words first.
	LinkMarkup = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Anchors returns the names of a page's headings, as links write them.
func (p *Page) Anchors() map[string]bool {
	all := map[string]bool{}
	for _, l := range p.Prose {
		level := len(l.Text) - len(strings.TrimLeft(l.Text, "#"))
		if level == 0 || level > 6 || !strings.HasPrefix(l.Text[level:], " ") {
			continue
		}
		name := slug(l.Text[level:])
		for n, base := 1, name; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		all[name] = true
	}
	return all
}

// slug turns a heading into the name that links write.
func slug(heading string) string {
	heading = LinkMarkup.ReplaceAllString(strings.TrimSpace(heading), "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
