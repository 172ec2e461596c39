package docstest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// root is the folder of the module, seen from this one.
const root = "../.."

// A page is one Markdown file.
type page struct {
	path   string // from the root, with slashes
	blocks []block
	prose  []line // what is not in a block
}

// A block is a fenced piece of text.
type block struct {
	page string
	line int      // of its first line
	info []string // the words after the backticks
	text string
}

type line struct {
	number int
	text   string
}

func (b *block) at() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// lang returns the language of the block and whether it is marked with a word.
func (b *block) is(lang, mark string) bool {
	switch len(b.info) {
	case 1:
		return b.info[0] == lang && mark == ""
	case 2:
		return b.info[0] == lang && b.info[1] == mark
	}
	return false
}

// pages reads every Markdown file of the project.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
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
		p, err := parse(filepath.ToSlash(rel), string(text))
		if err != nil {
			t.Error(err)
		}
		all = append(all, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("only %d pages found: is %s the root?", len(all), root)
	}
	return all
}

// parse splits a page into blocks and prose. An indented command counts as a block too.
func parse(path, text string) (page, error) {
	p := page{path: path}
	var open *block
	for i, s := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(strings.TrimSpace(s), "```")
		switch {
		case fence && open == nil:
			open = &block{page: path, line: i + 2, info: strings.Fields(info)}
		case fence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += s + "\n"
		default:
			p.prose = append(p.prose, line{i + 1, s})
			if command, indented := strings.CutPrefix(s, "    weir "); indented {
				p.blocks = append(p.blocks,
					block{page: path, line: i + 1, info: []string{"sh"}, text: "weir " + command})
			}
		}
	}
	if open != nil {
		return p, fmt.Errorf("%s: the block is never closed", open.at())
	}
	return p, nil
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	linkMarkup = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors returns the names of a page's headings, as links write them.
func (p *page) anchors() map[string]bool {
	all := map[string]bool{}
	for _, l := range p.prose {
		level := len(l.text) - len(strings.TrimLeft(l.text, "#"))
		if level == 0 || level > 6 || !strings.HasPrefix(l.text[level:], " ") {
			continue
		}
		name := slug(l.text[level:])
		for n, base := 1, name; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		all[name] = true
	}
	return all
}

// slug turns a heading into the name that links write.
func slug(heading string) string {
	heading = linkMarkup.ReplaceAllString(strings.TrimSpace(heading), "$1")
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

func TestSlug(t *testing.T) {
	for heading, want := range map[string]string{
		"Who asks":                "who-asks",
		"HTTP/2 and upgrades":     "http2-and-upgrades",
		"The `log` section":       "the-log-section",
		"A [link](x.md), and on":  "a-link-and-on",
		"max_wait":                "max_wait",
		"Bounds, and what is not": "bounds-and-what-is-not",
	} {
		if got := slug(heading); got != want {
			t.Errorf("%q: %q, want %q", heading, got, want)
		}
	}
}
