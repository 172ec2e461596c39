package quota

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// TestLateDecisions: somebody who read the clock, was held up, and is judged after others with a later time gets
// nothing of a period that is over, and opens none again. Whatever is asked for at whatever times of the last minute,
// no period and no stretch has more than its limit.
func TestLateDecisions(t *testing.T) {
	needs.Unwatched(t)
	const limit = 20
	ways := map[string]Policy{
		"fixed":    {Window: Fixed, Period: weir.Period{Length: time.Second}},
		"sliding":  {Window: Sliding, Period: weir.Period{Length: time.Second}},
		"gcra":     {Window: GCRA, Period: weir.Period{Length: time.Second}},
		"calendar": {Window: Fixed, Period: weir.Period{Calendar: weir.Day}},
	}
	for name, p := range ways {
		for _, kind := range []Kind{Requests, Volume} {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					p := p
					p.Name, p.Kind, p.Limit = "limit", kind, Count(limit)
					if kind == Volume {
						p = delayed(p, 5, time.Second)
						p.Limit = Bytes(limit)
					}
					r := newRig(t, one(p))
					if name == "calendar" {
						r.now = epoch.Add(24*time.Hour - 30*time.Second) // soon midnight
					}
					hold := r.admit("a").answer.Hold
					seen := []lateGrant{{r.now, 1}}
					if kind == Volume {
						seen = nil
					}
					latest := r.now
					for range rapid.IntRange(1, 100).Draw(rt, "steps") {
						at := r.now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(rt, "late")))
						if rapid.Bool().Draw(rt, "in time") {
							at = r.now
						}
						var n int64
						switch step := rapid.IntRange(0, 7).Draw(rt, "step"); {
						case step == 0:
							r.now = r.now.Add(time.Duration(rapid.Int64Range(1, int64(5*time.Second)).Draw(rt, "time")))
							continue
						case step == 1:
							r.q.Account("a", at)
						case step == 2:
							var a weir.Answer
							r.q.Peek(&weir.Event{Account: "a", Time: at}, &a)
						case kind == Volume:
							n, _ = r.q.Ask(hold, rapid.Int64Range(1, 2*limit).Draw(rt, "bytes"), false, at)
							if back := rapid.Int64Range(0, n).Draw(rt, "back"); back > 0 {
								r.q.Return(hold, back, at, at)
								n -= back
							}
						default:
							var a weir.Answer
							if err := r.q.Judge(context.Background(), &weir.Event{Account: "a", Time: at},
								&a); err != nil {
								rt.Fatal(err)
							}
							if a.Verdict == weir.Admit {
								n = 1
								r.q.Settle(a.Hold, weir.Outcome{Time: at, Done: true})
							}
						}
						if at.After(latest) {
							latest = at
						}
						seen = append(seen, lateGrant{latest, n})
					}
					for i, first := range seen {
						var total int64
						for _, g := range seen[i:] {
							if !within(p, first.at, g.at) {
								break
							}
							total += g.n
							most := int64(limit)
							if p.Window == GCRA {
								most += int64(g.at.Sub(first.at).Seconds()*limit) + 1
							}
							if total > most {
								rt.Fatalf("%d in %s from %s on, want at most %d", total, g.at.Sub(first.at), first.at,
									most)
							}
						}
					}
				})
			})
		}
	}
}

// A grant is what somebody got, and when.
type lateGrant struct {
	at time.Time
	n  int64
}

// within reports whether a limit counts what was granted at two times together.
func within(p Policy, first, at time.Time) bool {
	switch {
	case p.Window == Sliding:
		return at.Sub(first) < time.Second
	case p.Window == GCRA:
		return true
	case p.Period.Calendar == weir.Day:
		return first.Truncate(24 * time.Hour).Equal(at.Truncate(24 * time.Hour))
	}
	return first.Truncate(time.Second).Equal(at.Truncate(time.Second))
}
