package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "configref:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
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
	sections, err := describe(&source{root: root})
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

// moduleRoot looks for go.mod from the working folder upwards.
func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", fmt.Errorf("there is no go.mod in any folder above")
		}
		folder = parent
	}
}
