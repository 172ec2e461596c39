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

// root is the root of the module, as go generate and the tests see it.
const root = "../../.."

func run() error {
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
