package redis

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/farm"
)

// TestShortWay: the short way of the script answers as the long way does. The same calls go to two pots of an engine,
// one of which does not have it: of three runs that tell what they have spent, that repeat calls and have forgotten,
// over the ends of periods.
func TestShortWay(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	pots := []*Pot{s.open("short"), s.open("long")}
	long := strings.Replace(script, "usual and kept and quick(name, kept)", "nil", 1)
	if long == script {
		t.Fatal("the script has no short way")
	}
	pots[1].lua = luaScript(long)
	now := time.Now().Truncate(time.Second).UnixMicro()
	for _, p := range pots {
		p.clock, p.identity = func() int64 { return now }, func() string { return strings.Repeat("e", 40) }
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	type knows struct {
		seq   uint64
		grant farm.Grant
		spent int64
	}
	runs := map[string]*knows{}
	granted := 0
	for n := range 3000 {
		name := fmt.Sprint("run", random.IntN(3))
		k := runs[name]
		if k == nil {
			k = &knows{}
			runs[name] = k
		}
		if random.IntN(50) > 0 {
			k.seq++
		}
		w := farm.Want{Rule: "limit", Way: farm.Fixed, Limit: 40, Period: 2 * time.Second, Mark: k.grant.Mark,
			Used: k.spent, Need: random.Int64N(3), Ahead: max(0, random.Int64N(8)-4),
			Unknown: random.IntN(40) == 0, Forget: random.IntN(80) == 0}
		if random.IntN(30) == 0 {
			w.Limit = 30
		}
		ask := farm.Ask{Key: "key", Run: name, Seq: max(1, k.seq), Nodes: []string{"run0", "run1"}, Wants: []farm.Want{w}}
		var said [2]farm.Reply
		for i, p := range pots {
			var err error
			if said[i], err = p.Take(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(said[0], said[1]) {
			t.Fatalf("call %d, %+v:\nshort %+v\nlong  %+v", n, ask, said[0], said[1])
		}
		if said[0].Granted {
			granted++
		}
		if g := said[0].Grants[0]; !said[0].Stale {
			if g.Slice != k.grant.Slice || w.Forget {
				k.spent = 0
			}
			k.grant = g
			k.spent = max(k.spent, g.Total-random.Int64N(3))
		}
		if random.IntN(100) == 0 {
			runs[name] = &knows{seq: k.seq} // it has forgotten
		}
		now += random.Int64N(100_000) - 10_000
	}
	if granted < 500 {
		t.Errorf("only %d calls were granted", granted)
	}
	names, _ := pots[0].keys("key")
	if kept := s.do("GETRANGE " + names[0] + " 0 0"); kept != "F" {
		t.Errorf("the key is kept as %q", kept)
	}
}

// FuzzRead: whatever an engine answers, it is a reply or an error.
func FuzzRead(f *testing.F) {
	f.Add("")
	f.Add("l")
	f.Add("e" + strings.Repeat("\x00", 8) + "\x01x")
	f.Add("o" + strings.Repeat("\x00", 8+2+16) + "\x00" + strings.Repeat("\x00", 40) + "\x01" + strings.Repeat("\x00", 8))
	ask := farm.Ask{Wants: []farm.Want{{}}}
	f.Fuzz(func(t *testing.T, said string) {
		if r, err := read(said, &ask); err == nil && len(r.Grants) != 1 {
			t.Errorf("%+v", r)
		}
	})
}
