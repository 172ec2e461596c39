package main

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"weir/internal/testkit/needs"
)

// TestFarmExactRestarts: nodes are restarted, and later the engine comes back empty. What only a restarted node knew is
// on its disk: nothing is granted twice, and next to nothing is lost.
func TestFarmExactRestarts(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	nftables(t)
	const limit = 100
	f := growExact(t, 3, redisServer, monthly(limit)...)
	restart := func(i int, how syscall.Signal) {
		t.Helper()
		if err := f.nodes[i].Process.Signal(how); err != nil {
			t.Fatal(err)
		}
		<-f.nodes[i].ended
		f.start(i)
	}
	empty := func() {
		f.redis.kill()
		f.redis.start()
	}
	for _, c := range []struct {
		name  string
		do    func()
		least int
	}{
		{"cut from the others", func() {
			f.cutFrom(2, "7400", true)
			f.settled(0, 1)
			restart(2, syscall.SIGTERM)
			empty()
			f.rush(2*limit, 0, "cut from the others", func() int { return 0 })
			f.cutFrom(2, "7400", false)
			f.settled(0, 1, 2)
		}, limit},
		{"one restarted", func() {
			restart(2, syscall.SIGTERM)
			f.settled(0, 1, 2)
			if f.redis.ask("FLUSHALL") == "" {
				t.Error("nothing was flushed")
			}
		}, limit},
		{"one killed", func() {
			restart(2, syscall.SIGKILL)
			f.settled(0, 1, 2)
			empty()
		}, limit * 90 / 100},
		{"all restarted in turn", func() {
			for i := range f.nodes {
				restart(i, syscall.SIGTERM)
				f.settled(0, 1, 2)
			}
			empty()
		}, limit},
		{"engine empty while one is down", func() {
			if err := f.nodes[2].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-f.nodes[2].ended
			empty()
			f.eventually("both wait for the one that is down, and have no loan any more", func() bool {
				if f.drain(0, "engine empty while one is down", 0, 1) > 0 {
					return false
				}
				for i := range 2 {
					if c := f.status(i).Counters; !slices.Equal(c.Waiting, []string{"c"}) {
						return false
					}
				}
				return true
			})
			f.start(2)
			f.settled(0, 1, 2)
		}, limit * 90 / 100},
	} {
		for gate := range 2 {
			account := c.name
			if gate == 1 {
				account += " single"
			}
			for i, n := range []int{5, 5, 40} {
				f.rush(n, gate, account, func() int { return i })
			}
		}
		c.do()
		for gate := range 2 {
			account, least := c.name, c.least
			if gate == 1 {
				account += " single"
			}
			f.rush(3*limit, gate, account, func() int { return rand.IntN(3) })
			f.mustUseOf(account, limit, least)
		}
	}
}
