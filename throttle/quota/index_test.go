package quota

import (
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// The index does what a map does.
func TestIndexIsAMap(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		var x index
		model := map[uint64]*account{}
		// Few hashes, so that they crowd each other.
		hash := rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.Uint64Range(0, 40).Draw(t, "home")<<8 | rapid.Uint64Range(0, 3).Draw(t, "rest")<<60
		})
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			h := hash.Draw(t, "hash")
			switch a := model[h]; {
			case a == nil:
				a = &account{hash: h}
				x.put(a)
				model[h] = a
			case rapid.Bool().Draw(t, "remove"):
				x.remove(a)
				delete(model, h)
			}
			if x.n != len(model) {
				t.Fatalf("%d entries, want %d", x.n, len(model))
			}
			for h := range uint64(41) {
				for rest := range uint64(4) {
					if h := h<<8 | rest<<60; x.get(h) != model[h] {
						t.Fatalf("%x is lost, or found when it should not be", h)
					}
				}
			}
		}
	})
}
