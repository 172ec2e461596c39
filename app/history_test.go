package app

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/console"
	"weir/policy"
)

// limited is a gate whose upstream does four things at once, and that asks for stamps except for what tests usually
// get.
const limited = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, capacity: {concurrent: 4}, throttles: [stamps]}
throttles:
  stamps: {stamp: {schedule: [{load: 0%, work: 64}], never_ask: {paths: ["/v1/*"]}}}
console: {listen: "127.0.0.1:0", without_login: view}
`

// unlimited is the same gate without a capacity.
var unlimited = strings.Replace(limited, "capacity: {concurrent: 4}, ", "", 1)

// recordsOf are the records of one kind of things.
func recordsOf[K any](b *bench) (all []*record) {
	for of, r := range b.history.records {
		if _, ok := of.(K); ok {
			all = append(all, r)
		}
	}
	return all
}

func (b *bench) past(i int) console.GateHistory {
	b.t.Helper()
	all := backend{b.App}.History()
	if i >= len(all) {
		b.t.Fatalf("no %d-th past in %+v", i, all)
	}
	return all[i]
}

func TestHistory(t *testing.T) {
	t.Parallel()
	b := start(t, limited)
	if h := b.past(0); h.Gate != "127.0.0.1:0" || h.Address != b.Addr("http", 0).String() || h.Stamps != "stamps" ||
		len(h.Samples) != 0 {
		t.Errorf("at the start: %+v", h)
	}
	for range 3 {
		b.wants("of which nothing is asked", b.get(0, ""), 200)
	}
	b.clock.Advance(console.HistoryEvery)
	b.clock.Advance(console.HistoryEvery)
	h := b.past(0)
	if len(h.Samples) != 2 {
		t.Fatalf("%+v", h)
	}
	first, second := h.Samples[0], h.Samples[1]
	if !first.At.Equal(noon.Add(time.Second)) || !second.At.Equal(noon.Add(2*time.Second)) {
		t.Errorf("at %s and %s", first.At, second.At)
	}
	// Clients that are asked nothing go with those who paid.
	if got := first.Stamped + first.Pool; got != 3 || first.TurnedAway != 0 {
		t.Errorf("three were let in: %+v", first)
	}
	if first.Work != 64 || first.Takes != 64*time.Microsecond {
		t.Errorf("64 operations are asked for: %+v", first)
	}
	if second.Stamped+second.Pool+second.TurnedAway != 0 {
		t.Errorf("nobody came any more: %+v", second)
	}
	code, page := b.page("/")
	for _, want := range []string{"Load of " + h.Address + " over the last 5 minutes: now 0%",
		"6 bits, about 64µs on a phone", `class="line stamped" d="M99.67`} {
		if code != 200 || !strings.Contains(page, want) {
			t.Errorf("%d: no %q in %s", code, want, page)
		}
	}
}

// TestHistoryOfTheTurnedAway: what is turned away shows, and in the load, too.
func TestHistoryOfTheTurnedAway(t *testing.T) {
	t.Parallel()
	b := start(t, strings.Replace(limited, "/v1/*", "/free/*", 1))
	for range 40 {
		b.wants("unpaid", b.get(0, ""), 503)
	}
	b.clock.Advance(console.HistoryEvery)
	if s := b.past(0).Last(); s.TurnedAway != 40 || s.Stamped+s.Pool != 0 || s.Load <= 0 {
		t.Errorf("%+v", s)
	}
}

// TestHistoryIsBounded: one sample more than there may be pushes out the oldest.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	b := start(t, limited)
	b.clock.Advance((console.HistoryLength + 1) * console.HistoryEvery)
	h := b.past(0)
	if len(h.Samples) != console.HistoryLength || !h.Samples[0].At.Equal(noon.Add(2*console.HistoryEvery)) {
		t.Errorf("%d samples, from %s", len(h.Samples), h.Samples[0].At)
	}
	if !slices.IsSortedFunc(h.Samples, func(a, b console.Sample) int { return a.At.Compare(b.At) }) {
		t.Error("not in order")
	}
}

func TestRing(t *testing.T) {
	t.Parallel()
	const most = 3
	var r ring[int]
	for i, want := range []string{"[1]", "[1 2]", "[1 2 3]", "[2 3 4]", "[3 4 5]", "[4 5 6]", "[5 6 7]"} {
		r.put(i+1, most)
		if got := fmt.Sprint(r.all()); got != want || cap(r.kept) > most {
			t.Errorf("%s of %d, want %s", got, cap(r.kept), want)
		}
	}
	kept := r.all()
	kept[0] = 99
	if got := fmt.Sprint(r.all()); got != "[5 6 7]" {
		t.Errorf("what was handed out is changed from outside: %s", got)
	}
}

// TestHistoryFollowsTheConfiguration: only gates with a capacity have a history of it; a reload that keeps a gate keeps
// its past.
func TestHistoryFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	b := start(t, unlimited)
	reload := func(text string) {
		t.Helper()
		if err := b.Reload(b.config(text)); err != nil {
			t.Fatal(err)
		}
	}
	b.wants("timers without a capacity", b.clock.Pending(), 1)
	b.wants("pasts without a capacity", len(backend{b.App}.History()), 0)

	reload(limited)
	b.wants("timers", b.clock.Pending(), 1)
	b.clock.Advance(5 * console.HistoryEvery)
	reload(strings.Replace(limited, "concurrent: 4", "concurrent: 5", 1))
	b.wants("timers after a reload", b.clock.Pending(), 1)
	b.wants("samples after a reload", len(b.past(0).Samples), 5)

	// A second gate begins with nothing, and stays when the first one loses its capacity.
	second := `- {listen: "127.0.0.2:0", upstream: UPSTREAM, capacity: {concurrent: 4}}` + "\nthrottles:"
	reload(strings.Replace(limited, "throttles:\n", second+"\n", 1))
	b.clock.Advance(3 * console.HistoryEvery)
	b.wants("samples of the first gate", len(b.past(0).Samples), 8)
	b.wants("samples of the second gate", len(b.past(1).Samples), 2) // the first look has nothing to compare with
	b.wants("what the second gate asks for", b.past(1).Stamps, "")
	reload(strings.Replace(unlimited, "throttles:\n", second+"\n", 1))
	b.wants("the only past", b.past(0).Gate, "127.0.0.2:0")
	b.clock.Advance(console.HistoryEvery)
	b.wants("records of gates", len(recordsOf[*traffic](b)), 2)
	b.wants("records of throttles", len(recordsOf[*policy.Counts](b)), 3) // stamps, bans, one capacity

	reload(unlimited)
	b.wants("pasts of gates that have none any more", len(backend{b.App}.History()), 0)
	b.clock.Advance(console.HistoryEvery)
	b.wants("records of gates that are left", len(recordsOf[*traffic](b)), 1)
	b.wants("records of throttles that are left", len(recordsOf[*policy.Counts](b)), 2)

	b.Stop(t.Context())
	b.wants("timers of a weir that has stopped", b.clock.Pending(), 0)
	b.history.watch()
	b.history.tick()
	b.wants("timers that come too late", b.clock.Pending(), 0)
}

// TestAClockSetBack: a sample that took no time has no rates, and is left out.
func TestAClockSetBack(t *testing.T) {
	t.Parallel()
	b := start(t, limited)
	b.clock.Advance(console.HistoryEvery)
	g := b.current.Load()
	for _, now := range []time.Time{b.clock.Now(), b.clock.Now().Add(-time.Minute), b.clock.Now().Add(-time.Minute)} {
		b.history.records[g.gates[0].seen].sample(readGate(g, g.gates[0], now), now)
	}
	b.wants("samples", len(b.past(0).Samples), 1)
	b.clock.Advance(console.HistoryEvery)
	b.wants("samples a second later", len(b.past(0).Samples), 2)
}

// TestHistoryInAHurry: whoever looks, reloads, samples and stops at once.
func TestHistoryInAHurry(t *testing.T) {
	t.Parallel()
	b := start(t, limited)
	var all sync.WaitGroup
	for _, f := range []func(){
		func() { backend{b.App}.History() },
		func() { b.clock.Advance(console.HistoryEvery) },
		func() { b.Reload(b.config(limited)) },
		func() { b.history.watch() },
	} {
		all.Go(func() {
			for range 20 {
				f()
			}
		})
	}
	all.Go(func() { b.Stop(t.Context()) })
	all.Wait()
	b.clock.Advance(console.HistoryEvery)
	b.wants("timers of a weir that has stopped", b.clock.Pending(), 0)
}
