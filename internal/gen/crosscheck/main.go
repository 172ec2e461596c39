package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	root, err := os.Getwd()
	for _, target := range os.Args[1:] {
		n, wrong := check(root, target)
		err = errors.Join(err, wrong)
		fmt.Printf("%s: %d packages\n", target, n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check type-checks the module in a folder for a target such as windows/arm64, and returns how many packages it has
// there.
func check(root, target string) (n int, err error) {
	system, arch, _ := strings.Cut(target, "/")
	all, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes |
			packages.NeedSyntax | packages.NeedTypesSizes | packages.NeedModule,
		Env: append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0"),
		ParseFile: func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
			file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
			if file != nil && !strings.HasPrefix(name, root+string(filepath.Separator)) {
				for _, d := range file.Decls { // of others, only what they offer matters
					if f, ok := d.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return file, err
		},
	}, "./...")
	if err != nil {
		return 0, err
	}
	packages.Visit(all, nil, func(p *packages.Package) {
		if p.Module == nil || !p.Module.Main {
			return
		}
		n++
		for _, e := range p.Errors {
			err = errors.Join(err, fmt.Errorf("%s: %w", target, e))
		}
	})
	return n, err
}
