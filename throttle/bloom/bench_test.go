package bloom

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"weir"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// source returns the n-th of many source addresses, each in a /24 of its own.
func source(n int) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(n)<<8|1)
	return netip.AddrFrom4(a)
}

// BenchmarkGrant judges events of a million sources that keep to their limit.
func BenchmarkGrant(b *testing.B) {
	const sources = 1_000_000
	for name, parallel := range map[string]bool{"one": false, "all": true} {
		b.Run(name, func(b *testing.B) {
			l, err := New(Options{Rate: weir.Rate{Count: 1000, Per: time.Second}, Burst: 50_000}, start)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			judge := func(i int, ev *weir.Event, a *weir.Answer) {
				a.Clear()
				ev.Source = source(i * 7919 % sources)
				_ = l.Judge(context.Background(), ev, a)
			}
			if parallel {
				b.RunParallel(func(pb *testing.PB) {
					ev, a := weir.Event{Time: start.Add(time.Second)}, weir.Answer{}
					for i := 0; pb.Next(); i++ {
						judge(i, &ev, &a)
					}
				})
				return
			}
			ev, a := weir.Event{Time: start.Add(time.Second)}, weir.Answer{}
			for i := range b.N {
				judge(i, &ev, &a)
			}
		})
	}
}

// BenchmarkRefuse judges events of a million sources that are far over their limit.
func BenchmarkRefuse(b *testing.B) {
	const sources = 1 << 20
	l, err := New(Options{Rate: weir.Rate{Count: 1, Per: time.Hour}, Burst: 5, Attackers: sources}, start)
	if err != nil {
		b.Fatal(err)
	}
	ev, a := weir.Event{Time: start}, weir.Answer{}
	for i := range 6 * sources {
		ev.Source = source(i % sources)
		a.Clear()
		_ = l.Judge(context.Background(), &ev, &a)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ev.Source = source(i * 7919 % sources)
		a.Clear()
		_ = l.Judge(context.Background(), &ev, &a)
	}
}

// BenchmarkSweep sweeps a table of 8 MiB in which every line has something to refill.
func BenchmarkSweep(b *testing.B) {
	s, _ := Fit(weir.Rate{Count: 100, Per: time.Second}, 200, 5, 0)
	s.Lines = 8 << 20 / LineBytes
	t := NewTable(s, NewKey())
	b.SetBytes(s.Bytes())
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		for j := range t.words {
			t.words[j] |= 3 * t.every & (1<<timeShift - 1) // three spent parts in most lanes
		}
		b.StartTimer()
		t.Sweep(time.Duration(i) * s.Unit)
	}
}
