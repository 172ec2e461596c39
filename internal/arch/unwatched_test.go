package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// processes are the packages whose tests let processes of their own work. Goroutines there are their clients.
var processes = []string{"cmd/weir", "internal/gen/release"}

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

// TestSinglePackagesHaveNoGoroutines: "make race" leaves out the packages that the Makefile calls SINGLE, so that
// nothing in them starts a goroutine, neither what they are nor their tests.
func TestSinglePackagesHaveNoGoroutines(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "\nSINGLE := ")
	text, _, _ := strings.Cut(strings.ReplaceAll(rest, "\\\n", ""), "\n")
	found := 0
	for _, p := range packages(t) {
		if !slices.ContainsFunc(strings.Fields(text), func(pattern string) bool { return matches(pattern, p.path) }) {
			continue
		}
		found++
		fset := token.NewFileSet()
		for _, name := range slices.Concat(p.GoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles) {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Error(err)
				continue
			}
			if at := startsGoroutine(file); at != nil && !slices.Contains(processes, p.path) {
				t.Errorf("%s: %s starts a goroutine: take it out of SINGLE in the Makefile",
					path.Join(p.path, filepath.Base(fset.Position(at.Pos()).String())), p.path)
			}
		}
	}
	if found < len(strings.Fields(text)) || found == 0 {
		t.Errorf("%d packages are called SINGLE, and %d are found", len(strings.Fields(text)), found)
	}
}

// matches says whether a package is meant by a pattern of the Makefile: its folder, or a folder above it and /... .
func matches(pattern, folder string) bool {
	pattern = strings.TrimPrefix(pattern, "./")
	if above, all := strings.CutSuffix(pattern, "/..."); all {
		return strings.HasPrefix(folder, above+"/")
	}
	return pattern == folder || pattern == "." && folder == module
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

// startsGoroutine returns where a function or a file starts a goroutine, by a go statement or as sync.WaitGroup and
// errgroup do, or nil.
func startsGoroutine(in ast.Node) (at ast.Node) {
	ast.Inspect(in, func(n ast.Node) bool {
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
