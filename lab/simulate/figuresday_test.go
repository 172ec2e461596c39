package simulate

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"weir/throttle/outbreak"
)

// A timeline is the same in whatever order, and in however many parts, it was told.
func TestTimelineParts(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 2))
	for _, spread := range []int{100, maxChanges, 40 * maxChanges} {
		type told struct {
			at             int64
			came, released int
		}
		var all []told
		for range 3 * maxChanges {
			all = append(all, told{int64(1e9+r.IntN(spread)) * int64(time.Second), 1 + r.IntN(3), r.IntN(2)})
		}
		tell := func(parts int) *timeline {
			lines := make([]timeline, parts)
			for _, one := range all {
				lines[r.IntN(parts)].add(one.at, one.came, one.released)
			}
			whole := &timeline{}
			for i := range lines {
				whole.join(&lines[i])
			}
			return whole
		}
		want := tell(1)
		if len(want.changes) > maxChanges || (spread > maxChanges) != (want.shift > 0) {
			t.Errorf("%d: %d changes of %d s", spread, len(want.changes), 1<<want.shift)
		}
		if want.shift > 0 {
			// The moments are no longer than they must be.
			finer := map[int64]bool{}
			for _, one := range all {
				finer[one.at/int64(time.Second)>>(want.shift-1)] = true
			}
			if len(finer) <= maxChanges {
				t.Errorf("%d: moments of %d s, and %d would do", spread, 1<<want.shift, 1<<(want.shift-1))
			}
		}
		for _, parts := range []int{2, 5} {
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			if got := tell(parts); got.shift != want.shift || !slices.Equal(got.changes, want.changes) {
				t.Errorf("%d in %d parts: %d changes of %d s, want %d of %d s", spread, parts, len(got.changes),
					1<<got.shift, len(want.changes), 1<<want.shift)
			}
		}
	}
}

// A timeline with more room has it, in parts too; one more, and its moments are longer.
func TestTimelineRoom(t *testing.T) {
	const room = 3 * maxChanges
	for changes, every := range map[int]int{room: 1, room + 1: 2} {
		parts := []timeline{{bound: room}, {bound: room}}
		for i := range changes {
			parts[i%2].add(int64(i)*int64(time.Second), 1, 0)
		}
		whole := timeline{}
		for i := range parts {
			whole.join(&parts[i])
		}
		if whole.every() != every || whole.most() != changes || len(whole.changes) > room {
			t.Errorf("%d changes: every %d s, want %d; %d at once, %d are kept", changes, whole.every(), every,
				whole.most(), len(whole.changes))
		}
	}
	if w := newReplayWorker(outbreak.Params{}, make([]outbreak.Params, 2)); w.tallies[0].line.limit() != mainChanges ||
		w.tallies[1].line.limit() != maxChanges {
		t.Error(w.tallies[0].line.limit(), w.tallies[1].line.limit())
	}
}

// However long the moments are, the mean stays what it is.
func TestTimelineCoarse(t *testing.T) {
	start := generatedStart
	line, r, sum := timeline{}, rand.New(rand.NewPCG(6, 3)), 0
	for i := range 10 * maxChanges {
		at, stay := start.Add(time.Duration(8*i+r.IntN(128))*time.Second), 30+r.IntN(300)
		line.add(at.UnixNano(), 1, 0)
		line.add(at.Add(time.Duration(stay)*time.Second).UnixNano(), -1, 0)
		sum += stay
	}
	end := start.Add(80 * maxChanges * time.Second)
	whole := timeline{}
	whole.join(&line)
	mean := 0.0
	for _, q := range whole.overDay(start, end) {
		mean += q.Mean / dayMinutes
	}
	days := float64(dayOf(end, time.UTC) - dayOf(start, time.UTC) + 1)
	if want := float64(sum) / days / daySeconds; mean < want*0.99 || mean > want*1.01 || whole.shift < 3 {
		t.Errorf("%v of moments of %d s, want %v", mean, 1<<whole.shift, want)
	}
	if most := whole.most(); most < 20 || most > 45 {
		t.Error(most)
	}
}

// The day is that of the log, also where the clocks are changed. What waits long after the end of the log is left out.
func TestOverDay(t *testing.T) {
	zone := time.FixedZone("", -5*3600)
	from := time.Date(2026, 3, 2, 23, 59, 30, 0, zone)
	line := timeline{}
	line.add(from.UnixNano(), 3, 0)
	line.add(from.Add(time.Minute).UnixNano(), -2, 0)
	line.add(from.Add(time.Minute).UnixNano(), 4, 5)
	line.add(from.AddDate(0, 0, 9).UnixNano(), 7, 0)
	whole := timeline{}
	whole.join(&line)
	got := whole.overDay(from, from.Add(2*time.Minute))
	if got[dayMinutes-1] != (QueuePoint{dayMinutes - 1, 0.75, 3}) || got[0] != (QueuePoint{0, 0.75, 5}) ||
		got[1] != (QueuePoint{Minute: 1}) {
		t.Error(got[dayMinutes-1], got[0], got[1])
	}
	if whole.most() != 7 {
		t.Error(whole.most())
	}
	if got := (&timeline{}).overDay(time.Time{}, time.Time{}); len(got) != dayMinutes ||
		!reflect.DeepEqual(got[7], QueuePoint{Minute: 7}) {
		t.Error(got[7])
	}
}

func TestFineSlots(t *testing.T) {
	last := -1
	for s := range uint64(1 << 16) {
		slot := fineSlot(s)
		if slot < last || slot > last+1 {
			t.Fatal(s, slot, last)
		}
		last = slot
		if least := fineSeconds(slot); least > s || float64(s-least) > float64(s)/50 {
			t.Fatal(s, slot, least)
		}
	}
	if fineSlot(1<<40) > 5000 {
		t.Error(fineSlot(1 << 40))
	}
}
