//go:build linux

package main

import (
	"errors"
	"testing"
)

// TestMergeResults: lines of the rows that were measured are replaced, also by more or fewer than there were, in the
// order of the rows. All else stays.
func TestMergeResults(t *testing.T) {
	const before, after = "# Results\n\nSome words | with a bar.\n\n" + tableHead, "\nAfterwards.\n"
	page := before + "| B1 | a | b | c | yes |\n| Q2 | old | 1 | 2 | **no** |\n| Q2 | old too | 1 | 2 | yes |\n" +
		"| Q8 | d | e | f | yes |\n| X9 | gone | e | f | yes |\n" + after
	got, err := mergeResults(page, []result{{"Q2", figure{"new", "≥ 1", "2", true}},
		{"Q3", figure{"more", "≤ 1", "2", false}}, {"Q3", figure{"and more", "–", "2", true}}})
	want := before + "| B1 | a | b | c | yes |\n| Q2 | new | ≥ 1 | 2 | yes |\n| Q3 | more | ≤ 1 | 2 | **no** |\n" +
		"| Q3 | and more | – | 2 | yes |\n| Q8 | d | e | f | yes |\n| X9 | gone | e | f | yes |\n" + after
	if err != nil || got != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, got, want)
	}
	if got, err := mergeResults(page, nil); err != nil || got != page {
		t.Errorf("nothing is merged, and it changes (%v):\n%s", err, got)
	}
	if _, err := mergeResults("# Results\n", nil); !errors.Is(err, errNoTable) {
		t.Error(err)
	}
}
