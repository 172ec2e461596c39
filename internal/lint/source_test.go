package lint

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
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

// A file is one of our own Go files.
type file struct {
	name string // from the root, with slashes
	src  []byte
}

// folder is the package, by its path inside the module; "weir" for the root.
func (f *file) folder() string {
	if !strings.Contains(f.name, "/") {
		return "weir"
	}
	return path.Dir(f.name)
}

// files reads all of them once: those of every system and every build, generated ones aside. Folders with a go.mod are
// modules of somebody else's.
var files = sync.OnceValues(func() (all []file, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			_, foreign := os.Stat(filepath.Join(name, "go.mod"))
			if name != root && (foreign == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		case filepath.Ext(name) != ".go":
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err == nil && !bytes.Contains(src, []byte("// Code generated")) {
			all = append(all, file{filepath.ToSlash(rel), src})
		}
		return err
	})
	return all, err
})

// eachFile calls a function with each of our own files.
func eachFile(t *testing.T, f func(file)) {
	t.Helper()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 500 {
		t.Fatalf("only %d files found: is %s the root?", len(all), root)
	}
	for _, one := range all {
		f(one)
	}
}

// TestLinesAreShort: no line is wider than a screen beside another.
func TestLinesAreShort(t *testing.T) {
	eachFile(t, func(f file) {
		for _, at := range wideLines(f.src) {
			t.Errorf("%s:%d: the line is wider than %d columns", f.name, at, maxColumns)
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
	eachFile(t, func(f file) {
		if f.folder() == "internal/lint" { // the words themselves
			return
		}
		if !persons.Match(f.src) {
			return
		}
		tokens(f.src, func(at int, tok token.Token, text string) {
			if tok != token.COMMENT {
				return
			}
			for _, m := range persons.FindAllStringIndex(text, -1) {
				line := 1 + bytes.Count(f.src[:at+m[0]], []byte("\n"))
				t.Errorf("%s:%d: %q in a comment: write they, them, their or who", f.name, line, text[m[0]:m[1]])
			}
		})
	})
}

// TestFilesAreShort: a file that needs a table of contents wants to be two. Tests are no exception.
func TestFilesAreShort(t *testing.T) {
	const most = 700
	eachFile(t, func(f file) {
		if lines := bytes.Count(f.src, []byte("\n")); lines > most {
			t.Errorf("%s: %d lines; a file of more than %d wants to be two", f.name, lines, most)
		}
	})
}
