package quota

import (
	"testing"
	"testing/synctest"
	"time"

	"weir"
)

// TestPrompt: a quota answers from memory, unless it borrows from an engine.
func TestPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Policies: []Policy{{Name: "minute", Limit: Amount{N: 5, Set: true},
			Period: weir.Period{Length: time.Minute}, Farm: FarmExact}}}
		q, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if !q.Prompt() {
			t.Error("a quota that asks nobody says that it may wait")
		}
		f := newLendingFarm(t, 1, o)
		defer f.close()
		if f.nodes[0].Prompt() {
			t.Error("a quota that borrows says that it does not wait")
		}
	})
}
