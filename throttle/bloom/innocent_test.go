package bloom

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// TestRefusedTakesNothing: what is refused at any level, or is admitted and does not go on, takes nothing from any
// table, nor from the ones that will take over.
func TestRefusedTakesNothing(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		o := drawn(rt)
		o.V6 = rapid.SampledFrom([][]int{{64}, {64, 48}, {64, 56, 48, 32}}).Draw(rt, "v6")
		o.Wider = rapid.IntRange(1, 4).Draw(rt, "wider")
		o.Groups = map[string][]netip.Prefix{"a": {netip.MustParsePrefix("2001:db8:7::/48")}}
		o.Rotate = weir.Duration(max(minRotate, o.WithDefaults().learn()))
		r := newRig(t, o)
		other := o
		other.Attackers = 120
		if err := r.Configure(other, r.now); err != nil {
			rt.Fatal(err)
		}
		r.pass(time.Duration(rapid.Int64Range(int64(maxTend), int64(2*maxTend+o.Rate.Per)).Draw(rt, "wait")))
		s := r.setup.Load()
		if s.levels[0].next == nil && r.Stats().Rotations == 0 {
			rt.Fatal("no tables are charged")
		}
		// spent is what is missing to the limiters of a source, in every table.
		spent := func(source netip.Addr) (all []uint64) {
			var array [MaxLevels]Network
			nets, _ := s.nets.of(&weir.Event{Source: source}, &array)
			for i, n := range nets {
				v := s.levels[i]
				for t, born := range map[*Table]time.Duration{v.now: v.bornNow, v.next: v.bornNext} {
					if t == nil {
						continue
					}
					t.reach(t.unit(r.now.Sub(start) - born))
					var sum uint64
					var places [MaxK]Slot
					for _, p := range t.slots(t.key.Hash(n), &places) {
						sum += t.spent(p)
					}
					all = append(all, sum)
				}
			}
			slices.Sort(all)
			return all
		}
		for range 200 {
			source := netip.MustParseAddr(rapid.SampledFrom([]string{"192.0.2.1", "2001:db8:7::1", "2001:db8::1",
				"2001:db8:0:1::1", "2001:db8:1::1", "2001:db9::1"}).Draw(rt, "source"))
			cost := rapid.Int64Range(1, int64(o.Burst)).Draw(rt, "cost")
			before := spent(source)
			a := r.askAddr(source, cost)
			done := a.Verdict == weir.Admit && rapid.Bool().Draw(rt, "done")
			if r.Settle(a.Hold, weir.Outcome{Time: r.now, Done: done}); !done && !slices.Equal(spent(source), before) {
				rt.Fatalf("%s, cost %d, %s: %v before, %v after", source, cost, a.Explain(), before, spent(source))
			}
		}
	})
}

// TestNobodyKeepsTheOthersOut: attackers with whole /48s ask from random /64s, at any limit. At no time, while tables
// learn and when keys change, more innocent networks are refused than planned: of IPv4, and of other prefixes. It does
// not matter whether this throttle refuses the attackers or another one after it.
func TestNobodyKeepsTheOthersOut(t *testing.T) {
	needs.Unwatched(t)
	slow := weir.Rate{Count: 6, Per: time.Minute}
	plays := []prefixFlood{{slow, 5, 1, 0, false}, {perSecond(100), 15, 16, 64, false}, {slow, 15, 64, 256, true},
		{perSecond(100), 5, 16, 64, false}, {slow, 5, 64, 256, false}}
	if needs.Long() {
		plays = nil
		for _, rate := range []weir.Rate{{Count: 1, Per: 24 * time.Hour}, slow, {Count: 60, Per: time.Minute},
			perSecond(100), perSecond(1000)} {
			least := weir.Number(max(5, rate.Count*int64(time.Second)/int64(rate.Per)/20))
			for _, prefixes := range []int{1, 16, 256} {
				for _, undone := range []bool{false, true} {
					plays = append(plays, prefixFlood{rate, least, prefixes, 0, undone},
						prefixFlood{rate, least, prefixes, 4 * int64(prefixes), undone},
						prefixFlood{rate, 3 * least, prefixes, 4 * int64(prefixes), undone})
				}
			}
		}
	}
	for _, f := range plays {
		t.Run(fmt.Sprintf("%s, burst %d, %d prefixes, planned %d, undone %v", f.rate, f.burst, f.prefixes, f.planned,
			f.undone), f.play)
	}
}

// A prefixFlood comes from random /64s of some /48s.
type prefixFlood struct {
	rate     weir.Rate
	burst    weir.Number
	prefixes int
	planned  int64 // attackers; 0 is the default
	undone   bool  // another throttle refuses what this one grants
}

func (f prefixFlood) play(t *testing.T) {
	o := Options{Rate: f.rate, Burst: f.burst, Attackers: f.planned}
	o.Rotate = weir.Duration(max(minRotate, o.WithDefaults().learn()))
	r, dice := newRig(t, o), rand.New(rand.NewPCG(1, 2))
	o = o.WithDefaults()
	v6 := func(prefix int) netip.Addr {
		var a [16]byte
		binary.BigEndian.PutUint32(a[:], 0x2001_0000+uint32(prefix))
		binary.BigEndian.PutUint32(a[4:], dice.Uint32()&0xffff)
		return netip.AddrFrom16(a)
	}
	const probes = 2000
	granted, asked, most := 0, 0, 0.
	for r.Stats().Rotations < 2 {
		// Tending more often would change nothing, and take hours where a burst takes days.
		r.now = r.now.Add(r.setup.Load().levels[0].fill() / 4)
		r.Advance(r.now)
		for i := range f.prefixes * int(4*f.burst) {
			asked++
			a := r.askAddr(v6(i%f.prefixes), 1)
			if a.Verdict == weir.Admit {
				granted++
			}
			r.Settle(a.Hold, weir.Outcome{Time: r.now, Done: !f.undone})
		}
		refused := 0
		for i := range probes {
			source, a := v6(1<<16+int(dice.Uint32N(1<<15))), weir.Answer{}
			if i%2 == 0 {
				source = netip.AddrFrom4([4]byte{byte(1 + i%200), byte(dice.Uint32()), byte(dice.Uint32()), 1})
			}
			if r.Peek(&weir.Event{Time: r.now, Source: source}, &a); a.Verdict == weir.Refuse {
				refused++
			}
		}
		share := float64(refused) / probes
		most = max(most, share)
		if share > float64(o.Collateral)*1.05+0.001 {
			t.Fatalf("%s, %d rotations: %.2f%% of the innocent are refused, planned is %s", r.now.Sub(start),
				r.Stats().Rotations, 100*share, o.Collateral)
		}
	}
	if (granted > asked/2) != f.undone {
		t.Errorf("%d of %d granted", granted, asked)
	}
	t.Logf("at most %.2f%% of the innocent refused, until %s", 100*most, r.now.Sub(start))
}

// TestCrowd: with the burst that AmpleBurst names, as many visitors as the table is planned for may use a good part of
// their limit, all the time, and ten times as many an eighth of it. With a burst of k they refuse each other.
func TestCrowd(t *testing.T) {
	needs.Unwatched(t)
	const planned = 1000
	refused := func(burst weir.Number, visitors, each int) float64 {
		r := newRig(t, Options{Rate: weir.Rate{Count: 60, Per: time.Hour}, Burst: burst, Attackers: planned})
		dice, refused, asked := rand.New(rand.NewPCG(1, 2)), 0, 0
		for range visitors * each * 2 { // two hours
			r.pass(time.Hour / time.Duration(visitors*each))
			if r.askAddr(source(dice.IntN(visitors)), 1).Verdict != weir.Admit && r.now.Sub(start) > time.Hour {
				refused++
			}
			asked++
		}
		return 2 * float64(refused) / float64(asked)
	}
	ample := Options{Rate: perSecond(1), Burst: 5}.AmpleBurst()
	if again := (Options{Rate: perSecond(1), Burst: ample}).AmpleBurst(); ample != 15 || again != 0 {
		t.Fatalf("a burst of %d, and then of %d", ample, again)
	}
	for _, c := range []struct{ visitors, each int }{{planned, 30}, {10 * planned, 8}} {
		few, enough := refused(5, c.visitors, c.each), refused(ample, c.visitors, c.each)
		if t.Logf("%+v: %.2f%%, and %.2f%% with a burst of %d", c, 100*few, 100*enough, ample); enough > 0.01 ||
			few < 2*enough || few < 0.003 {
			t.Errorf("%+v: %.4f refused, and %.4f with a burst of %d", c, few, enough, ample)
		}
	}
}
