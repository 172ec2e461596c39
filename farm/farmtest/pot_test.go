package farmtest

import (
	"testing"

	"weir/internal/testkit/needs"
)

func TestMemPot(t *testing.T) { TestPot(t, func(*testing.T) *PotRig { return MemRig() }) }

// TestSimulatedPot: never more than a limit, whatever goes wrong, and what is unused can be had.
func TestSimulatedPot(t *testing.T) {
	needs.Unwatched(t)
	seeds := uint64(150)
	if needs.Long() {
		seeds = 3_000
	}
	for seed := range seeds {
		if err := SimulatePot(seed, MemRig()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
