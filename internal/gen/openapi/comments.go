package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// comments are what is written beside types and their fields.
type comments struct {
	root string
	of   map[string]map[string]string // by package, then by Type or Type.Field
	err  error
}

// comment returns what is written beside a field, or above a type if the field is empty.
func (c *comments) comment(t reflect.Type, field string) string {
	inside, ours := strings.CutPrefix(t.PkgPath()+"/", "weir/")
	if !ours {
		return ""
	}
	if c.of[inside] == nil {
		c.of[inside] = map[string]string{}
		if err := c.read(filepath.Join(c.root, inside), c.of[inside]); err != nil && c.err == nil {
			c.err = err
		}
	}
	if field == "" {
		return c.of[inside][t.Name()]
	}
	return c.of[inside][t.Name()+"."+field]
}

func (c *comments) read(folder string, into map[string]string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, f.Name()), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range tree.Decls {
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, spec := range types.Specs {
				readType(spec.(*ast.TypeSpec), types.Doc, into)
			}
		}
	}
	return nil
}

func readType(t *ast.TypeSpec, doc *ast.CommentGroup, into map[string]string) {
	if t.Doc != nil {
		doc = t.Doc
	}
	into[t.Name.Name] = plain(doc)
	fields, ok := t.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		text := plain(f.Comment)
		if text == "" {
			text = plain(f.Doc)
		}
		for _, name := range f.Names {
			into[t.Name.Name+"."+name.Name] = text
		}
	}
}

// plain is the text of a comment in one line.
func plain(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	return strings.Join(strings.Fields(c.Text()), " ")
}
