package main

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"weir/internal/plot"
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
	rows, err := columns(r, math.SmallestNonzeroFloat64, "attackers", "k", "lines", "measured")
	if err != nil {
		return nil, err
	}
	var points []point
	for _, row := range rows {
		points = append(points, point{row[0], int(row[1]), int(row[2]), row[3]})
	}
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.k, b.k), cmp.Compare(a.perMiB(), b.perMiB()), cmp.Compare(a.measured, b.measured))
	})
	return points, nil
}

// columns reads columns of a table with a head, of numbers that are not smaller than least.
func columns(r io.Reader, least float64, names ...string) (all [][]float64, err error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) < 2 {
		return nil, errors.New("there are no points")
	}
	for i, row := range rows[1:] {
		var values []float64
		for _, name := range names {
			at := slices.Index(rows[0], name)
			if at < 0 {
				return nil, fmt.Errorf("there is no column %q", name)
			}
			value, err := strconv.ParseFloat(row[at], 64)
			if err != nil || !plot.Finite(value) || value < least {
				return nil, fmt.Errorf("line %d: %s is %q", i+2, name, row[at])
			}
			values = append(values, value)
		}
		all = append(all, values)
	}
	return all, nil
}
