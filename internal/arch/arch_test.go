package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "weir"

// A pkg is one package of the module as `go list -json` describes it.
type pkg struct {
	ImportPath     string
	Name           string
	Dir            string
	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string // for other systems
	TestGoFiles    []string
	XTestGoFiles   []string
	Imports        []string
	Module         *struct{ Dir string }

	path string // inside the module; "weir" for the root
}

// list asks the go command once for all packages.
var list = sync.OnceValues(func() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-buildvcs=false",
		"-json=ImportPath,Name,Dir,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,Module",
		module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		p.path = inside(p.ImportPath)
		all = append(all, p)
	}
})

func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// root is the folder of the module.
func root(t *testing.T) string { return packages(t)[0].Module.Dir }

// inside returns the path of a package inside the module, or "" for a package from outside.
func inside(importPath string) string {
	if importPath == module {
		return module
	}
	rest, ok := strings.CutPrefix(importPath, module+"/")
	if !ok {
		return ""
	}
	return rest
}

// external reports whether an import is neither ours nor of the standard library.
func external(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return inside(importPath) == "" && strings.Contains(first, ".")
}

// externalModule guesses the module of an external import: enough to tell one from two.
func externalModule(importPath string) string {
	parts := strings.Split(importPath, "/")
	n := 2
	if parts[0] == "github.com" || parts[0] == "golang.org" || parts[0] == "gitlab.com" {
		n = 3
	}
	return strings.Join(parts[:min(n, len(parts))], "/")
}

// TestHouse holds every rule about packages and what they import against every package.
func TestHouse(t *testing.T) {
	rules := []struct {
		name  string
		check func(p pkg, floor int) []string
	}{
		{"imports go strictly down", importsGoDown},
		{"who decides is given the time", noClock},
		{"gates know no mechanism", gatesKnowNoMechanism},
		{"prometheus stays in the console and the app", prometheusStays},
		{"the lower floors take at most one module from outside", oneModule},
		{"names say what is inside", namesSay},
	}
	for _, p := range packages(t) {
		floor, known := floorOf(p.path)
		if !known {
			t.Errorf("package %s stands on no floor: give it one in internal/arch/house_test.go (and in "+
				"docs/architecture.md)", p.path)
			continue
		}
		for _, rule := range rules {
			for _, wrong := range rule.check(p, floor) {
				t.Errorf("%s: %s\n\trule: %s", p.path, wrong, rule.name)
			}
		}
	}
}

func importsGoDown(p pkg, floor int) (wrong []string) {
	for _, imp := range p.Imports {
		below := inside(imp)
		if below == "" {
			continue
		}
		at, known := floorOf(below)
		switch {
		case !known:
			wrong = append(wrong, fmt.Sprintf("imports %s, which stands on no floor", below))
		case at == exempt:
			wrong = append(wrong, fmt.Sprintf("imports %s, which is for building and testing only", below))
		case floor == exempt:
		case at == floor:
			wrong = append(wrong,
				fmt.Sprintf("imports its sibling %s (both on floor %d): let a floor above hand in what is needed",
					below, floor))
		case at > floor:
			wrong = append(wrong, fmt.Sprintf("on floor %d imports %s on floor %d, above it", floor, below, at))
		}
	}
	return wrong
}

func noClock(p pkg, floor int) (wrong []string) {
	if floor >= 0 && floor <= 2 && !slices.Contains(acting, p.path) &&
		slices.Contains(p.Imports, module+"/internal/clock") {
		wrong = append(wrong, "imports internal/clock: time comes in with the event")
	}
	return wrong
}

func gatesKnowNoMechanism(p pkg, floor int) (wrong []string) {
	if !strings.HasPrefix(p.path, "gate/") || floor == exempt {
		return nil
	}
	for _, imp := range p.Imports {
		below := inside(imp)
		if isMechanism(below) && halves[p.path] != below {
			wrong = append(wrong, fmt.Sprintf("is a gate and imports the mechanism %s: ask a policy", below))
		}
		if dir := path.Dir(below); dir == "store" || dir == "farm" {
			wrong = append(wrong, fmt.Sprintf("is a gate and imports %s: take the contract, not what fulfils it",
				below))
		}
	}
	return wrong
}

func prometheusStays(p pkg, floor int) (wrong []string) {
	if floor == exempt || slices.Contains(prometheusIn, p.path) {
		return nil
	}
	for _, imp := range p.Imports {
		if strings.HasPrefix(imp, "github.com/prometheus/") {
			wrong = append(wrong, fmt.Sprintf("imports %s: count in atomics and let the console collect them", imp))
		}
	}
	return wrong
}

func oneModule(p pkg, floor int) (wrong []string) {
	if floor < 0 || floor > 2 {
		return nil
	}
	var modules []string
	for _, imp := range p.Imports {
		if m := externalModule(imp); external(imp) && !slices.Contains(modules, m) {
			modules = append(modules, m)
		}
	}
	if len(modules) > 1 && !(len(modules) == 2 && slices.Contains(twoModules, p.path)) {
		wrong = append(wrong, fmt.Sprintf("needs %s: one module from outside is the most on floors 0 to 2",
			strings.Join(modules, " and ")))
	}
	return wrong
}

func namesSay(p pkg, _ int) (wrong []string) {
	if vague := []string{"lib", "util", "utils", "common", "types", "pkg", "helpers", "misc"}; slices.Contains(vague,
		path.Base(p.path)) {
		wrong = append(wrong, fmt.Sprintf("%q says nothing about what is inside", path.Base(p.path)))
	}
	return wrong
}

// clockCalls are the functions of package time that read the clock or wait for it.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// TestSource holds the rules about what stands in the files against every file that is not a test.
func TestSource(t *testing.T) {
	for _, p := range packages(t) {
		fset := token.NewFileSet()
		files := slices.Concat(p.GoFiles, p.CgoFiles, notTests(p.IgnoredGoFiles))
		documented := len(files) == 0 // a folder of tests only
		for _, name := range files {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(fset, path.Join(p.path, name), src, parser.ParseComments)
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			if file.Doc != nil && wellDocumented(p, file.Doc.Text()) {
				documented = true
			}
			for _, wrong := range inFile(fset, file, isTimeless(p.path)) {
				t.Error(wrong)
			}
		}
		if !documented {
			t.Errorf("%s: no file has a package comment; begin one with %q", p.path, docStart(p))
		}
	}
}

// notTests leaves tests out.
func notTests(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

// docStart is how the comment of a package begins.
func docStart(p pkg) string {
	if p.Name == "main" {
		return "Command " + path.Base(p.path) + " "
	}
	return "Package " + p.Name + " "
}

func wellDocumented(p pkg, doc string) bool {
	return strings.HasPrefix(doc, docStart(p))
}

// inFile returns what is wrong with a parsed file.
func inFile(fset *token.FileSet, file *ast.File, timeless bool) (wrong []string) {
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			wrong = append(wrong, fmt.Sprintf("%s: func init: say it in app, where everybody can read it",
				fset.Position(f.Pos())))
		}
	}
	timeName := importName(file, "time")
	if !timeless || timeName == "" {
		return wrong
	}
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == timeName && x.Obj == nil &&
			slices.Contains(clockCalls, sel.Sel.Name) {
			wrong = append(wrong, fmt.Sprintf("%s: time.%s: who decides is given the time and never waits",
				fset.Position(sel.Pos()), sel.Sel.Name))
		}
		return true
	})
	return wrong
}

// importName returns the name by which a file calls an import, or "" when it does not import it.
func importName(file *ast.File, importPath string) string {
	for _, imp := range file.Imports {
		if imp.Path.Value == `"`+importPath+`"` {
			if imp.Name != nil {
				return imp.Name.Name
			}
			return path.Base(importPath)
		}
	}
	return ""
}
