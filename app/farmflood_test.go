package app

import (
	"fmt"
	"testing"

	"weir/throttle/ban"
)

// TestFarmMakesUpForDrops: offences that a node cannot tell the others, because too many wait, are counted, and the
// others learn of them from a snapshot.
func TestFarmMakesUpForDrops(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	a := f.nodes[0]
	m := a.member.Load()
	m.bans.Wake(func() {}) // nothing is sent meanwhile
	offenders := 0
	for ; m.bans.Dropped() < 2; offenders++ {
		o := ban.Offence{Client: fmt.Sprint("offender-", offenders), Reason: "test", By: "test"}
		if err := a.bans.list.Offend(o, a.clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if s := (backend{a}).Farm().Status(); s.Dropped < 2 {
		t.Errorf("%d words were dropped, and the status says %d", m.bans.Dropped(), s.Dropped)
	}
	m.tellBans()
	for _, b := range f.nodes {
		f.eventually("all nodes have banned all offenders", func() bool {
			return b.bans.list.Stats().Clients == offenders
		})
	}
}
