package quota

import (
	"testing"

	"pgregory.net/rapid"
)

// A ring holds what an array of large numbers holds.
func TestRingIsAnArray(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var model [buckets + 1]int64
		r := new(ring)
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			slot := rapid.Int64Range(0, buckets).Draw(t, "slot")
			model[slot] = rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(1<<32-2, 1<<32+2),
				rapid.Int64Range(0, never)).Draw(t, "n")
			r.set(slot, model[slot])
			c := r.copy()
			if rapid.Bool().Draw(t, "copy") {
				r, c = c, r
			}
			c.set(slot, 7) // the other one does not notice
			for i, n := range model {
				if r.at(int64(i)) != n {
					t.Fatalf("part %d is %d, want %d", i, r.at(int64(i)), n)
				}
			}
		}
		r.changed = 0
		r.forget()
		for i, n := range model {
			if marked := r.changed&(1<<i) != 0; r.at(int64(i)) != 0 || marked != (n != 0) {
				t.Fatalf("part %d was %d and is %d, marked %v", i, n, r.at(int64(i)), marked)
			}
		}
	})
}
