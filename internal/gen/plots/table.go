package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The page that has the table of phases between two marks, and the points of the table.
const (
	phasesPage   = "docs/performance.md"
	phasesPoints = "lab/bench/proxyphases.csv"
	phasesRow    = "Q2p"
	phasesBegin  = "<!-- Made by go generate ./internal/gen/plots from lab/bench/proxyphases.csv. Do not edit. -->\n"
	phasesEnd    = "<!-- The end of what is made. -->\n"
)

// errMarks is the error of a page without the marks, each once and in order.
var errMarks = errors.New("the page has no marks for its table")

// fill puts a table between the marks of a page.
func fill(page []byte, table string) ([]byte, error) {
	before, rest, begun := bytes.Cut(page, []byte(phasesBegin))
	_, after, ended := bytes.Cut(rest, []byte(phasesEnd))
	if !begun || !ended || bytes.Contains(after, []byte(phasesEnd)) || bytes.Contains(rest, []byte(phasesBegin)) {
		return nil, errMarks
	}
	return []byte(string(before) + phasesBegin + "\n" + table + "\n" + phasesEnd + string(after)), nil
}

// tabulate makes a table of the phases of a request: their time, and the share of it. The last line is the sum.
func tabulate(r io.Reader) (string, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return "", err
	}
	if len(rows) < 2 || len(rows[0]) != 2 || rows[0][0] != "phase" || rows[0][1] != "us" {
		return "", errors.New("there are no phases")
	}
	var sum float64
	var times []float64
	for i, row := range rows[1:] {
		t, err := strconv.ParseFloat(row[1], 64)
		if err != nil || !(t >= 0 && t < 1e9) {
			return "", fmt.Errorf("line %d: us is %q", i+2, row[1])
		}
		times, sum = append(times, t), sum+t
	}
	if sum == 0 {
		return "", errors.New("no phase took any time")
	}
	var b strings.Builder
	b.WriteString("| phase | µs of a processor | share |\n|---|---|---|\n")
	for i, row := range rows[1:] {
		fmt.Fprintf(&b, "| %s | %.2f | %.0f %% |\n", row[0], times[i], 100*times[i]/sum)
	}
	fmt.Fprintf(&b, "| **together** | **%.1f** | |\n", sum)
	return b.String(), nil
}
