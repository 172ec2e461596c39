// Package source reads comments and constants from the source folders of the module, for what is generated of them.
package source

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// module is the path of the module, which import paths start with.
const module = "weir"

// A Source is the folder of the module. Packages are read once.
type Source struct {
	Root     string
	packages map[string]*docs
}

// docs are what is known of one package.
type docs struct {
	comments map[string]string   // by Type and Type.Field
	values   map[string][]string // string constants by their type, in the order of the source
}

func (s *Source) of(importPath string) (*docs, error) {
	if p, known := s.packages[importPath]; known {
		return p, nil
	}
	below, inside := strings.CutPrefix(importPath, module)
	if !inside {
		return nil, fmt.Errorf("%s is not part of the module: its types have no comments here", importPath)
	}
	names, err := filepath.Glob(filepath.Join(s.Root, filepath.FromSlash(below), "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no source of %s: %v", importPath, err)
	}
	p := &docs{comments: map[string]string{}, values: map[string][]string{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				p.read(d)
			}
		}
	}
	if s.packages == nil {
		s.packages = map[string]*docs{}
	}
	s.packages[importPath] = p
	return p, nil
}

func (p *docs) read(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc
			if doc == nil {
				doc = d.Doc
			}
			p.comments[spec.Name.Name] = oneLine(doc.Text())
			if t, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range t.Fields.List {
					for _, name := range f.Names {
						p.comments[spec.Name.Name+"."+name.Name] = cmp.Or(oneLine(f.Comment.Text()),
							oneLine(f.Doc.Text()))
					}
				}
			}
		case *ast.ValueSpec:
			t, typed := spec.Type.(*ast.Ident)
			if d.Tok != token.CONST || !typed {
				continue
			}
			for _, value := range spec.Values {
				if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						p.values[t.Name] = append(p.values[t.Name], text)
					}
				}
			}
		}
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Comment returns the comment of a type, or of one of its fields: ".Name". It is empty where there is none.
func (s *Source) Comment(t reflect.Type, field string) (string, error) {
	p, err := s.of(t.PkgPath())
	if err != nil {
		return "", err
	}
	return p.comments[t.Name()+field], nil
}

// ClosedSet returns the words that a value of a string type may be: the constants of that type. A plain string has
// none.
func (s *Source) ClosedSet(t reflect.Type) ([]string, error) {
	if t.Kind() != reflect.String || t.PkgPath() == "" {
		return nil, nil
	}
	p, err := s.of(t.PkgPath())
	if err != nil {
		return nil, err
	}
	if len(p.values[t.Name()]) == 0 {
		return nil, fmt.Errorf("%s is a type of its own but has no constants", t)
	}
	return p.values[t.Name()], nil
}
