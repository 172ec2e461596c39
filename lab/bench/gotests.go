//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// goTest runs tests of a package and returns what they print. It links as make test does, and leaves vetting to make
// lint.
func (t *trial) goTest(pkg string, args ...string) (string, error) {
	cmd := exec.CommandContext(t.context(), "go", slices.Concat([]string{"test", "-count=1", "-vet=off", "-ldflags=-w"}, args,
		[]string{pkg})...)
	cmd.Env = append(os.Environ(), "CI=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// long has tests run at full size until the trial ends, unless it is a quick one.
func (t *trial) long() {
	if !t.quick {
		check(os.Setenv("WEIR_LONG", "1"))
		t.cleanup(func() { _ = os.Unsetenv("WEIR_LONG") })
	}
}

// logged runs a test and returns the numbers that it logs: some figures are properties of what is not exported, and are
// measured where they are tested.
func (t *trial) logged(pkg, test, pattern string) (figures []float64) {
	out, err := t.goTest(pkg, "-v", "-run", test)
	found := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if err != nil || found == nil {
		check(fmt.Errorf("%s has no figure: %w: %s", test, errors.Join(err, errors.ErrUnsupported), out))
	}
	for _, s := range found[1:] {
		figures = append(figures, try(strconv.ParseFloat(s, 64)))
	}
	return figures
}

// benchmarks are what benchmarks report: by their names without Benchmark, by unit.
type benchmarks map[string]map[string]float64

// of returns what a benchmark has reported.
func (b benchmarks) of(name string) map[string]float64 {
	if b[name] == nil {
		check(fmt.Errorf("there is nothing of %s: %v", name, b))
	}
	return b[name]
}

// benchmark runs a benchmark of a package. A row whose benchmark is skipped is left out.
func (t *trial) benchmark(pkg, name, times string) benchmarks {
	out, err := t.goTest(pkg, "-run", "^$", "-bench", "^Benchmark"+name+"$", "-benchtime", times,
		pick(t, "-short=false", "-short"))
	if err != nil {
		check(fmt.Errorf("%w: %s", err, out))
	}
	all := reported(out)
	if len(all) == 0 {
		check(fmt.Errorf("%w: %s", fs.ErrPermission, out))
	}
	return all
}

// reported reads what go test prints about benchmarks.
func reported(out string) benchmarks {
	all := benchmarks{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if at := strings.LastIndexByte(name, '-'); at >= 0 { // the number of processors
			name = name[:at]
		}
		all[name] = map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				all[name][fields[i+1]] = value
			}
		}
	}
	return all
}
