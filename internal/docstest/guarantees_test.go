package docstest

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/markdown"
)

var (
	// testName is a test in code, with its folder, or like the one before it in the row.
	testName = regexp.MustCompile("^`(?:([a-z0-9/]+)\\.)?((?:Test|Fuzz)[A-Z0-9_][A-Za-z0-9_]*)`$")
	// notPromised is the title of a section without promises.
	notPromised = regexp.MustCompile(`\bnot promise\b`)
)

const makeLong = "`make long`"

// A held is a test or a fuzz target that there is.
type held struct {
	long bool // only make long runs it
}

// onLinux is where make test runs all tests.
var onLinux = build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: build.Default.Compiler,
	ReleaseTags: build.Default.ReleaseTags}

// heldIn returns the tests of a folder that make test runs, by name.
func heldIn(folder string) (map[string]held, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	all := map[string]held{}
	for _, name := range files {
		if there, err := onLinux.MatchFile(filepath.Split(name)); err != nil || !there {
			if err != nil {
				return nil, err
			}
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		testsOf(file, all)
	}
	return all, nil
}

// testsOf adds the tests and fuzz targets of a file: functions that go test calls.
func testsOf(file *ast.File, all map[string]held) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Body == nil || len(f.Type.Params.List) != 1 || f.Type.Results != nil {
			continue
		}
		pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		takes, ok := pointer.X.(*ast.SelectorExpr)
		if !ok || fmt.Sprint(takes.X) != "testing" {
			continue
		}
		if strings.HasPrefix(f.Name.Name, "Test") && takes.Sel.Name == "T" ||
			strings.HasPrefix(f.Name.Name, "Fuzz") && takes.Sel.Name == "F" {
			if !skips(f.Body) { // nor is it empty
				all[f.Name.Name] = held{onlyLong(f)}
			}
		}
	}
}

// onlyLong reports whether a test is skipped unless make long runs it.
func onlyLong(f *ast.FuncDecl) bool {
	for _, s := range f.Body.List {
		if branch, ok := s.(*ast.IfStmt); ok && skips(branch.Body) && asksForLong(branch.Cond) {
			return true
		}
	}
	return false
}

// asksForLong reports whether a condition holds wherever it is not make long that runs.
func asksForLong(cond ast.Expr) bool {
	switch e := cond.(type) {
	case *ast.UnaryExpr:
		return e.Op == token.NOT && calls(e.X, "Long")
	case *ast.BinaryExpr:
		return e.Op == token.LOR && (asksForLong(e.X) || asksForLong(e.Y))
	}
	return false
}

// skips reports whether a block does nothing, or skips the test whatever happens.
func skips(block *ast.BlockStmt) bool {
	for _, s := range block.List {
		if call, ok := s.(*ast.ExprStmt); ok &&
			(calls(call.X, "Skip") || calls(call.X, "Skipf") || calls(call.X, "SkipNow")) {
			return true
		}
	}
	return len(block.List) == 0
}

// calls reports whether an expression calls a function or method of that name.
func calls(e ast.Expr, name string) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == name
}

// A promises reads the page of guarantees.
type promises struct {
	tests func(folder string) map[string]held
	wrong []string
	named int

	sections []section // those that are open, by level
	column   int       // of the table that has the tests; -1 outside of a table
	folder   string    // of the last test in the row
}

// A section must name a test, there or in its parts.
type section struct {
	line  int
	title string
	named bool
}

func (p *promises) complain(line int, format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf("docs/guarantees.md:%d: ", line)+fmt.Sprintf(format, args...))
}

// read reads the lines of the page.
func (p *promises) read(lines []markdown.Line) {
	p.column = -1
	for _, l := range lines {
		level := len(l.Text) - len(strings.TrimLeft(l.Text, "#"))
		switch {
		case level > 0:
			p.end(level - 1)
			p.sections = append(p.sections, section{line: l.Number, title: strings.TrimSpace(l.Text[level:])})
			p.column = -1
		case !strings.HasPrefix(l.Text, "|"):
			p.column = -1
		case p.column < 0:
			p.head(l)
		case strings.HasPrefix(l.Text, "|--"):
		default:
			p.row(l)
		}
	}
	p.end(0)
}

// end closes sections, down to a level. The first one is the page.
func (p *promises) end(level int) {
	for len(p.sections) > level {
		last := p.sections[len(p.sections)-1]
		p.sections = p.sections[:len(p.sections)-1]
		if !last.named && !notPromised.MatchString(last.title) {
			p.complain(last.line, "no test holds %q", last.title)
		}
		if n := len(p.sections); n > 0 && last.named {
			p.sections[n-1].named = true
		}
	}
}

// head finds the column of tests.
func (p *promises) head(l markdown.Line) {
	for i, cell := range strings.Split(l.Text, "|") {
		if strings.TrimSpace(cell) == "test" {
			p.column = i
		}
	}
	if p.column < 0 {
		p.complain(l.Number, "a table without a column of tests")
		p.column = len(l.Text) // which no row has
	}
}

// row reads a row of a table: it names tests that exist, and nothing else in their place.
func (p *promises) row(l markdown.Line) {
	cells := strings.Split(l.Text, "|")
	if p.column >= len(cells)-1 {
		p.complain(l.Number, "the row has %d columns", len(cells)-2)
		return
	}
	named := 0
	p.folder = ""
	for _, code := range markdown.InlineCode.FindAllString(cells[p.column], -1) {
		m := testName.FindStringSubmatch(code)
		switch {
		case m != nil:
			named++
			p.test(l, m[1], m[2])
		case code != makeLong:
			p.complain(l.Number, "%s is not a test: name the test that shows it", code)
		}
	}
	if named == 0 {
		p.complain(l.Number, "no test holds this")
	}
	p.named += named
	if n := len(p.sections); n > 0 && named > 0 {
		p.sections[n-1].named = true
	}
}

func (p *promises) test(l markdown.Line, folder, name string) {
	if folder != "" {
		p.folder = folder
	}
	test, there := p.tests(p.folder)[name]
	switch {
	case !there:
		p.complain(l.Number, "there is no test %s in %q", name, p.folder)
	case test.long && !strings.Contains(l.Text, makeLong):
		p.complain(l.Number, "only make long runs %s: the row has to say so, as "+makeLong, name)
	}
}

// TestGuaranteesAreHeld: every row of the page of guarantees names tests or fuzz targets that there are, and nothing
// else in their place; every section names one; and where only make long runs a test, the row says so.
func TestGuaranteesAreHeld(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := markdown.Parse("docs/guarantees.md", string(text))
	if err != nil {
		t.Fatal(err)
	}
	p := &promises{tests: testsIn(t)}
	p.read(page.Prose)
	for _, w := range p.wrong {
		t.Error(w)
	}
	if p.named < 300 {
		t.Errorf("%d tests are named: has the form of the page changed?", p.named)
	}
}

// testsIn returns a function that finds the tests of a folder.
func testsIn(t *testing.T) func(folder string) map[string]held {
	known := map[string]map[string]held{}
	return func(folder string) map[string]held {
		if known[folder] == nil {
			all, err := heldIn(filepath.Join(root, folder))
			if err != nil {
				t.Fatal(err)
			}
			known[folder] = all
		}
		return known[folder]
	}
}

// TestPagesNameTests: tests that any page names exist.
func TestPagesNameTests(t *testing.T) {
	tests := testsIn(t)
	for _, page := range pages(t) {
		if page.Path == "CHANGELOG.md" || strings.HasPrefix(page.Path, "docs/adr/") {
			continue // these tell what was
		}
		for _, l := range page.Prose {
			folder := ""
			for _, code := range markdown.InlineCode.FindAllString(l.Text, -1) {
				m := testName.FindStringSubmatch(code)
				if m != nil && m[1] != "" {
					folder = m[1]
				}
				if m == nil || folder == "" || len(tests(folder)) == 0 { // it names what other tests call
					continue
				}
				if _, there := tests(folder)[m[2]]; !there {
					t.Errorf("%s:%d: there is no test %s in %q", page.Path, l.Number, m[2], folder)
				}
			}
		}
	}
}

// TestGuaranteesThatNobodyHolds: what the rule finds.
func TestGuaranteesThatNobodyHolds(t *testing.T) {
	const source = `package x
import ("testing"; "weir/internal/testkit/needs")
func TestOne(t *testing.T) { work() }
func TestNothing(t *testing.T) {}
func TestSkipped(t *testing.T) { t.Parallel(); t.Skip("it is flaky"); work() }
func TestLong(t *testing.T) { if !needs.Long() { t.Skip("an hour") }; work() }
func TestLongOr(t *testing.T) { if testing.Short() || !needs.Long() { t.Skip("an hour") }; work() }
func TestSized(t *testing.T) { n := 1; if needs.Long() { n = 100 }; work(n) }
func FuzzOne(f *testing.F) { work() }
func Testify(t *testing.T) { work() }
func TestHelper(t *testing.T, n int) { work() }
func (s suite) TestMethod(t *testing.T) { work() }
// func TestCommented(t *testing.T) { work() }
`
	file, err := parser.ParseFile(token.NewFileSet(), "x_test.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]held{}
	testsOf(file, tests)
	for row, want := range map[string]string{
		"| a promise | `a.TestOne` |":                     "",
		"| a promise | `a.TestOne`, `TestSized` |":        "",
		"| a promise | `a.FuzzOne`, over real sockets |":  "",
		"| a promise | `a.TestLong`, in `make long` |":    "",
		"| in `make long`, a promise | `a.TestLong` |":    "",
		"| a promise | `a.TestLong` |":                    "only make long runs TestLong",
		"| a promise | `a.TestLongOr` |":                  "only make long runs TestLongOr",
		"| a promise | `a.TestTwo` |":                     "there is no test TestTwo",
		"| a promise | `a.TestNothing` |":                 "there is no test",
		"| a promise | `a.TestSkipped` |":                 "there is no test",
		"| a promise | `a.Testify` |":                     "is not a test",
		"| a promise | `a.TestHelper` |":                  "there is no test",
		"| a promise | `a.TestMethod` |":                  "there is no test",
		"| a promise | `a.TestCommented` |":               "there is no test",
		"| a promise | `b.TestOne` |":                     "there is no test",
		"| a promise | `a.TestOne`; `farm/nats` |":        "is not a test",
		"| `a.TestOne`, in the column of promises | no |": "no test holds this",
		"| a promise | and a fuzz test |":                 "no test holds this",
		"| a promise |":                                   "columns",
	} {
		p := &promises{tests: func(folder string) map[string]held {
			if folder != "a" {
				return nil
			}
			return tests
		}}
		text := "# Guarantees\n## One\n| promise | test |\n|---|---|\n| another | `a.TestOne` |\n" + row
		p.read(linesOf(text))
		if got := strings.Join(p.wrong, "; "); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: complains %q, want %q", row, got, want)
		}
	}
	p := &promises{tests: func(string) map[string]held { return tests }}
	p.read(linesOf("# Guarantees\n## One\n### Part\n| test | what |\n|---|---|\n| `a.TestOne` | it |\n### Other part\n" +
		"words\n### What they do not promise\nwords\n## Two\nwords\n| a | b |\n|---|---|\n"))
	want := []string{`:7: no test holds "Other part"`, `:13: a table without`, `:11: no test holds "Two"`}
	if len(p.wrong) != len(want) {
		t.Fatalf("%q", p.wrong)
	}
	for i, w := range want {
		if !strings.Contains(p.wrong[i], w) {
			t.Errorf("complains %q, want %q", p.wrong[i], w)
		}
	}
}

// TestOnlyTestsOfLinuxHold: a test that only another system compiles holds nothing.
func TestOnlyTestsOfLinuxHold(t *testing.T) {
	folder := t.TempDir()
	const test = "package x\nimport \"testing\"\nfunc Test%s(t *testing.T) { work() }\n"
	for name, head := range map[string]string{"all": "", "unix": "//go:build unix\n", "linux": "", "windows": "",
		"never": "//go:build ignore\n"} {
		text := head + fmt.Sprintf(test, "_"+name)
		if err := os.WriteFile(filepath.Join(folder, "x_"+name+"_test.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := heldIn(folder)
	if got := slices.Sorted(maps.Keys(all)); err != nil || !slices.Equal(got, []string{"Test_all", "Test_linux",
		"Test_unix"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func linesOf(text string) (all []markdown.Line) {
	for i, l := range strings.Split(text, "\n") {
		all = append(all, markdown.Line{Number: i + 1, Text: l})
	}
	return all
}
