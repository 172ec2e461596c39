//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"weir/lab/machine"
)

// A result is a line of the table.
type result struct {
	id string
	figure
}

func (r result) verdict() string {
	if r.met {
		return "yes"
	}
	return "**no**"
}

func (r result) line() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.id, r.what, r.target, r.got, r.verdict())
}

const resultsFile = "lab/bench/RESULTS.md"

const resultsHead = `# Results

Made by ` + "`go run ./lab/bench -write`" +
	` on %s. Each comparison runs both sides in the same process or on the same machine,
interleaved, and gives the ratio of the medians over the rounds; only ratios are worth comparing between machines.

` + tableHead

const tableHead = `| # | measure | target | figure | met |
|---|---|---|---|---|
`

// writeResults writes a whole table, or the lines of some rows into the one that there is.
func writeResults(results []result, whole bool) error {
	page := fmt.Sprintf(resultsHead, machine.Describe())
	if !whole {
		text, err := os.ReadFile(resultsFile)
		if err != nil {
			return err
		}
		page = string(text)
	}
	page, err := mergeResults(page, results)
	if err != nil {
		return fmt.Errorf("%s: %w", resultsFile, err)
	}
	return os.WriteFile(resultsFile, []byte(page), 0o644)
}

// errNoTable is the error of a page without the table of results.
var errNoTable = errors.New("there is no table of results")

// mergeResults puts results into the table of a page, in the order of the rows. All lines of the same rows are
// replaced; the others, and what stands around the table, stay.
func mergeResults(page string, results []result) (string, error) {
	head, rest, found := strings.Cut(page, tableHead)
	if !found {
		return "", errNoTable
	}
	type entry struct {
		id   string
		line string
	}
	var table []entry
	for _, r := range results {
		table = append(table, entry{r.id, r.line()})
	}
	for strings.HasPrefix(rest, "| ") {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !slices.ContainsFunc(results, func(r result) bool { return r.id == id }) {
			table = append(table, entry{id, line + "\n"})
		}
	}
	slices.SortStableFunc(table, func(a, b entry) int { return place(a.id) - place(b.id) })
	var b strings.Builder
	b.WriteString(head + tableHead)
	for _, e := range table {
		b.WriteString(e.line)
	}
	b.WriteString(rest)
	return b.String(), nil
}

// place is where a row stands in the table. One that is no longer measured stands at the end.
func place(id string) int {
	for i, r := range rows {
		if r.id == id {
			return i
		}
	}
	return len(rows)
}
