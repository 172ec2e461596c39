package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testkit/markdown"
)

// maxSentence is how many words a sentence may have. A longer one has more than one idea.
const maxSentence = 60

// A habit is a way to write that readers stumble over, and what to write instead.
type habit struct {
	found  *regexp.Regexp
	except *regexp.Regexp // what is found, and is right all the same; may be nil
	write  string
}

// habits are those that a program can find. The others take somebody who reads the page aloud.
var habits = []habit{
	{regexp.MustCompile(`(?i)\b(?:he|him|his|himself|whom|whomever)\b`), nil, "they, them, their or who"},
	{regexp.MustCompile(`(?i)\bfor good\b`), nil, "permanently"},
	{regexp.MustCompile(`(?i)\binvalid list\b`), nil, "block list"},
	{regexp.MustCompile(`(?i)\b(?:hereby|herein|thereof|therein|thereto|whereby|wherein|whereof)\b`), nil, "two sentences"},
	{regexp.MustCompile(`(?i)\bwhat is what\b`), nil, "what it is"},
	{regexp.MustCompile(`(?i)\S+ (?:is|are|was|were) no \w+`),
		regexp.MustCompile(`(?i)^\W*(?:there|here) |\bno (?:longer|more|other|better|worse|different|sooner|later|less)$`),
		`"is not a": an error such as "x is no address" reads as translated`},
}

// bad returns the habits in a text.
func bad(text string) (all []string) {
	for _, h := range habits {
		for _, found := range h.found.FindAllString(text, -1) {
			if h.except == nil || !h.except.MatchString(found) {
				all = append(all, strconv.Quote(found)+": write "+h.write)
			}
		}
	}
	return all
}

// spoken says which pages are held to the words. Records of decisions and of versions tell what things were called.
func spoken(path string) bool {
	return path != "CHANGELOG.md" && path != "docs/glossary.md" && !strings.HasPrefix(path, "docs/adr/") &&
		!strings.HasPrefix(path, "lab/bench/")
}

// TestPlainPages: README and docs have none of the bad habits, and no sentence that goes on and on.
func TestPlainPages(t *testing.T) {
	for _, p := range pages(t) {
		if !spoken(p.Path) {
			continue
		}
		var paragraph []string
		from := 0
		end := func() {
			for _, s := range sentences(strings.Join(paragraph, " ")) {
				if n := len(strings.Fields(s)); n > maxSentence {
					t.Errorf("%s:%d: a sentence of %d words: make two: %.60s…", p.Path, from, n, s)
				}
			}
			paragraph = nil
		}
		for _, l := range p.Prose {
			if strings.HasPrefix(l.Text, "    ") {
				continue
			}
			text := markdown.LinkMarkup.ReplaceAllString(markdown.InlineCode.ReplaceAllString(l.Text, "code"), "$1")
			for _, found := range bad(text) {
				t.Errorf("%s:%d: %s", p.Path, l.Number, found)
			}
			if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "|") || strings.HasPrefix(text, "#") ||
				strings.HasPrefix(text, "!") || listItem.MatchString(text) {
				end()
			}
			if strings.HasPrefix(text, "|") || strings.HasPrefix(text, "!") {
				continue // cells and descriptions of pictures are lists of facts
			}
			if len(paragraph) == 0 {
				from = l.Number
			}
			paragraph = append(paragraph, text)
		}
		end()
	}
}

var (
	listItem    = regexp.MustCompile(`^\s*(?:-|\d+\.) `)
	sentenceEnd = regexp.MustCompile(`[.!?][)"*]*\s+`)
)

// sentences splits a paragraph, as far as that is possible without understanding it.
func sentences(paragraph string) []string { return sentenceEnd.Split(paragraph, -1) }

// unspoken are folders without texts of weir's, or with the words themselves.
var unspoken = []string{".git", "bin", "dist", "docs", "internal/arch", "internal/lint", "lab/bench"}

// action is what a template computes, and a tag of HTML.
var action = regexp.MustCompile(`{{[^}]*}}|<[^>]*>`)

// TestPlainTexts: what weir says has none of the bad habits: help, errors, log lines, the operators' pages, and the
// comments of the examples and of the packaged files.
func TestPlainTexts(t *testing.T) {
	texts := 0
	eachFile(t, func(f file) {
		for _, unspoken := range unspoken {
			if strings.HasPrefix(f.name, unspoken+"/") {
				return
			}
		}
		if !strings.HasSuffix(f.name, "_test.go") && f.name != "store/sqlite/schema.go" { // what is stored keeps its words
			texts += plainSource(t, f)
		}
	})
	eachPlainFile(t, func(name string, lines []string) {
		texts++
		for i, l := range lines {
			for _, found := range bad(action.ReplaceAllString(l, " ")) {
				t.Errorf("%s:%d: %s", name, i+1, found)
			}
		}
	})
	if texts < 1000 {
		t.Errorf("only %d texts found: has their form changed?", texts)
	}
}

// eachPlainFile calls a function with each page of HTML, example and packaged file.
func eachPlainFile(t *testing.T, f func(name string, lines []string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (d.Name() == "testdata" || slices.Contains(unspoken, rel)):
			return fs.SkipDir
		case d.IsDir():
		case strings.HasSuffix(rel, ".html") || strings.HasPrefix(rel, "examples/") || strings.HasPrefix(rel, "deploy/"):
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f(rel, strings.Split(string(raw), "\n"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plainSource looks at the texts of a Go file: strings of several words, and the help in the tags of commands.
func plainSource(t *testing.T, f file) (texts int) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, f.name, f.src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				tags[n.Tag] = true
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind != token.STRING || err != nil {
				return true
			}
			if tags[n] {
				text = reflect.StructTag(text).Get("help")
			}
			if !strings.Contains(text, " ") {
				return true // a name, which programs read
			}
			texts++
			for _, found := range bad(text) {
				t.Errorf("%s: %s", fset.Position(n.Pos()), found)
			}
		}
		return true
	})
	return texts
}

// TestHabits: the words are found, and their neighbours are not.
func TestHabits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"the user and his mail": 1, "This is the case here.": 0, "somebody whom nobody knows": 1, "good for all": 0, "banned for good": 1, "for good bots": 1,
		`"x" is no address`: 1, "there is no address": 0, "there are no messages": 0, "it is no longer banned": 0,
		"they are no more than ten": 0, "it is not an address": 0,
	} {
		if got := bad(text); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
	if got := sentences("One. Two (really.) Three, e.g 4.5? Four"); len(got) != 4 {
		t.Errorf("%q", got)
	}
}
