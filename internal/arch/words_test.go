package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is how wide a line may be. A tab counts as tabColumns; what stands in a string does not count.
const (
	maxColumns = 120
	tabColumns = 4
)

// persons are words for people that comments do not use.
var persons = regexp.MustCompile(`(?i)\b(he|him|his|himself|whom|whomever)\b`)

// eachFile calls a function with each file of our own, generated ones aside.
func eachFile(t *testing.T, f func(name string, src []byte)) {
	t.Helper()
	base := root(t)
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles, p.IgnoredGoFiles) {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(src, []byte("// Code generated")) {
				rel, _ := filepath.Rel(base, filepath.Join(p.Dir, name))
				f(rel, src)
			}
		}
	}
}

// TestLinesAreShort: no line is wider than a screen beside another.
func TestLinesAreShort(t *testing.T) {
	eachFile(t, func(name string, src []byte) {
		for _, at := range wideLines(src) {
			t.Errorf("%s:%d: the line is wider than %d columns", name, at, maxColumns)
		}
	})
}

// tooWide reports whether a line is wider than it may be.
func tooWide(line []byte) bool {
	return utf8.RuneCount(line)+(tabColumns-1)*bytes.Count(line, []byte("\t")) > maxColumns
}

// wideLines returns the numbers of the lines that are too wide.
func wideLines(src []byte) (wide []int) {
	if !slices.ContainsFunc(bytes.Split(src, []byte("\n")), tooWide) {
		return nil
	}
	short := bytes.Clone(src)
	tokens(src, func(at int, tok token.Token, text string) {
		if tok == token.STRING {
			for i := at; i < at+len(text); i++ {
				if short[i] != '\n' {
					short[i] = 0
				}
			}
		}
	})
	for i, line := range bytes.Split(short, []byte("\n")) {
		if tooWide(bytes.ReplaceAll(line, []byte{0}, nil)) {
			wide = append(wide, i+1)
		}
	}
	return wide
}

func tokens(src []byte, f func(at int, tok token.Token, text string)) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return
		}
		f(file.Offset(pos), tok, text)
	}
}

// TestComments: people are they. Clients are programs as often as people, and nobody knows more about either.
func TestComments(t *testing.T) {
	eachFile(t, func(name string, src []byte) {
		if strings.HasPrefix(name, filepath.Join("internal", "arch")) {
			return // the words themselves
		}
		if !persons.Match(src) {
			return
		}
		tokens(src, func(at int, tok token.Token, text string) {
			if tok != token.COMMENT {
				return
			}
			for _, m := range persons.FindAllStringIndex(text, -1) {
				line := 1 + bytes.Count(src[:at+m[0]], []byte("\n"))
				t.Errorf("%s:%d: %q in a comment: write they, them, their or who", name, line, text[m[0]:m[1]])
			}
		})
	})
}

// oneMeaning says in which packages a type, or a file, may be called by a word of docs/glossary.md that used to have
// several meanings. Tests are free.
var oneMeaning = map[string][]string{
	"place":   {"weir", "admission"},
	"room":    {"admission", "gate/httpgate/pages"},
	"turn":    {"weir"},
	"guest":   nil,
	"frame":   nil,
	"front":   nil,
	"those":   nil,
	"same":    nil,
	"answers": nil,
	"doorway": nil,
	"hall":    nil,
	"usher":   nil,
	"leveler": nil,
	"rarely":  nil,
}

// TestOneMeaning: a word of the glossary names one thing.
func TestOneMeaning(t *testing.T) {
	base := root(t)
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			complain := func(word, what string, line int) {
				if in, known := oneMeaning[strings.ToLower(word)]; known && !slices.Contains(in, p.path) {
					rel, _ := filepath.Rel(base, filepath.Join(p.Dir, name))
					t.Errorf("%s:%d: %s is called %q, which means something else (docs/glossary.md)", rel, line, what, word)
				}
			}
			complain(strings.TrimSuffix(name, ".go"), "the file", 1)
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.TYPE {
					for _, spec := range d.Specs {
						s := spec.(*ast.TypeSpec)
						complain(s.Name.Name, "a type", fset.Position(s.Pos()).Line)
					}
				}
			}
		}
	}
}

// TestFloorsAreDocumented: the table in docs/architecture.md has the floors of this test, and every package on them.
func TestFloorsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d) \\| `([a-z0-9/]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		told[m[2]], _ = strconv.Atoi(m[1])
	}
	for _, p := range packages(t) {
		floor, known := floorOf(p.path)
		at, is := told[p.path]
		switch {
		case !known || floor == exempt:
		case !is:
			t.Errorf("docs/architecture.md does not have %s on floor %d", p.path, floor)
		case at != floor:
			t.Errorf("docs/architecture.md has %s on floor %d, and it stands on %d", p.path, at, floor)
		}
		delete(told, p.path)
	}
	for name := range told {
		t.Errorf("docs/architecture.md has %s, which does not exist", name)
	}
}
