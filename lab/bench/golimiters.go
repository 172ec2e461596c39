//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// goLimiters is Q1g: weir's limits beside other limiters for Go programs. They are measured by a benchmark of a module
// of its own, lab/golimiters, since weir does not need their modules.
func goLimiters(t *trial) (figures []figure) {
	const folder = "lab/golimiters"
	temp := t.folder()
	for _, name := range []string{"go.mod", "go.sum"} {
		check(os.WriteFile(filepath.Join(temp, name), try(os.ReadFile(filepath.Join(folder, name))), 0o600))
	}
	program := filepath.Join(temp, "golimiters.test")
	// A copy of go.mod, which follows the versions in weir's: the file itself may be behind.
	build := exec.CommandContext(t.context(), "go", "test", "-c", "-mod=mod", "-modfile="+filepath.Join(temp, "go.mod"),
		"-buildvcs=false", "-o", program, ".")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		check(fmt.Errorf("the modules of the peers cannot be had: %s: %w", out, errors.ErrUnsupported))
	}
	nanos, allocs := map[string][]float64{}, map[string]float64{}
	for range pick(t, 15, 1) {
		out := output(exec.CommandContext(t.context(), program, "-test.run", "^$", "-test.bench", ".", "-test.benchtime",
			pick(t, "400000x", "20000x")))
		for name, got := range reported(out) {
			nanos[name], allocs[name] = append(nanos[name], got["ns/op"]), got["allocs/op"]
		}
	}
	of := map[string][]string{} // what the sides of a case got
	for _, name := range slices.Sorted(maps.Keys(nanos)) {
		parts := strings.SplitN(strings.ReplaceAll(name, "_", " "), "/", 3)
		of[parts[1]] = append(of[parts[1]], fmt.Sprintf("%s %.2f M/s, %.0f", parts[2], 1e3/median(nanos[name]), allocs[name]))
	}
	for _, c := range slices.Sorted(maps.Keys(of)) {
		figures = append(figures, figure{"limiters for Go programs, " + c + ": decisions/s, allocations",
			[]value{{text: strings.Join(of[c], "; ")}}, ""})
	}
	return figures
}
