package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
)

// TestVolumeIsAskedFor: whatever parallel requests of one account ask for and give back, those that delay get at most
// the limit in each period; with gcra, the rate and one burst over any stretch.
func TestVolumeIsAskedFor(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		t.Run(string(w), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				const limit = 1000
				r := newRig(t, one(delayed(Policy{Name: "traffic", Kind: Volume, Window: w, Limit: Bytes(limit),
					Period: weir.Period{Length: time.Second}}, 5, 100*time.Millisecond)))
				var holds []weir.Hold
				for range rapid.IntRange(1, 100).Draw(rt, "requests") {
					holds = append(holds, r.admit("a").answer.Hold)
				}
				began, total := r.now, int64(0)
				for range rapid.IntRange(1, 300).Draw(rt, "steps") {
					if rapid.IntRange(0, 9).Draw(rt, "step") == 0 {
						r.now = r.now.Add(time.Duration(rapid.Int64Range(1, int64(2*time.Second)).Draw(rt, "time")))
						continue
					}
					h := rapid.SampledFrom(holds).Draw(rt, "request")
					n, again := r.q.Ask(h, rapid.Int64Range(1, 5000).Draw(rt, "bytes"), false, r.now)
					if n == 0 && (!again.After(r.now) || again.After(r.now.Add(100*time.Millisecond))) {
						rt.Fatalf("nothing granted, again after %s", again.Sub(r.now))
					}
					back := rapid.Int64Range(0, n).Draw(rt, "back")
					if back > 0 {
						r.q.Return(h, back, r.now, r.now)
					}
					if total += n - back; w == GCRA {
						if most := limit + int64(r.now.Sub(began).Seconds()*limit) + 1; total > most {
							rt.Fatalf("%d bytes in %s", total, r.now.Sub(began))
						}
					} else if periods := int64(r.now.Sub(began)/time.Second) + 1; total > periods*limit {
						rt.Fatalf("%d bytes in %d periods", total, periods)
					}
				}
			})
		})
	}
}

// TestVolumeLetsInForAPacket: while others take every packet's worth as it comes, nobody else is let in for single
// bytes to wait beside them: connections of one account do not pile up.
func TestVolumeLetsInForAPacket(t *testing.T) {
	r := newRig(t,
		one(delayed(Policy{Name: "traffic", Kind: Volume, Window: GCRA, Limit: Bytes(80_000),
			Period: weir.Period{Length: time.Second}},
			1, time.Second)))
	h := r.admit("a").answer.Hold
	for n := int64(1); n > 0; {
		n, _ = r.q.Ask(h, 1<<20, false, r.now)
	}
	r.now = r.now.Add(10 * time.Millisecond) // 800 bytes
	r.wait("a")
	r.refuse("a", weir.LineFull)
	if calls := r.advance(10 * time.Millisecond); len(inOrder(calls)) != 1 {
		t.Errorf("%v", calls)
	}
}

// TestVolumeByTheWhole: a packet goes on while one byte is left, and what it takes beyond the limit is owed.
func TestVolumeByTheWhole(t *testing.T) {
	r := newRig(t,
		one(Policy{Name: "traffic", Kind: Volume, Limit: Bytes(1000), Period: weir.Period{Length: time.Second}}))
	h := r.admit("a").answer.Hold
	for _, step := range []struct{ size, granted int64 }{{999, 999}, {1500, 1500}, {1, 0}} {
		if n, again := r.q.Ask(h, step.size, true, r.now); n != step.granted || !again.IsZero() {
			t.Errorf("%d of %d granted, again at %s", n, step.size, again)
		}
	}
	r.now = r.now.Add(2 * time.Second)
	if n, _ := r.q.Ask(h, 1, true, r.now); n != 1 {
		t.Error("not granted after the debt was paid")
	}
}
