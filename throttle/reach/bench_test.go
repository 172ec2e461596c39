package reach

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkJudge is one message of a user with 50,000 recipients, one in ten of them new.
func BenchmarkJudge(b *testing.B) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"sketch", Options{Over: Flag}},
		{"known", Options{Over: HoldNew}},
		{"bloom", Options{Over: HoldNew, Structure: Bloom}},
	} {
		for _, n := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				g, messages, fates := benched(b, c.o, n)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					g.s.Judge(g.r, g.p, g.now, messages[i%len(messages)], fates)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/recipient")
			})
		}
	}
}

// BenchmarkCommit is the same, to people the user knows.
func BenchmarkCommit(b *testing.B) {
	for _, c := range []struct {
		name string
		o    Options
	}{{"sketch", Options{Over: Flag}}, {"known", Options{Over: HoldNew}},
		{"bloom", Options{Over: HoldNew, Structure: Bloom}}} {
		for _, n := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				g, messages, fates := benched(b, c.o, n)
				for _, m := range messages {
					g.s.Learn(g.r, g.now, m)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					g.s.Commit(g.r, g.p, g.now, messages[i%len(messages)], fates)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/recipient")
			})
		}
	}
}

func benched(b *testing.B, o Options, n int) (g *rig, messages [][]uint64, fates []Fate) {
	g = newRig(b, o).learnt(20)
	all := g.many(50_000)
	g.s.Learn(g.r, g.now, all)
	messages = make([][]uint64, 1024)
	for i := range messages {
		messages[i] = g.many(n)
		for j := range messages[i] {
			if (i+j)%10 != 0 {
				messages[i][j] = all[g.keys.IntN(len(all))]
			}
		}
	}
	return g, messages, make([]Fate, n)
}

// BenchmarkLoad is what a message costs whose state was stored: it is read, judged, committed and written.
func BenchmarkLoad(b *testing.B) {
	g := newRig(b, Options{})
	for range 10 {
		g.send(g.many(1)...)
		g.wait(time.Hour)
	}
	stored, _ := g.s.AppendBinary(nil)
	key := g.many(1)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		var s State
		if err := s.UnmarshalBinary(stored); err != nil {
			b.Fatal(err)
		}
		s.Commit(g.r, g.p, g.now, key, nil)
		out, _ = s.AppendBinary(out[:0])
	}
}

func BenchmarkPopulation(b *testing.B) {
	g := newRig(b, Options{}).learnt(20)
	b.Run("limit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			g.p.Limit(g.r, g.now, Day, 60*day, 100)
		}
	})
	b.Run("observe", func(b *testing.B) {
		samples := []Sample{{Window: Hour, Age: 60 * day, Size: 100, New: 3}}
		b.ReportAllocs()
		for b.Loop() {
			g.p.Observe(g.now, samples)
		}
	})
}
