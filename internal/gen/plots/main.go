package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// plots are the points, and the plots that are made of them, by their paths below the root of the module.
var plots = []struct {
	row    string // of lab/bench
	points string
	plot   string
	draw   func(io.Reader) ([]byte, error)
}{
	{"B4", "lab/bench/bloomcollateral.csv", "docs/img/bloom-collateral.svg", drawCollateral},
	{"Q2g", "lab/bench/proxyconnections.csv", "docs/img/proxy-connections.svg", byConnections.draw},
	{"Q2g", "lab/bench/proxyaccounts.csv", "docs/img/proxy-accounts.svg", byAccounts.draw},
	{"Q2g", "lab/bench/proxythrottles.csv", "docs/img/proxy-throttles.svg", byThrottles.draw},
	{"Q2g", "lab/bench/proxywaiting.csv", "docs/img/proxy-waiting.svg", byWaiting.draw},
	{"Q2g", "lab/bench/proxywaiting.csv", "docs/img/proxy-memory.svg", memoryByWaiting.draw},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

// root is the root of the module, as go generate and the tests see it.
const root = "../../.."

func run() error {
	for i := range plots {
		picture, err := generate(i, filepath.Join(root, plots[i].points))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, plots[i].plot), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate draws one of the plots.
func generate(i int, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("there are no points to draw (go run ./lab/bench -only %s -write makes them): %w",
			plots[i].row, err)
	}
	defer f.Close()
	picture, err := plots[i].draw(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return picture, nil
}

func drawCollateral(r io.Reader) ([]byte, error) {
	points, err := read(r)
	if err != nil {
		return nil, err
	}
	return draw(points)
}
