package quota

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// The document's case: a limit of four a second, and five requests, one to each of five servers.
func TestFiveServersKeepOneLimit(t *testing.T) {
	needs.Unwatched(t)
	for _, window := range []WindowKind{Fixed, Sliding, GCRA} {
		w := newWorld(t, 1, 5, lan, policy(window, 4, time.Second)).start()
		w.Run(5 * time.Millisecond) // clocks differ a little where a period begins
		for round := range 50 {
			account := fmt.Sprint("account ", round)
			for i, n := range w.nodes {
				if v := n.ask(account); (v.answer.Verdict == weir.Admit) != (i < 4) {
					t.Errorf("%s, round %d: server %d says %s", window, round, i, v.answer.Verdict)
				}
				w.Run(20 * time.Millisecond)
			}
		}
	}
}

// Six nodes under load stay close to the limit: at most what the others grant until they are told, and at a steady rate
// nothing in the long run.
func TestOvershoot(t *testing.T) {
	needs.Unwatched(t)
	const limit, seconds = 1000, 3
	for _, c := range []struct {
		window  WindowKind
		offered int // a second
		most    int // in a second
		all     int
	}{
		{Fixed, 4000, limit * 101 / 100, limit * 101 / 100 * seconds},
		{Fixed, 20000, limit * 104 / 100, limit * 104 / 100 * seconds},
		{Sliding, 4000, limit * 101 / 100, limit * 101 / 100 * seconds},
		{Sliding, 20000, limit * 104 / 100, limit * 104 / 100 * seconds},
		{GCRA, 4000, 2 * limit * 101 / 100, limit * (seconds + 1) * 1005 / 1000},
		{GCRA, 20000, 2 * limit * 101 / 100, limit * (seconds + 1) * 1005 / 1000},
	} {
		t.Run(fmt.Sprintf("%s %d", c.window, c.offered), func(t *testing.T) {
			w := newWorld(t, 1, 6, lan, policy(c.window, limit, time.Second)).start()
			rnd := rand.New(rand.NewPCG(1, 1))
			w.Every(time.Second/time.Duration(c.offered), func() bool {
				w.nodes[rnd.IntN(6)].ask("x")
				return true
			})
			w.Run(seconds * time.Second)
			worst := 0
			for _, n := range w.perPeriod("x", time.Second) {
				worst = max(worst, n)
			}
			if all := len(w.granted["x"]); worst > c.most || all > c.all || all < limit*seconds*99/100 {
				t.Errorf("%d in the worst second, %d in all; at most %d, and %d", worst, all, c.most, c.all)
			}
		})
	}
}

// Only where no places come free and nobody waits does it change nothing that a node is lost and found.
func TestLasting(t *testing.T) {
	needs.Unwatched(t)
	minute := weir.Period{Length: time.Minute}
	for _, c := range []struct {
		policy Policy
		lasts  bool
	}{
		{Policy{Limit: Count(10), Period: minute}, true},
		{Policy{Limit: Count(10), Period: minute, Window: Sliding}, true},
		{Policy{Limit: Count(10), Period: minute, Window: GCRA}, true},
		{Policy{Limit: Count(10), Period: minute, Over: OverDelay}, false},
		{Policy{Limit: Count(10), Kind: Concurrent}, false},
		{Policy{Limit: Count(10), Kind: Concurrent, Farm: FarmLocal}, true},
		{Policy{Limit: Bytes(1e6), Kind: Volume, Period: minute}, false},
	} {
		c.policy.Name = "p"
		q, err := New(one(c.policy))
		if err != nil {
			t.Fatal(err)
		}
		if s := q.Share("a", 1, func([]byte) error { return nil }); s.Lasting() != c.lasts {
			t.Errorf("%+v: lasting is %t", c.policy, s.Lasting())
		}
	}
}
