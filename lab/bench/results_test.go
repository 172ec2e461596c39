//go:build linux

package main

import (
	"slices"
	"testing"

	"weir/throttle/stamp"
)

// TestMerged: lines of the commands that were run are replaced, also by more or fewer than there were, in the order of
// the rows. The others stay, but for rows that are gone.
func TestMerged(t *testing.T) {
	line := func(id, what, more string) string {
		return "| " + id + " | " + what + " | ≥ 1 | 2 | yes | `go run ./lab/bench -only " + id + more + "` | 1234abcd |"
	}
	page := "# Results\n\nSome words | with a bar.\n\n| # | measure |\n|---|---|\n" + line("B1", "a", "") + "\n" +
		line("S9", "old", "") + "\n" + line("S9", "old too", "") + "\n" + line("S9", "other", " -algorithm eqs60") + "\n" +
		line("X9", "gone", "") + "\n"
	of := func(got value) []figure { return []figure{{"new", []value{got}, "detail"}} }
	added := lines("S9", stamp.SHA256K, "5678abcd", of(least(1, 0.5, "%.2f ×")))
	added = append(added, lines("Q3", stamp.SHA256K, "5678abcd", of(beside(2, "%.0f KB")))...)
	want := []string{
		line("B1", "a", ""),
		"| S9 | new | ≥ 1 × | 0.50 × (detail) | **no** | `go run ./lab/bench -only S9` | 5678abcd |",
		line("S9", "other", " -algorithm eqs60"),
		"| Q3 | new | – | 2 KB (detail) | – | `go run ./lab/bench -only Q3` | 5678abcd |",
	}
	if got := merged(page, added); !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

// TestFigure: a figure has the targets of its values, and is met if all are.
func TestFigure(t *testing.T) {
	f := figure{"", []value{least(13, 16.42, "%.1f × faster"), none(0), within(0.95, 1.05, 1, "%.3f"),
		beside(1, "%.2f %%")}, ", on a busy machine"}
	if got, want := f.target(), "≥ 13 × faster, 0, 0.95 to 1.05"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := f.got(), "16.4 × faster, 0, 1.000, 1.00 % (on a busy machine)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if f.verdict() != "yes" {
		t.Error(f.verdict())
	}
	if f.values = append(f.values, most(1.7, 1.71, "%.2f")); f.verdict() != "**no**" {
		t.Error(f.verdict())
	}
}
