package stamp

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// nonce is the n-th of many.
func nonce(n int) (v Nonce) {
	binary.BigEndian.PutUint64(v[:], uint64(n)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(v[8:], uint64(n))
	return v
}

// TestRace is target S6: of a million uses of one stamp at the same time exactly one is accepted; exactly n when it
// covers n.
func TestRace(t *testing.T) {
	t.Parallel()
	const racers = 8
	for covers, each := range map[int]int64{1: 125_000, 50: 10_000} {
		if needs.Watched { // each encounter takes ten times as long there
			each /= 10
		}
		f := NewFilter(time.Minute, 10)
		u := Use{Nonce: nonce(1), Expires: start.Add(time.Minute), Covers: covers}
		var accepted, refused atomic.Int64
		var all sync.WaitGroup
		for range racers {
			all.Go(func() {
				a, r := int64(0), int64(0)
				for range each {
					switch _, err := f.Spend(bg, start, u); err {
					case nil:
						a++
					case ErrReplayed:
						r++
					}
				}
				accepted.Add(a)
				refused.Add(r)
			})
		}
		all.Wait()
		if accepted.Load() != int64(covers) || refused.Load() != racers*each-int64(covers) {
			t.Errorf("covers %d: %d accepted, %d refused", covers, accepted.Load(), refused.Load())
		}
	}
}

// TestVerifyRace: the same through the whole of Verify. Half of those who race bring another solution of the challenge,
// where there is one. Wrong ones race along and spend nothing. A million of each in the long run.
func TestVerifyRace(t *testing.T) {
	const racers = 8
	each := 2_000
	switch {
	case needs.Long():
		each = 1_000_000 / racers
	case needs.Watched: // the detector sees by few encounters what is not guarded
		each = 250
	}
	for _, alg := range []Algorithm{SHA256K, EQS60} {
		for _, covers := range []int{1, 50} {
			o, a := NewIssuer(Parts{}), ask(alg, 256)
			stamps := []string{solved(t, o, a)}
			challenge, _, _ := strings.Cut(stamps[0], ".")
			if alg == EQS60 {
				stamps = append(stamps, stampOf(challenge, eqsSolution16(t, challenge, 1000)))
			}
			_, size := puzzles[alg].sizes()
			wrong := stampOf(challenge, make([]byte, size))
			d := demand(a)
			d.Covers = covers
			var accepted atomic.Int64
			var all sync.WaitGroup
			for i := range racers {
				all.Go(func() {
					for range each {
						if _, err := o.Verify(bg, start, stamps[i%len(stamps)], d); err == nil {
							accepted.Add(1)
						} else if err != ErrReplayed {
							t.Error(err)
						}
						if _, err := o.Verify(bg, start, wrong, d); err != ErrWrong && err != ErrReplayed {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if n := accepted.Load(); n != int64(covers) {
				t.Errorf("%s that covers %d: %d accepted", alg, covers, n)
			}
		}
	}
}

// TestCoversMoreThanBefore: a stamp that was spent while stamps covered one request has uses left when they cover more,
// and its solution is checked then.
func TestCoversMoreThanBefore(t *testing.T) {
	for _, alg := range []Algorithm{SHA256K, EQS60} {
		o, a := NewIssuer(Parts{}), ask(alg, 256)
		s := solved(t, o, a)
		challenge, _, _ := strings.Cut(s, ".")
		_, size := puzzles[alg].sizes()
		one, three := demand(a), demand(a)
		three.Covers = 3
		for i, step := range []struct {
			stamp string
			d     Demand
			want  error
		}{
			{s, one, nil},
			{s, one, ErrReplayed},
			{stampOf(challenge, make([]byte, size)), three, ErrWrong},
			{s, three, nil},
			{stampOf(challenge, make([]byte, size)), three, ErrWrong},
			{s, one, ErrReplayed},
			{s, three, nil},
			{s, three, ErrReplayed},
		} {
			if _, err := o.Verify(bg, start, step.stamp, step.d); err != step.want {
				t.Errorf("%s, step %d: %v, want %v", alg, i, err, step.want)
			}
		}
	}
}

// TestFilterFull: at the bound no further stamp is accepted, those known are still counted, and there is room again
// when some have expired.
func TestFilterFull(t *testing.T) {
	const most = 1000
	f := NewFilter(time.Minute, most)
	at := func(n int, now time.Time) Use { return Use{Nonce: nonce(n), Expires: now.Add(time.Minute), Covers: 2} }
	for i := range most {
		if _, err := f.Spend(bg, start, at(i, start)); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := f.Spend(bg, start, at(most, start)); err != ErrFull {
		t.Errorf("one more: %v", err)
	}
	if n, err := f.Spend(bg, start, at(0, start)); err != nil || n != 2 {
		t.Errorf("a known one: %d, %v", n, err)
	}
	if _, err := f.Spend(bg, start, at(0, start)); err != ErrReplayed {
		t.Errorf("a known one, spent: %v", err)
	}
	if err := f.Refund(bg, start, at(1, start)); err != nil || f.Len() != most-1 {
		t.Errorf("refund: %v, %d", err, f.Len())
	}
	if _, err := f.Spend(bg, start, at(most, start)); err != nil {
		t.Errorf("in its place: %v", err)
	}
	later := start.Add(2 * time.Minute)
	for i := range most {
		if _, err := f.Spend(bg, later, at(most+1+i, later)); err != nil {
			t.Fatalf("later, %d: %v", i, err)
		}
	}
	if f.Len() != most {
		t.Errorf("%d are remembered", f.Len())
	}
}

// TestFilterNeverForgets: held against a map that never forgets, with a clock that goes on, sometimes back, and
// sometimes jumps to wherever it has been or never was, no stamp that is still good is accepted more often than it may
// be.
func TestFilterNeverForgets(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		ttl := time.Duration(rapid.IntRange(1, 5000).Draw(t, "ttl")) * time.Millisecond
		f := NewFilter(ttl, 1<<20)
		now := start
		type known struct {
			use  Use
			uses int
		}
		var all []known
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-300, 2000).Draw(t, "passes")) * time.Millisecond)
			switch rapid.IntRange(0, 9).Draw(t, "jump") {
			case 0:
				now = start.Add(time.Duration(rapid.IntRange(-20, 20).Draw(t, "to")) * ttl / 2)
			case 1:
				now = now.Add(time.Duration(rapid.IntRange(-8, 8).Draw(t, "by")) * ttl)
			}
			if len(all) == 0 || rapid.Bool().Draw(t, "new") {
				left := time.Duration(rapid.Int64Range(1, ttl.Milliseconds()).Draw(t, "left")) * time.Millisecond
				all = append(all,
					known{use: Use{Nonce: nonce(len(all)), Expires: now.Add(left),
						Covers: rapid.IntRange(1, 3).Draw(t, "covers")}})
			}
			k := &all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
			if !now.Before(k.use.Expires) {
				continue // Verify would not have asked
			}
			uses, err := f.Spend(bg, now, k.use)
			switch {
			case err == nil && (k.uses == k.use.Covers || uses != k.uses+1):
				t.Fatalf("accepted for the %d. time, after %d of %d", uses, k.uses, k.use.Covers)
			case err == nil:
				k.uses++
			case err == ErrReplayed && k.uses < k.use.Covers:
				t.Fatalf("refused after %d of %d", k.uses, k.use.Covers)
			}
		}
	})
}

// TestClockJumpsAndComesBack: a clock that is a year ahead for a while does not close the filter for a year, nor does
// it make a stamp good twice: neither one that was spent before, nor one that was spent meanwhile, nor when the year is
// over.
func TestClockJumpsAndComesBack(t *testing.T) {
	const ttl, year = time.Minute, 365 * 24 * time.Hour
	for name, ahead := range map[string]time.Duration{"at once": 0, "after ten seconds": 10 * time.Second,
		"after ten minutes": 10 * time.Minute} {
		for place, jump := range map[string]time.Duration{"a year": year, "an hour": time.Hour,
			"three minutes": 3 * time.Minute} {
			f := NewFilter(ttl, 1000)
			made := 0
			issue := func(now time.Time) Use {
				made++
				return Use{Nonce: nonce(made), Expires: now.Add(ttl),
					Covers: 1}
			}
			spend := func(when string, now time.Time, u Use, want ...error) {
				t.Helper()
				if _, err := f.Spend(bg, now, u); !slices.Contains(want, err) {
					t.Errorf("%s, ahead by %s, back %s: %v", when, place, name, err)
				}
			}
			before, open := issue(start), issue(start)
			spend("before", start, before, nil)
			var during []Use
			for passed := time.Duration(0); passed <= ahead; passed += ttl / 4 {
				now := start.Add(jump + passed)
				during = append(during, issue(now))
				spend("ahead", now, during[len(during)-1], nil)
				spend("ahead, again", now, during[len(during)-1], ErrReplayed)
			}
			now := start.Add(ahead)
			back := issue(now)
			spend("issued after it came back", now, back, nil)
			spend("issued after it came back, again", now, back, ErrReplayed)
			if now.Before(before.Expires) {
				spend("spent before", now, before, ErrReplayed)
				spend("open since before", now, open, nil)
			}
			for _, u := range during {
				spend("spent while it was ahead", now, u, ErrForeign, ErrExpired, ErrReplayed)
			}
			// Then the time that it had jumped to comes.
			for passed := -2 * ttl; passed <= ahead+2*ttl; passed += ttl / 4 {
				now := start.Add(jump + passed)
				for _, u := range during {
					if now.Before(u.Expires) {
						spend("spent a year before its time", now, u, ErrForeign, ErrExpired, ErrReplayed)
					}
				}
			}
			later := start.Add(jump + ahead + 3*ttl)
			spend("after all that", later, issue(later), nil)
		}
	}
}

// TestRunsAreBounded: however often the clock jumps, a stripe knows of so many runs and no more, and nothing that was
// spent is good again.
func TestRunsAreBounded(t *testing.T) {
	const ttl = time.Minute
	f := NewFilter(ttl, 1000)
	var all []Use
	at := func(n int) time.Time { return start.Add(time.Duration(n*n) * time.Hour) } // ever farther apart
	for n := range maxRuns + 5 {
		u := Use{Nonce: nonce(0), Expires: at(n).Add(ttl), Covers: 1} // all in one stripe
		if _, err := f.Spend(bg, at(n), u); err != nil {
			t.Fatal(n, err)
		}
		if all = append(all, u); len(f.stripe[0].runs) > maxRuns {
			t.Fatalf("%d runs", len(f.stripe[0].runs))
		}
	}
	if len(f.stripe[0].runs) != maxRuns {
		t.Errorf("%d runs", len(f.stripe[0].runs))
	}
	for n, u := range all {
		if _, err := f.Spend(bg, at(n), u); err != ErrReplayed && err != ErrExpired {
			t.Errorf("%d is good again: %v", n, err)
		}
	}
}

// TestRoomAfterAJump: what was spent while the clock was ahead does not fill the filter for a year. Where there was no
// room to keep what was spent before, nothing is accepted for two generations instead.
func TestRoomAfterAJump(t *testing.T) {
	const most = 500
	f := NewFilter(time.Minute, most)
	for i, now := range []time.Time{start, start.Add(365 * 24 * time.Hour), start.Add(3 * time.Minute)} {
		if i == 2 {
			early := start.Add(time.Second)
			if _, err := f.Spend(bg, early,
				Use{Nonce: nonce(0), Expires: early.Add(time.Minute), Covers: 1}); err != ErrExpired {
				t.Errorf("what may have been spent before: %v", err)
			}
		}
		for n := range most {
			if _, err := f.Spend(bg, now,
				Use{Nonce: nonce(i*most + n), Expires: now.Add(time.Minute), Covers: 1}); err != nil {
				t.Fatal(i, n, err)
			}
		}
		if f.Len() != most {
			t.Errorf("%d: %d are remembered", i, f.Len())
		}
	}
}

func TestFilterTime(t *testing.T) {
	f := NewFilter(time.Minute, 10)
	u := Use{Nonce: nonce(7), Expires: start.Add(3 * time.Minute), Covers: 1}
	if _, err := f.Spend(bg, start, u); err != ErrForeign {
		t.Errorf("longer than can be remembered: %v", err)
	}
	u.Expires = start.Add(-time.Minute)
	if _, _, err := f.Look(bg, start, u); err != ErrExpired {
		t.Errorf("forgotten: %v", err)
	}
	if err := f.Refund(bg, start, u); err != ErrExpired {
		t.Errorf("forgotten: %v", err)
	}
}
