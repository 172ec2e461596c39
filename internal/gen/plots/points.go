package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"weir/throttle/bloom"
)

// A point is one measurement: what share of innocent networks a table refused while so many attacked.
type point struct {
	attackers float64
	k         int
	lines     int
	measured  float64
}

// perMiB is how many attackers there are for each MiB of the table. The formula knows nothing else of its size.
func (p point) perMiB() float64 { return p.attackers * (1 << 20) / float64(p.lines*bloom.LineBytes) }

// read reads points from a table with a head. Columns that are not needed may stand between the others.
func read(r io.Reader) ([]point, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) < 2 {
		return nil, errors.New("there are no points")
	}
	var points []point
	for i, row := range rows[1:] {
		var p point
		var k, lines float64
		for _, c := range []struct {
			name string
			to   *float64
		}{{"attackers", &p.attackers}, {"k", &k}, {"lines", &lines}, {"measured", &p.measured}} {
			at := slices.Index(rows[0], c.name)
			if at < 0 {
				return nil, fmt.Errorf("there is no column %q", c.name)
			}
			if *c.to, err = strconv.ParseFloat(row[at], 64); err != nil || *c.to <= 0 {
				return nil, fmt.Errorf("line %d: %s is %q", i+2, c.name, row[at])
			}
		}
		p.k, p.lines = int(k), int(lines)
		points = append(points, p)
	}
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.k, b.k), cmp.Compare(a.perMiB(), b.perMiB()), cmp.Compare(a.measured, b.measured))
	})
	return points, nil
}
