// Command openapi writes console/openapi.json: the table of calls, with the comments in the source.
//
//	go generate ./console
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/console"
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
	c := comments{root: root, of: map[string]map[string]string{}}
	text, err := console.OpenAPI(console.Calls(), c.comment)
	if c.err != nil {
		return nil, c.err
	}
	return text, err
}
