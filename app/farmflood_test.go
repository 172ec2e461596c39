package app

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/needs"
	"weir/store"
	"weir/throttle/ban"
)

// TestFarmMakesUpForDrops: offences that a node cannot tell the others, because too many wait, are counted, and the
// others learn of them from a snapshot.
func TestFarmMakesUpForDrops(t *testing.T) {
	t.Parallel()
	f := newFoldOf(t, func(int) string {
		return `
console: {listen: "off"}
http: [{listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1", throttles: [plans]}]
throttles: {plans: {quota: {policies: [{name: per-day, limit: 30, period: 1d}]}}}
bans: {max: 100}
`
	})
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
	for last := offenders - 2; last < offenders; last++ {
		key := store.BanKey{Client: fmt.Sprint("offender-", last)}
		for _, b := range f.nodes {
			needs.Wait(f.t, key.String()+" is banned at all nodes", func() bool {
				_, found := b.bans.list.Get(key, b.clock.Now())
				return found
			})
		}
	}
}

// TestFarmAgreesAfterOrdersAtOnce: operators of all nodes ban and lift the same clients and networks that overlap, at
// the same time. Then all nodes have the same list.
func TestFarmAgreesAfterOrdersAtOnce(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	who := []string{"198.51.100.0/24", "198.51.100.0/25", "198.51.100.7", "::ffff:198.51.100.7", "2001:db8::/32",
		"2001:db8::7", "client:x"}
	var all sync.WaitGroup
	for i, a := range f.nodes {
		draw := rand.New(rand.NewPCG(18, uint64(i)))
		all.Go(func() {
			b := backend{a}
			for k := range 60 {
				one, by := who[draw.IntN(len(who))], fmt.Sprintf("%c-%d", 'a'+i, k)
				var err error
				if draw.IntN(2) == 0 {
					_, err = b.Ban(t.Context(), console.BanOrder{Who: one}, by)
				} else {
					_, err = b.Unban(t.Context(), one, by)
				}
				var told *console.Error
				if err != nil && (!errors.As(err, &told) || told.Code != http.StatusNotFound) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	lists := func() (lists [3][]store.Ban) {
		for i, a := range f.nodes {
			lists[i] = a.bans.list.All(time.Now())
		}
		return lists
	}
	needs.Wait(f.t, "all have the same list", func() bool {
		l := lists()
		same := func(a, b store.Ban) bool { return a.Equal(&b) }
		return slices.EqualFunc(l[0], l[1], same) && slices.EqualFunc(l[0], l[2], same)
	})
	f.shares()
}
