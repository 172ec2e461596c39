package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// TestMemPot: the model by which Redis is checked is a pot itself.
func TestMemPot(t *testing.T) { testPot(t, func(*testing.T) *potRig { return memRig() }) }

// TestSimulatedPot: never more than a limit, whatever goes wrong, and what is unused can be had.
func TestSimulatedPot(t *testing.T) {
	needs.Unwatched(t)
	seeds := uint64(150)
	if needs.Long() {
		seeds = 3_000
	}
	for seed := range seeds {
		if err := simulatePot(seed, memRig()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// unhurried is a pot in memory that has no deadline: it waits for nobody, so that a deadline would only say how busy
// the machine is.
type unhurried struct{ farm.Pot }

func (p unhurried) Take(ctx context.Context, ask farm.Ask) (farm.Reply, error) {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return farm.Reply{}, err
	}
	return p.Pot.Take(context.WithoutCancel(ctx), ask)
}

// TestGuardedIsAPot: a guard changes nothing while the engine answers.
func TestGuardedIsAPot(t *testing.T) {
	testPot(t, func(*testing.T) *potRig {
		rig := memRig()
		rig.Pot = farm.Guard(unhurried{rig.Pot}, farm.GuardOptions{Now: time.Now})
		return rig
	})
}
