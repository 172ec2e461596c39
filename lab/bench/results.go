//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"weir/lab/machine"
	"weir/throttle/stamp"
)

const (
	resultsFile = "lab/bench/RESULTS.md"
	resultsHead = `# Results

Made by ` + "`go run ./lab/bench -write`" + `: do not edit. Each line says with which command and at which commit it was measured, the last of them
on %s. Both sides of a comparison run on the same machine, interleaved, and the figure is the
ratio of the medians over the rounds: only ratios are worth comparing between machines.

| # | measure | target | figure | met | command | commit |
|---|---|---|---|---|---|---|
`
)

// lines are the lines of the table that a row makes.
func lines(id string, a stamp.Algorithm, commit string, figures []figure) (all []string) {
	for _, f := range figures {
		all = append(all, fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |", id, f.what, f.target(), f.got(), f.verdict(),
			command(id, a), commit))
	}
	return all
}

// command is what measures a row again.
func command(id string, a stamp.Algorithm) string {
	more := ""
	if a != stamp.SHA256K {
		more = fmt.Sprint(" -algorithm ", a)
	}
	return fmt.Sprintf("`go run ./lab/bench -only %s%s`", id, more)
}

// commit names what is measured.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*").Output()
	if err != nil {
		return "–"
	}
	return strings.TrimSpace(string(out))
}

// writeResults puts lines into the table that there is.
func writeResults(added []string) error {
	old, err := os.ReadFile(resultsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	table := strings.Join(merged(string(old), added), "\n")
	return os.WriteFile(resultsFile, []byte(fmt.Sprintf(resultsHead, machine.Describe())+table+"\n"), 0o644)
}

// merged are the lines of a page and those that were added, in the order of the rows. Lines that were made by the same
// commands are replaced, and those of rows that are no longer measured are left out.
func merged(page string, added []string) (all []string) {
	all = slices.Clone(added)
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		same := func(other string) bool { return cell(line, 1) == cell(other, 1) && cell(line, 6) == cell(other, 6) }
		if place(line) >= 0 && !slices.ContainsFunc(added, same) {
			all = append(all, line)
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return place(a) - place(b) })
	return all
}

// cell is a cell of a line of the table, or "".
func cell(line string, n int) string {
	cells := strings.Split(line, " | ")
	if n > len(cells) {
		return ""
	}
	return strings.TrimPrefix(cells[n-1], "| ")
}

// place is where a line stands in the table, or -1 if it is none.
func place(line string) int {
	return slices.IndexFunc(rows, func(r row) bool { return r.id == cell(line, 1) })
}
