// Command openapi writes console/openapi.json: the table of calls, with the comments in the source.
//
//	go generate ./console
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"weir/console"
	"weir/internal/gen/source"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

// root is the root of the module, as go generate ./console sees it.
const root = ".."

func run() error {
	text, err := generate(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, file), text, 0o644)
}

// file is where the document is, below the root of the module.
const file = "console/openapi.json"

func generate(root string) ([]byte, error) {
	s := source.Source{Root: root}
	var missing error
	text, err := console.OpenAPI(console.Calls(), func(t reflect.Type, field string) string {
		if field != "" {
			field = "." + field
		}
		if !strings.HasPrefix(t.PkgPath()+"/", "weir/") {
			return ""
		}
		comment, err := s.Comment(t, field)
		missing = errors.Join(missing, err)
		return comment
	})
	return text, errors.Join(err, missing)
}
