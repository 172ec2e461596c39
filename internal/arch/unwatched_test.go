package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// processes are the packages whose tests let processes of their own work. Goroutines there are their clients.
var processes = []string{"cmd/weir"}

// TestUnwatchedTestsHaveNoGoroutines: the race detector does not watch tests that are marked by needs.Unwatched, so
// these start no goroutines.
func TestUnwatchedTestsHaveNoGoroutines(t *testing.T) {
	marked := 0
	for _, p := range packages(t) {
		fset := token.NewFileSet()
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Error(err)
				continue
			}
			for _, f := range unwatched(file) {
				marked++
				if at := startsGoroutine(f); at != nil && !slices.Contains(processes, p.path) {
					t.Errorf("%s: %s starts a goroutine and is marked by needs.Unwatched: leave the mark out",
						path.Join(p.path, filepath.Base(fset.Position(at.Pos()).String())), f.Name.Name)
				}
			}
		}
	}
	if marked == 0 {
		t.Error("no test is marked: this test sees nothing")
	}
}

// unwatched returns the functions of a file that are marked.
func unwatched(file *ast.File) (all []*ast.FuncDecl) {
	name := importName(file, module+"/internal/testkit/needs")
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil || name == "" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Unwatched" && fmt.Sprint(sel.X) == name &&
				!slices.Contains(all, f) {
				all = append(all, f)
			}
			return true
		})
	}
	return all
}

// startsGoroutine returns where a function starts a goroutine, by a go statement or as sync.WaitGroup and errgroup do,
// or nil.
func startsGoroutine(f *ast.FuncDecl) (at ast.Node) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at = n
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
				at = n
			}
		}
		return at == nil
	})
	return at
}

// TestUnwatchedIsSeen: what the rule looks for.
func TestUnwatchedIsSeen(t *testing.T) {
	const text = `package x
import ("testing"; "weir/internal/testkit/needs")
func TestQuiet(t *testing.T) { needs.Unwatched(t) }
func TestOther(t *testing.T) { go f() }
func TestGo(t *testing.T) { needs.Unwatched(t); go f() }
func TestGroup(t *testing.T) { needs.Unwatched(t); func() { all.Go(f) }() }
`
	file, err := parser.ParseFile(token.NewFileSet(), "x_test.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range unwatched(file) {
		got = append(got, fmt.Sprint(f.Name.Name, " ", startsGoroutine(f) != nil))
	}
	if want := "TestQuiet false,TestGo true,TestGroup true"; strings.Join(got, ",") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
