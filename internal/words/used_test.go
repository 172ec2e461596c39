package words

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A use is where a text is used first.
type use struct{ where string }

// used returns every text that is used, in Go code, templates and scripts, and what is wrong with the ways it is used.
var used = sync.OnceValues(func() (map[Text]use, []string) {
	all, wrong := map[Text]use{}, []string{}
	for _, p := range users(&wrong) {
		inPackage(p, all, &wrong)
	}
	for name, source := range sources(&wrong) {
		mark := inTemplate
		if strings.HasSuffix(name, ".js") {
			mark = inScript
		}
		for _, found := range mark.FindAllStringSubmatch(source, -1) {
			note(all, Text(found[1]), name)
		}
	}
	return all, wrong
})

func note(all map[Text]use, t Text, where string) {
	if _, known := all[t]; !known && t != "" {
		all[t] = use{where}
	}
}

// A pkg is what go list says of a package.
type pkg struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	Standard                bool

	exports map[string]string // of all packages
}

const self = "weir/internal/words"

// users lists the packages that import this one, and this one.
func users(wrong *[]string) (all []pkg) {
	// Everything that people read is below these. The command says nothing in other languages.
	cmd := exec.Command("go", "list", "-buildvcs=false", "-export", "-deps",
		"-json=ImportPath,Dir,Export,GoFiles,Imports,Standard", "weir/app", "weir/middleware", self)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		*wrong = append(*wrong, "go list: "+err.Error()+"\n"+stderr.String())
		return nil
	}
	exports := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := pkg{exports: exports}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			*wrong = append(*wrong, err.Error())
			return nil
		}
		exports[p.ImportPath] = p.Export
		if p.ImportPath == self || slices.Contains(p.Imports, self) {
			all = append(all, p)
		}
	}
}

// inPackage notes the constants of type Text in a package. Whether a call gives a value for each placeholder is seen
// there, too.
func inPackage(p pkg, all map[Text]use, wrong *[]string) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			*wrong = append(*wrong, err.Error())
			return
		}
		files = append(files, file)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(p.exports[path]) }
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	if _, err := config.Check(p.ImportPath, fset, files, info); err != nil {
		*wrong = append(*wrong, err.Error())
		return
	}
	text := func(e ast.Expr) (Text, bool) {
		tv, ok := info.Types[e]
		if !ok || tv.Value == nil || tv.Value.Kind() != constant.String || tv.Type.String() != self+".Text" {
			return "", false
		}
		return Text(constant.StringVal(tv.Value)), true
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, w := range wrongCall(call, info, text) {
					*wrong = append(*wrong, fset.Position(call.Pos()).String()+": "+w)
				}
			}
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			t, found := text(e)
			if found {
				note(all, t, fset.Position(e.Pos()).String())
			}
			return !found // the parts of a text are no texts
		})
	}
}

// wrongCall says what is wrong with a call of Say or Count.
func wrongCall(call *ast.CallExpr, info *types.Info, text func(ast.Expr) (Text, bool)) (wrong []string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || call.Ellipsis != token.NoPos || info.Selections[sel] == nil {
		return nil
	}
	method, ok := info.Selections[sel].Obj().(*types.Func)
	if !ok || method.FullName() != "(*"+self+".Language)."+sel.Sel.Name {
		return nil
	}
	var texts, values []ast.Expr
	var given []string
	switch sel.Sel.Name {
	case "Say":
		texts, values = call.Args[:1], call.Args[1:]
	case "Count":
		texts, values, given = call.Args[1:3], call.Args[3:], []string{"{n}"}
	default:
		return nil
	}
	for i, v := range values {
		tv := info.Types[v]
		switch kind := tv.Type.Underlying().String(); {
		case i%2 == 0 && tv.Value == nil:
			wrong = append(wrong, "the name of a placeholder is no constant")
		case i%2 == 0:
			given = append(given, "{"+constant.StringVal(tv.Value)+"}")
		case !slices.Contains([]string{"string", "int", "int64"}, kind) || kind != tv.Type.String():
			wrong = append(wrong, "a value is of type "+tv.Type.String())
		}
	}
	for _, e := range texts {
		if t, ok := text(e); ok {
			for _, p := range placeholders(string(t)) {
				if !slices.Contains(given, p) {
					wrong = append(wrong, "no value for "+p)
				}
			}
		}
	}
	return wrong
}

// sources are the templates and scripts that have texts, by path.
func sources(wrong *[]string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" ||
			strings.HasPrefix(d.Name(), ".") && strings.Trim(d.Name(), ".") != ""):
			return filepath.SkipDir
		case filepath.Ext(path) != ".html" && filepath.Ext(path) != ".js":
			return nil
		}
		text, err := os.ReadFile(path)
		if inTemplate.Match(text) || inScript.Match(text) {
			all[path] = string(text)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		*wrong = append(*wrong, "no templates")
	}
	return all
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// placeholders of a text, in order of their names, each once.
func placeholders(text string) []string {
	all := placeholder.FindAllString(text, -1)
	slices.Sort(all)
	return slices.Compact(all)
}

// TestCatalogues: every catalogue has exactly the texts that are used, with the same placeholders. To add a language,
// copy a file in catalogues, and translate it until this test passes.
func TestCatalogues(t *testing.T) {
	all, wrong := used()
	for _, w := range wrong {
		t.Error(w)
	}
	if len(all) < 100 {
		t.Fatalf("only %d texts", len(all))
	}
	for _, l := range All()[1:] {
		for text, u := range all {
			own, ok := l.texts[text]
			if !ok {
				missing, _ := json.Marshal(text)
				t.Errorf("%s lacks %s: \"\", of %s", l.Tag(), missing, u.where)
				continue
			}
			if strings.TrimSpace(own) == "" || strings.TrimSpace(own) != own {
				t.Errorf("%s: %q is %q", l.Tag(), text, own)
			}
			if got, want := placeholders(own), placeholders(string(text)); !slices.Equal(got, want) {
				t.Errorf("%s: %q has %v, and not %v", l.Tag(), own, got, want)
			}
		}
		for text := range l.texts {
			if _, ok := all[text]; !ok {
				t.Errorf("%s: nobody says %q any more", l.Tag(), text)
			}
		}
	}
}

// TestCatalogueFiles: texts stand in order, each once, so that people find them and changes can be read.
func TestCatalogueFiles(t *testing.T) {
	for _, l := range All()[1:] {
		name := filepath.Join("catalogues", l.Tag()+".json")
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		_ = enc.Encode(struct {
			Name  string          `json:"name"`
			Texts map[Text]string `json:"texts"`
		}{l.name, l.texts})
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s is not in order", name)
		}
	}
}

var (
	styles     = regexp.MustCompile(`(?s)<style>.*?</style>|<!--.*?-->`)
	actions    = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	elements   = regexp.MustCompile(`(?s)<[^>]*>`)
	attributes = regexp.MustCompile(`(?:alt|title|placeholder|aria-label|data-label|aria-description)="([^"]*)"`)
	letters    = regexp.MustCompile(`\pL+`)
)

// TestTemplatesSayAll: a template or script with texts has no others.
func TestTemplatesSayAll(t *testing.T) {
	var wrong []string
	for name, source := range sources(&wrong) {
		if strings.HasSuffix(name, ".js") {
			source = regexp.MustCompile(`(?m)//.*$`).ReplaceAllString(inScript.ReplaceAllString(source, ""), "")
			for _, text := range regexp.MustCompile(`'[^'\n]*\pL [^'\n]*\pL[^'\n]*'`).FindAllString(source, -1) {
				if strings.ContainsAny(text, "=:;,?()|") || text == "'use strict'" {
					continue // code
				}
				t.Errorf("%s: %s is not marked", name, text)
			}
			continue
		}
		source = actions.ReplaceAllString(styles.ReplaceAllString(source, ""), "")
		for _, a := range attributes.FindAllStringSubmatch(source, -1) {
			if letters.MatchString(a[1]) {
				t.Errorf("%s: %s is not marked", name, a[0])
			}
		}
		for _, text := range letters.FindAllString(elements.ReplaceAllString(source, ""), -1) {
			t.Errorf("%s: %q is not marked", name, text)
		}
	}
}
