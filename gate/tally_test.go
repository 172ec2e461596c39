package gate_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"weir/gate"
)

// at returns one of many sources.
func at(i int) gate.Who {
	return gate.WhoAt(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
}

// fill lets a source have as much as it can.
func fill(t *gate.Tally, who gate.Who, most int) (n int) {
	for t.Enter(who, most) {
		n++
	}
	return n
}

// One source alone has nine tenths, several together no less, and others find room however many of those come, and in
// whatever order.
func TestTally(t *testing.T) {
	const most = 20_000
	for _, c := range []struct{ greedy, free int }{{0, most}, {1, 2_000}, {2, 1_800}, {10, 1_000}, {100, 200},
		{300, 1}} {
		t.Run(fmt.Sprint(c.greedy), func(t *testing.T) {
			var one, all gate.Tally // one after the other, and together
			for i := range c.greedy {
				fill(&one, at(i), most)
			}
			for more := true; more; {
				more = false
				for i := range c.greedy {
					more = all.Enter(at(i), most) || more
				}
			}
			for name, tally := range map[string]*gate.Tally{"one after the other": &one, "together": &all} {
				if free := most - tally.Len(); free < c.free || c.greedy > 0 && free > most/10 {
					t.Errorf("%s: %d places are free, want %d", name, free, c.free)
				}
				others := 0
				for i := range most {
					if tally.Enter(at(1<<20+i), most) {
						others++
					}
				}
				if others < c.free*98/100 {
					t.Errorf("%s: %d others are served", name, others)
				}
			}
		})
	}
}

// Small bounds are used up to the last place, and one more is one too many.
func TestTallyIsABound(t *testing.T) {
	for most := 1; most < 10; most++ {
		var tally gate.Tally
		if n := fill(&tally, at(1), most); n != most || tally.Enter(at(2), most) || tally.Len() != most {
			t.Errorf("%d of %d", n, most)
		}
	}
	var tally gate.Tally
	for i := range 100 {
		if !tally.Enter(at(i), 100) {
			t.Fatal("no room for", i)
		}
	}
	if tally.Enter(at(100), 100) {
		t.Error("one more than the bound")
	}
	tally.Leave(at(7))
	if !tally.Enter(at(100), 100) || tally.Enter(at(7), 100) {
		t.Error("a place is not given back, or twice")
	}
}

// A source is an IPv4 address, however it is written, or an IPv6 /64.
func TestWho(t *testing.T) {
	who := func(addr string) gate.Who { return gate.WhoAt(netip.MustParseAddr(addr)) }
	if who("2001:db8::1") != who("2001:db8::2:1") || who("2001:db8::1") == who("2001:db8:0:1::1") ||
		who("192.0.2.1") == who("192.0.2.2") || gate.WhoAt(netip.Addr{}) == who("192.0.2.1") ||
		gate.WhoIs("ann") == gate.WhoIs("bob") {
		t.Error("who is who?")
	}
}

// Whoever comes and goes at the same time, all that is left is what has not left.
func TestTallyTogether(t *testing.T) {
	var tally gate.Tally
	const most = 50
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 5_000 {
				if tally.Enter(at(i%3), most) {
					if tally.Len() > most+8 {
						t.Error("more than the bound")
					}
					tally.Leave(at(i % 3))
				}
			}
		})
	}
	all.Wait()
	if tally.Len() != 0 || fill(&tally, at(1), most) != most*9/10 {
		t.Error(tally.Len(), "are left")
	}
}

func BenchmarkTally(b *testing.B) {
	tally, addr := new(gate.Tally), netip.MustParseAddr("2001:db8::1")
	b.ReportAllocs()
	for b.Loop() {
		if who := gate.WhoAt(addr); tally.Enter(who, 20_000) {
			tally.Leave(who)
		}
	}
}

func BenchmarkTallyTogether(b *testing.B) {
	tally, addr := new(gate.Tally), netip.MustParseAddr("2001:db8::1")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if who := gate.WhoAt(addr); tally.Enter(who, 20_000) {
				tally.Leave(who)
			}
		}
	})
}
