package main

import (
	"fmt"
	"os"
	"path/filepath"

	"weir/internal/gen/source"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "configref:", err)
		os.Exit(1)
	}
}

// root is the root of the module, as go generate ./config sees it.
const root = ".."

func run() error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the content of each generated file, by its path below the root of the module.
func generate(root string) (map[string][]byte, error) {
	sections, err := describe(&source.Source{Root: root})
	if err != nil {
		return nil, err
	}
	example, err := os.ReadFile(filepath.Join(root, "examples", "full.yaml"))
	if err != nil {
		return nil, err
	}
	schema, err := schemaOf(sections)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"config/schema.json":    schema,
		"docs/configuration.md": page(sections, string(example)),
	}, nil
}
