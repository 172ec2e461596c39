package main

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

// source reads comments and constants from the source folders of a module. Packages are read once.
type source struct {
	root     string
	packages map[string]*packageDocs
}

// packageDocs is what is known of one package.
type packageDocs struct {
	comments map[string]string   // by Type and Type.Field
	values   map[string][]string // string constants by their type, in the order of the source
}

func (s *source) of(importPath string) (*packageDocs, error) {
	if p, known := s.packages[importPath]; known {
		return p, nil
	}
	below, inside := strings.CutPrefix(importPath, module)
	if !inside {
		return nil, fmt.Errorf("%s is not part of the module: its types have no comments here", importPath)
	}
	names, err := filepath.Glob(filepath.Join(s.root, filepath.FromSlash(below), "*.go"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no source of %s: %v", importPath, err)
	}
	p := &packageDocs{comments: map[string]string{}, values: map[string][]string{}}
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
		s.packages = map[string]*packageDocs{}
	}
	s.packages[importPath] = p
	return p, nil
}

func (p *packageDocs) read(d *ast.GenDecl) {
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
						p.comments[spec.Name.Name+"."+name.Name] = cmp.Or(oneLine(f.Doc.Text()),
							oneLine(f.Comment.Text()))
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

// comment returns the comment of a type, or of one of its fields: ".Name". All have one, or the reference would have a
// hole.
func (s *source) comment(t reflect.Type, field string) (string, error) {
	p, err := s.of(t.PkgPath())
	if err != nil {
		return "", err
	}
	doc := p.comments[t.Name()+field]
	if doc == "" {
		return "", fmt.Errorf("%s%s has no comment", t, field)
	}
	return doc, nil
}

// closedSet returns the words that a value of a string type may be: the constants of that type. A plain string has
// none.
func (s *source) closedSet(t reflect.Type) ([]string, error) {
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
