package bloom

import (
	"container/heap"
	"context"
	"math"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// downloads are flows of bytes, in the order in which they next ask.
type downloads []*download

// A download is one flow.
type download struct {
	hold weir.Hold
	at   time.Time // when it asks next
	want int64     // of each read
	got  int64
	took time.Duration // the longest wait for a read
	from time.Time     // when it began to wait
}

func (d downloads) Len() int           { return len(d) }
func (d downloads) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d downloads) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *downloads) Push(x any)        { *d = append(*d, x.(*download)) }
func (d *downloads) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// open admits a flow, or returns nil.
func (r *rig) open(source string, want int64) *download {
	r.t.Helper()
	var a weir.Answer
	if err := r.judge.Judge(context.Background(), &weir.Event{Time: r.now, Source: netip.MustParseAddr(source)},
		&a); err != nil {
		r.t.Fatal(err)
	}
	if a.Verdict != weir.Admit {
		return nil
	}
	return &download{hold: a.Hold, at: r.now, from: r.now, want: want}
}

func (r *rig) close(d *download) {
	r.judge.Settle(d.hold, weir.Outcome{Time: r.now, Done: true})
}

// turn lets a download ask once, with most in hand, and use up to most of what it gets. It returns what flowed.
func (r *rig) turn(d *download, use int64) int64 {
	r.t.Helper()
	p := r.judge.(weir.Rationer)
	n, again := p.Ask(d.hold, d.want, false, r.now)
	if n == 0 {
		if !again.After(r.now) {
			r.t.Fatalf("nothing is granted, and to be asked for again at once")
		}
		d.at = again
		return 0
	}
	if n > d.want {
		r.t.Fatalf("%d granted, %d asked for", n, d.want)
	}
	flowed := min(n, use)
	if flowed < n {
		p.Return(d.hold, n-flowed, r.now, r.now)
	}
	d.got += flowed
	d.took = max(d.took, r.now.Sub(d.from))
	d.from = r.now
	return flowed
}

// run lets downloads go on for a while, each with pauses of its own between two reads.
func (r *rig) run(all downloads, length, think time.Duration) (total int64) {
	r.t.Helper()
	heap.Init(&all)
	for end := r.now.Add(length); ; {
		d := all[0]
		if d.at.After(end) {
			r.pass(end.Sub(r.now))
			return total
		}
		if d.at.After(r.now) {
			r.pass(d.at.Sub(r.now))
		}
		if n := r.turn(d, math.MaxInt64); n > 0 {
			total += n
			d.at = r.now.Add(think)
			d.from = d.at
		}
		heap.Fix(&all, 0)
	}
}

// A watch is a bucket that leaks at a rate: it tells whether more than its size plus the rate went through in any
// stretch of time.
type watch struct {
	rate float64 // bytes a second
	full float64
	at   time.Time
	most float64
}

func (w *watch) add(n int64, now time.Time) {
	w.full = max(0, w.full-w.rate*now.Sub(w.at).Seconds()) + float64(n)
	w.at, w.most = now, max(w.most, w.full)
}

// TestAskAdversary: whatever one source does with any number of flows, any sizes of reads, what it gives back, and
// opening and closing, and whenever the key changes, over any stretch it gets at most rate x stretch + burst + one
// token for each flow.
func TestAskAdversary(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.SampledFrom([]int64{1_000, 10_000, 1_000_000, 50_000_000}).Draw(rt, "rate")
		r := newRig(t, Options{Rate: perSecond(rate), Count: Bytes, Attackers: 100,
			Rotate: weir.Duration(15 * time.Second),
			Grain:  weir.Number(rapid.Int64Range(0, rate/1000).Draw(rt, "grain"))})
		source := rapid.SampledFrom([]string{"192.0.2.1", "2001:db8::1"}).Draw(rt, "source")
		var flows []*download
		seen, opened := watch{rate: float64(rate), at: r.now}, 0
		for range rapid.IntRange(20, 100).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"open", "close", "read", "read", "read", "flood", "pass", "key"}).Draw(rt,
				"step") {
			case "open":
				for range rapid.IntRange(1, 40).Draw(rt, "flows") {
					if d := r.open(source, rapid.Int64Range(1, 64<<10).Draw(rt, "size")); d != nil {
						flows, opened = append(flows, d), opened+1
					}
				}
			case "close":
				if len(flows) > 0 {
					i := rapid.IntRange(0, len(flows)-1).Draw(rt, "which")
					r.close(flows[i])
					flows = append(flows[:i], flows[i+1:]...)
				}
			case "read":
				if len(flows) > 0 {
					d := flows[rapid.IntRange(0, len(flows)-1).Draw(rt, "which")]
					seen.add(r.turn(d, rapid.Int64Range(0, 64<<10).Draw(rt, "used")), r.now)
				}
			case "flood": // all at once, whatever they were told
				for _, d := range flows {
					seen.add(r.turn(d, math.MaxInt64), r.now)
				}
			case "pass":
				r.pass(time.Duration(rapid.Int64Range(1, int64(3*time.Second)).Draw(rt, "time")))
			case "key": // a few go on until it changes
				use := rapid.SampledFrom([]int64{0, 100, math.MaxInt64}).Draw(rt, "used")
				for before, end := r.Stats().Rotations, r.now.Add(20*time.Second); r.Stats().Rotations == before &&
					r.now.Before(end); {
					for _, d := range flows[:min(len(flows), 3)] {
						seen.add(r.turn(d, use), r.now)
					}
					r.pass(r.due.Sub(r.now))
				}
			}
		}
		s := r.setup.Load().levels[0]
		if most := float64(s.Burst()) + float64(int64(opened)*s.Grain); seen.most > most {
			rt.Fatalf("%.0f bytes beyond the rate of %d/s, at most %.0f", seen.most, rate, most)
		}
		for _, d := range flows {
			r.close(d)
		}
		if n := len(r.judge.(*pacer).lines.of); n != 0 {
			rt.Fatalf("%d lines are left", n)
		}
	})
}

// TestFiveHundredFlows: 500 greedy flows of one source get what one gets.
func TestFiveHundredFlows(t *testing.T) {
	needs.Unwatched(t)
	const rate, length = 10_000, 34 * time.Second
	r := newRig(t, Options{Rate: perSecond(rate), Count: Bytes, Attackers: 100})
	var all downloads
	for range 500 {
		all = append(all, r.open("192.0.2.1", 32<<10))
	}
	got, most := r.run(all, length, 0), int64(rate*34+rate*9/8)
	if got > most || got < rate*34*9/10 {
		t.Errorf("%d bytes in %s, want at most %d, and 0.9 of it", got, length, most)
	}
	for _, d := range all {
		r.close(d)
	}
}

// TestOneFlowGetsTheRate: an innocent download is not slower for being asked.
func TestOneFlowGetsTheRate(t *testing.T) {
	needs.Unwatched(t)
	for _, rate := range []int64{1_000, 10_000, 1_000_000, 100_000_000} {
		r := newRig(t, Options{Rate: perSecond(rate), Count: Bytes, Attackers: 100})
		d := r.open("192.0.2.1", 32<<10)
		r.run(downloads{d}, 2*time.Second, 0) // the burst
		before := d.got
		r.run(downloads{d}, 10*time.Second, 0)
		if got := d.got - before; got < rate*10*9/10 || got > rate*11 {
			t.Errorf("%d bytes in 10 s at %d/s", got, rate)
		}
	}
}

// TestDownloadBesideAFlood: another source's flows, opened and closed all the time, take nothing from a lone download,
// nor from one that sends small packets, also when the key changes.
func TestDownloadBesideAFlood(t *testing.T) {
	needs.Unwatched(t)
	const rate = 10_000
	r := newRig(t, Options{Rate: perSecond(rate), Count: Bytes, Attackers: 100_000,
		Rotate: weir.Duration(15 * time.Second)})
	lone, small := r.open("198.51.100.1", 32<<10), r.open("203.0.113.1", 32<<10)
	all := downloads{lone, small}
	for range 200 {
		all = append(all, r.open("192.0.2.1", 32<<10))
	}
	heap.Init(&all)
	for ends, turns := r.now.Add(40*time.Second), 0; all[0].at.Before(ends); turns++ {
		d := all[0]
		if d.at.After(r.now) {
			r.pass(d.at.Sub(r.now))
		}
		switch d {
		case lone:
			r.turn(d, math.MaxInt64)
		case small:
			if r.turn(d, 100) > 0 {
				d.at = r.now.Add(100 * time.Millisecond)
				d.from = d.at
			}
		default:
			r.turn(d, math.MaxInt64)
			if turns%50 == 0 {
				r.close(d)
				if next := r.open("192.0.2.1", 32<<10); next != nil {
					*d = *next
				} else {
					heap.Pop(&all)
					continue
				}
			}
		}
		heap.Fix(&all, 0)
	}
	if r.Stats().Rotations == 0 {
		t.Error("the key has not changed")
	}
	if lone.got < 40*rate*9/10 {
		t.Errorf("a lone download got %d bytes in 40 s at %d/s", lone.got, rate)
	}
	if small.got < 40*1000*9/10 || small.took > time.Second {
		t.Errorf("%d bytes in small packets, want %d; one waited %s", small.got, 40*1000, small.took)
	}
}

// TestFlowsTakeTurns: ten downloads share alike, and a flow with small packets waits for one round of them at most.
func TestFlowsTakeTurns(t *testing.T) {
	needs.Unwatched(t)
	for _, rate := range []int64{10_000, 1_000_000} {
		r := newRig(t, Options{Rate: perSecond(rate), Count: Bytes, Attackers: 100})
		var all downloads
		for range 10 {
			all = append(all, r.open("192.0.2.1", 32<<10))
		}
		bulk := append(downloads(nil), all...)
		r.run(all, time.Minute, 0)
		for i, d := range bulk {
			if share := rate * 60 / 10; d.got < share*8/10 || d.got > share*12/10 {
				t.Errorf("download %d of ten got %d bytes at %d/s, want %d", i, d.got, rate, share)
			}
		}
		small := r.open("192.0.2.1", 100)
		ends := r.now.Add(time.Minute)
		small.at, small.from = r.now, r.now
		all = append(append(downloads(nil), bulk...), small)
		heap.Init(&all)
		for all[0].at.Before(ends) {
			d := all[0]
			if d.at.After(r.now) {
				r.pass(d.at.Sub(r.now))
			}
			if r.turn(d, math.MaxInt64) > 0 && d == small {
				d.at = r.now.Add(200 * time.Millisecond)
				d.from = d.at
			}
			heap.Fix(&all, 0)
		}
		round := time.Duration(11*r.setup.Load().levels[0].worth()) * time.Second / time.Duration(rate)
		if most := round + maxTurn; small.took > most || small.got < 100*60*1000/int64(200+most.Milliseconds()) {
			t.Errorf("a small packet waited %s beside ten downloads at %d/s, %d bytes went; want at most %s",
				small.took, rate, small.got, most)
		}
	}
}

// TestLineBound: of one network, MaxLine flows stand in line. One more is not let in until somebody leaves.
func TestLineBound(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(1000), Count: Bytes, Attackers: 100})
	var flows []*download
	for range MaxLine + 1 {
		flows = append(flows, r.open("192.0.2.1", 32<<10))
	}
	for r.turn(flows[0], math.MaxInt64) > 0 {
	}
	for _, d := range flows[1:MaxLine] {
		r.turn(d, math.MaxInt64)
	}
	lines := &r.judge.(*pacer).lines
	stand := func() int { return len(lines.of[NetworkV4([4]byte{192, 0, 2, 1}, 24)]) }
	if stand() != MaxLine {
		t.Fatalf("%d in line", stand())
	}
	if r.turn(flows[MaxLine], math.MaxInt64); stand() != MaxLine || flows[MaxLine].at.Sub(r.now) > maxTurn {
		t.Errorf("%d in line; one outside asks again in %s", stand(), flows[MaxLine].at.Sub(r.now))
	}
	var a weir.Answer
	ev := weir.Event{Time: r.now, Source: netip.MustParseAddr("192.0.2.9")}
	if _ = r.judge.Judge(context.Background(), &ev, &a); a.Verdict != weir.Refuse || a.Reason != weir.OverLimit ||
		!a.Until.After(r.now) {
		t.Errorf("one more: %s", a.Explain())
	}
	a.Clear()
	if r.judge.Peek(&ev, &a); a.Verdict != weir.Refuse {
		t.Errorf("peeked: %s", a.Explain())
	}
	if d := r.open("198.51.100.1", 1); d == nil {
		t.Error("another network is turned away")
	}
	r.close(flows[5])
	if d := r.open("192.0.2.9", 1); d == nil {
		t.Error("turned away although somebody has left")
	}
}

// TestMovedToAnotherLine: where new options have a flow belong to another network, it stands in line there alone.
func TestMovedToAnotherLine(t *testing.T) {
	o := Options{Rate: perSecond(1000), Count: Bytes, Attackers: 100}
	r := newRig(t, o)
	moved, other := r.open("192.0.2.1", 32<<10), r.open("192.0.3.1", 32<<10)
	for r.turn(moved, math.MaxInt64) > 0 {
	}
	o.V4 = 16
	if err := r.Configure(o, r.now); err != nil {
		t.Fatal(err)
	}
	for r.turn(other, math.MaxInt64) > 0 {
	}
	if n := r.turn(moved, math.MaxInt64); n > 0 {
		t.Fatalf("%d bytes beyond the limit", n)
	}
	lines := &r.judge.(*pacer).lines
	if n := len(lines.of); n != 1 {
		t.Errorf("they stand in %d lines", n)
	}
	r.close(moved)
	r.close(other)
	if n := len(lines.of); n != 0 {
		t.Errorf("%d lines are left", n)
	}
}

// TestGoneFromTheLine: a flow that does not come back to ask holds up nobody for long.
func TestGoneFromTheLine(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(1000), Count: Bytes, Attackers: 100})
	gone, next := r.open("192.0.2.1", 32<<10), r.open("192.0.2.1", 32<<10)
	for r.turn(gone, math.MaxInt64) > 0 {
	}
	r.turn(next, math.MaxInt64)
	if n := r.run(downloads{next}, 10*time.Second, 0); n < 9_000 {
		t.Errorf("%d bytes in 10 s behind somebody who is gone", n)
	}
	if n := len(r.judge.(*pacer).lines.of); n > 1 {
		t.Errorf("%d lines", n)
	}
}

// TestAskWhole: packets are granted as a whole or not at all, from several limiters if need be, and stand in no line.
func TestAskWhole(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(10_000), Count: Bytes, Attackers: 100})
	d, p := r.open("192.0.2.1", 1), r.judge.(*pacer)
	all := r.setup.Load().levels[0].inPieces()
	for _, step := range []struct {
		size, granted int64
		after         time.Duration
	}{
		{10_001, 0, 0}, {6_000, 6_000, 0}, {all - 5_999, 0, 0}, {all - 6_000, all - 6_000, 0}, {1, 0, 0},
		{5_000, 0, 400 * time.Millisecond}, {3_900, 3_900, 0}, {10_000, 0, 900 * time.Millisecond},
		{10_000, 10_000, time.Second},
	} {
		r.pass(step.after)
		if n, again := p.Ask(d.hold, step.size, true, r.now); n != step.granted || !again.IsZero() {
			t.Errorf("%d of %d bytes granted, want %d; again at %s", n, step.size, step.granted, again)
		}
	}
	if len(p.lines.of) != 0 {
		t.Error("somebody is in line")
	}
}

// inPieces is what a source that was idle gets at once if it does not ask for the whole burst.
func (v *level) inPieces() int64 { return int64(v.Capacity) * int64(v.K) * v.Grain }

// TestAskAfterRotation: a change of the key is no second burst for who is at the limit.
func TestAskAfterRotation(t *testing.T) {
	const rate = 10_000
	r := newRig(t, Options{Rate: perSecond(rate), Count: Bytes, Attackers: 100,
		Rotate: weir.Duration(15 * time.Second)})
	d := r.open("192.0.2.1", 32<<10)
	r.run(downloads{d}, 5*time.Second, 0)
	before, table := d.got, r.setup.Load().levels[0].now
	r.run(downloads{d}, time.Minute, 0)
	if r.setup.Load().levels[0].now == table {
		t.Fatal("the key has not changed")
	}
	if got := d.got - before; got > rate*60+2*packet || got < rate*60*9/10 {
		t.Errorf("%d bytes in a minute at %d/s over six changes of the key", got, rate)
	}
}

// TestChangeIsNoSecondBurst: flows that take everything just before the key changes, and do not ask again, leave
// nothing for others after it. Neither do flows that had it and gave a part of it back.
func TestChangeIsNoSecondBurst(t *testing.T) {
	const rate, flows, each = 10_000, 18, 500
	for _, used := range []int64{each, 100} {
		r := newRig(t, Options{Rate: perSecond(rate), Count: Bytes, Attackers: 100,
			Rotate: weir.Duration(15 * time.Second)})
		seen, last := watch{rate: rate, at: r.now}, r.open("192.0.2.1", 32<<10)
		for r.setup.Load().levels[0].next == nil || r.now.Add(r.tendEvery()).Sub(start) < 15*time.Second {
			seen.add(r.turn(last, 100), r.now)
			r.pass(r.tendEvery())
		}
		for range flows {
			d := r.open("192.0.2.1", each)
			for left := int64(each); left > 0; left -= used {
				n := r.turn(d, used)
				if seen.add(n, r.now); n == 0 {
					break
				}
			}
		}
		r.pass(2 * r.tendEvery())
		if r.Stats().Rotations != 1 {
			t.Fatalf("%d changes", r.Stats().Rotations)
		}
		seen.add(r.turn(r.open("192.0.2.1", 1<<20), math.MaxInt64), r.now)
		if seen.most > rate+flows {
			t.Errorf("%.0f bytes beyond the rate, want at most the burst of %d", seen.most, rate)
		}
	}
}

// TestReturnIsFree: whoever gives back what did not flow has lost nothing.
func TestReturnIsFree(t *testing.T) {
	for _, rate := range []int64{10_000, 10_000_000} {
		r := newRig(t, Options{Rate: perSecond(rate), Count: Bytes, Attackers: 100})
		d := r.open("192.0.2.1", 32<<10)
		var sent int64
		for range 50 { // small packets
			sent += r.turn(d, 100)
		}
		var peek weir.Answer
		r.judge.Peek(&weir.Event{Time: r.now, Source: netip.MustParseAddr("192.0.2.1")}, &peek)
		v := &r.setup.Load().levels[0]
		if left := peek.Figures[0].Remaining; sent != 5_000 || left < v.inPieces()-sent-v.Grain ||
			left > v.inPieces()-sent+v.Grain {
			t.Errorf("%d left of %d after %d", left, v.inPieces(), sent)
		}
	}
}

func TestAskAllocatesNothing(t *testing.T) {
	r := newRig(t, Options{Rate: perSecond(1_000_000), Count: Bytes, Attackers: 100})
	d, p := r.open("2001:db8::1", 1), r.judge.(weir.Rationer)
	if n := testing.AllocsPerRun(100, func() {
		p.Ask(d.hold, 1000, false, r.now)
		p.Return(d.hold, 500, r.now, r.now)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
