package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// The points, and the plot that is made of them, by their paths below the root of the module.
const (
	pointsFile = "lab/bench/bloomcollateral.csv"
	plotFile   = "docs/img/bloom-collateral.svg"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	plot, err := generate(filepath.Join(root, pointsFile))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, plotFile), plot, 0o644)
}

func generate(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("there are no points to draw (go run ./lab/bench -only B4 -write makes them): %w", err)
	}
	defer f.Close()
	points, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return draw(points)
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
