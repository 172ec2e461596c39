package redis

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"weir/farm"
)

// previous is the script as it was before it was last changed. Whoever changes what a key is kept as, or the form of a
// call, makes it the last one that was committed.
//
//go:embed testdata/pot-previous.lua
var previous string

// TestRollingUpgrade: during an upgrade, nodes with the previous script and with this one use the same keys. Each call
// is answered as if all nodes had this one: of limits of all kinds, over the ends of periods, with calls that are
// repeated, nodes that have forgotten, accounts that are reset or dropped, and another engine in between.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	if previous == script {
		t.Fatal("the previous script is this one")
	}
	s := start(t, redisServer(t))
	now, boots := time.Now().Truncate(time.Second).UnixMicro(), 0
	open := func(prefix, lua string) *Pot {
		p := s.open(prefix)
		p.lua = luaScript(lua)
		p.clock = func() int64 { return now }
		p.identity = func() string { return fmt.Sprintf("%040d", boots) }
		return p
	}
	mixed := []*Pot{open("mixed", previous), open("mixed", script)}
	all := open("all", script)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	rules := []farm.Want{
		{Rule: "fixed", Way: farm.Fixed, Limit: 20, Period: 2 * time.Second},
		{Rule: "sliding", Way: farm.Sliding, Limit: 25, Period: 4 * time.Second},
		{Rule: "steady", Way: farm.Steady, Limit: 15, Burst: 8, Period: time.Second},
		{Rule: "level", Way: farm.Level, Limit: 8},
	}
	type knows struct {
		grant farm.Grant
		spent int64
	}
	runs := map[string]map[string]*knows{} // by run and key, and by rule
	var seq uint64
	granted, denied, flat := 0, 0, 0
	for n := range 4000 {
		run, key := fmt.Sprint("run", random.IntN(3)), fmt.Sprint("key", random.IntN(3))
		if random.IntN(50) > 0 {
			seq++
		}
		ask := farm.Ask{Key: key, Run: run, Seq: max(1, seq), Live: []string{"run0", "run1"}}
		known := runs[run+key]
		if known == nil {
			known = map[string]*knows{}
			runs[run+key] = known
		}
		wants := rules[:1] // the usual call
		if i := random.IntN(3 * len(rules)); key != "key0" && i < len(rules) {
			wants = rules[i : i+1]
		} else if key == "key2" {
			wants = rules
		}
		for _, w := range wants {
			k := known[w.Rule]
			if k == nil {
				k = &knows{}
				known[w.Rule] = k
			}
			w.Mark, w.Used, w.Need, w.Ahead = k.grant.Mark, k.spent, random.Int64N(3), max(0, random.Int64N(8)-4)
			w.Carry = w.Way == farm.Fixed && random.IntN(40) == 0
			w.Forget = w.Way != farm.Level && random.IntN(80) == 0
			if w.Way == farm.Steady && w.Ahead > 0 {
				w.Life = 50 * time.Millisecond
			}
			ask.Wants = append(ask.Wants, w)
		}
		if random.IntN(100) == 0 {
			ask.Wants, ask.Drop = nil, true
		}
		got, err := mixed[random.IntN(2)].Take(t.Context(), ask)
		want, wrong := all.Take(t.Context(), ask)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wrong) {
			t.Fatalf("call %d, %+v:\nboth scripts %+v, %v\nthis one     %+v, %v", n, ask, got, err, want, wrong)
		}
		switch {
		case err != nil || ask.Drop:
		case got.Granted:
			granted++
		default:
			denied++
		}
		for i, g := range got.Grants {
			k, w := known[ask.Wants[i].Rule], &ask.Wants[i]
			if got.Stale || err != nil {
				break
			}
			if g.Slice != k.grant.Slice || w.Forget {
				k.spent = 0
			}
			k.grant = g
			if k.spent = max(k.spent, g.Total-random.Int64N(3)); w.Way == farm.Level {
				k.spent = random.Int64N(g.Total + 1)
			}
		}
		if random.IntN(100) == 0 {
			delete(runs, run+key) // it has forgotten
		}
		if random.IntN(500) == 0 {
			boots++
		}
		if names, _ := mixed[0].keys(key); n%20 == 0 && s.do("GETRANGE "+names[0]+" 0 0") == "F" {
			flat++
		}
		now += random.Int64N(100_000) - 10_000
	}
	t.Logf("%d calls were granted, %d denied; %d times of 200 the key was kept flat", granted, denied, flat)
	if granted < 1000 || denied < 100 || flat < 20 || flat > 180 {
		t.Error("that is not what is to be tested")
	}
}
