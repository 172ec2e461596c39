package outbreak

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// BenchmarkSubmit places mails to one: from the working set, by slack, and those that wait.
func BenchmarkSubmit(b *testing.B) {
	for _, c := range []struct {
		name string
		gap  time.Duration
		next func(i int) uint64
	}{
		{"working-set", time.Second, func(i int) uint64 { return uint64(i % 4) }},
		{"slack", time.Minute, func(i int) uint64 { return uint64(i) }},
		{"delay", 70 * time.Second / 2, func(i int) uint64 { return uint64(i) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, s, now := standard(), State{}, epoch
			p.Stop = MaxStop
			keys, fates := make([]uint64, 1), make([]Fate, 1)
			var out []Item
			for i := range 4 {
				keys[0] = uint64(i)
				now = now.Add(time.Hour)
				s.Submit(&p, now, 1, keys, nil, fates)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now = now.Add(c.gap)
				keys[0] = c.next(i)
				out = s.Tick(&p, now, out[:0])
				s.Submit(&p, now, uint64(i), keys, nil, fates)
				if len(s.queue) > 20 {
					s.Take(func(Item) bool { return true })
				}
			}
		})
	}
}

// BenchmarkTick lets the clock run, with one clock and with two, once a minute for a queue that never ends.
func BenchmarkTick(b *testing.B) {
	for name, multi := range map[string]time.Duration{"one": time.Minute, "two": 90 * time.Second} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, standard())
			r.p.MultiEvery, r.p.Stop = multi, MaxStop
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if len(r.s.queue) < 10 {
					b.StopTimer()
					for range 10 {
						r.send(r.many(2)...)
						r.send(r.many(1)...)
					}
					b.StartTimer()
				}
				r.now = r.now.Add(time.Minute)
				r.left = r.s.Tick(&r.p, r.now, r.left[:0])
			}
		})
	}
}

// BenchmarkMarshal writes and reads states.
func BenchmarkMarshal(b *testing.B) {
	for _, name := range []string{"typical", "stopped"} {
		s := states(b)[name]
		bytes, _ := s.AppendBinary(nil)
		b.Run(name+"/write", func(b *testing.B) {
			b.ReportAllocs()
			b.ReportMetric(float64(len(bytes)), "bytes")
			for b.Loop() {
				bytes, _ = s.AppendBinary(bytes[:0])
			}
		})
		b.Run(name+"/read", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var read State
				if err := read.UnmarshalBinary(bytes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParams resolves the parameters of a user with and without own limits.
func BenchmarkParams(b *testing.B) {
	o := Options{Exempt: []string{"bulk"}, Users: map[string]Limits{"ann": {Stop: new(50)}}}
	for _, own := range []string{"", `{"rate":"5/m","stop":50}`} {
		b.Run(fmt.Sprint(len(own)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := o.Params("ann", own); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUsers measures the memory of a user who has written to five people, in a map as a server would keep those
// who are active.
func BenchmarkUsers(b *testing.B) {
	const users = 100_000
	p := standard()
	p.WorkingSet = 5
	for b.Loop() {
		before := heap()
		all := make([]State, users)
		for i := range all {
			for key := range uint64(5) {
				all[i].Submit(&p, epoch.Add(time.Duration(key)*time.Hour), 1, []uint64{uint64(i) + key}, nil, nil)
			}
		}
		b.ReportMetric(float64(heap()-before)/users, "B/user")
		runtime.KeepAlive(all)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
