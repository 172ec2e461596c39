package bloom

import (
	"net/netip"
	"testing"
	"time"

	"weir"
)

func TestAllow(t *testing.T) {
	for name, addr := range map[string]string{"IPv4": "192.0.2.1", "mapped": "::ffff:192.0.2.1",
		"IPv6": "2001:db8::1"} {
		l, err := New(Options{Rate: weir.Rate{Count: 1, Per: time.Second}, Burst: 5}, start)
		if err != nil {
			t.Fatal(err)
		}
		a := netip.MustParseAddr(addr)
		if l.Allow(start, a, 6) || !l.Allow(start, a, 3) || l.Allow(start, a, 3) {
			t.Errorf("%s: more than the burst of 5 was allowed, or a refusal took something", name)
		}
		if !l.Allow(start, a, 0) || !l.Allow(start, a, 1) || l.Allow(start, a, 1) {
			t.Errorf("%s: not 5 of 6 events allowed", name)
		}
		if later := start.Add(time.Second); !l.Allow(later, a, 1) || l.Allow(later, a, 1) {
			t.Errorf("%s: not one event allowed after a second", name)
		}
		if !l.Allow(start, netip.MustParseAddr("198.51.100.1"), 1) || l.Allow(start, netip.Addr{}, 1) {
			t.Errorf("%s: another source was refused, or no source allowed", name)
		}
		for what, events := range map[string]int64{"refused": 1, "too costly": 6} {
			if n := testing.AllocsPerRun(100, func() { l.Allow(start, a, events) }); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
	}
}

func TestAllowBytes(t *testing.T) {
	l, err := New(Options{Rate: weir.Rate{Count: 100_000, Per: time.Second}, Burst: 200_000, Count: Bytes}, start)
	if err != nil {
		t.Fatal(err)
	}
	if a := source(1); !l.Allow(start, a, 150_000) || l.Allow(start, a, 150_000) || !l.Allow(start, a, 40_000) {
		t.Error("200,000 bytes are allowed at once, and a refusal takes none")
	}
}

// BenchmarkAllow asks for a million sources that keep to their limit.
func BenchmarkAllow(b *testing.B) {
	l, err := New(Options{Rate: weir.Rate{Count: 1000, Per: time.Second}, Burst: 50_000}, start)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Allow(start.Add(time.Second), source(i*7919%1_000_000), 1)
	}
}
