package admission

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"weir"
	"weir/farm"
	"weir/farm/farmtest"
)

// joined returns lanes of a farm of two in which nothing is sent, and what they would send.
func joined(t testing.TB, o Options) (r *rig, s *Shared, sent *[][]byte, skipped *int) {
	t.Helper()
	r, sent, skipped = newRig(t, o), new([][]byte), new(int)
	s = r.l.Join(Joining{Self: farm.Node{Name: "a", Boot: 1}, Send: func(msg []byte) error {
		*sent = append(*sent, msg)
		return nil
	}, Skip: func() { *skipped++ }}, r.now)
	s.Nodes([]farm.Node{other}, 2, 0, r.now)
	return r, s, sent, skipped
}

var other = farm.Node{Name: "b", Boot: 2}

// tells lets the other node say something.
func (r *rig) tells(s *Shared, msg []byte) error {
	r.t.Helper()
	return s.Hear(other, msg, r.now)
}

func TestReport(t *testing.T) {
	want := report{turn: 7, whole: true, learnt: true, asked: 1.5, outside: -2, wants: 3, used: 4, held: 5, ahead: 6,
		waiting: 7, capacity: 8, delay: 9, number: math.MaxUint64, limit: 10.5, base: 1e7}
	msg := want.append(nil)
	got, err := parseReport(msg[2:])
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parseReport(append(msg[2:], "of a later release"...)); err != nil {
		t.Error(err)
	}
	for n := 2; n < len(msg); n++ {
		if _, err := parseReport(msg[2:n]); err == nil {
			t.Fatalf("the first %d bytes are a report", n)
		}
	}
	for _, wrong := range []report{{asked: math.NaN()}, {wants: -1}, {limit: math.Inf(1)}, {outside: math.Inf(-1)},
		{base: -1}, {asked: 1<<30 + 1}, {outside: -1<<30 - 1}} {
		if got, err := parseReport(wrong.append(nil)[2:]); err == nil {
			t.Errorf("%+v", got)
		}
	}
	most := report{asked: 1 << 30, outside: -1 << 30}
	if _, err := parseReport(most.append(nil)[2:]); err != nil {
		t.Error(err)
	}
}

// TestWrongNotes: a note about a client that no node writes is refused.
func TestWrongNotes(t *testing.T) {
	r, s, _, _ := joined(t, Options{Concurrent: 1})
	good := (&awayNote{client{1, 4}, false}).append([]byte{wireVersion, kindAway})
	for name, wrong := range map[string][]byte{
		"a part":              good[:len(good)-1],
		"an account":          (&awayNote{client{1, 0}, true}).append(good),
		"neither in nor away": append(slices.Clone(good[:len(good)-1]), 2),
	} {
		if err := r.tells(s, wrong); !errors.Is(err, errMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.tells(s, good); err != nil {
		t.Error(err)
	}
}

// TestOldVisits: what another node tells of a ticket that has expired meanwhile, or of none, is not kept.
func TestOldVisits(t *testing.T) {
	r, s, _, _ := joined(t, Options{Concurrent: 1, Strict: true})
	late := time.Duration(r.l.patience(nanos(r.now)))
	for _, c := range []struct {
		number uint64
		until  time.Duration
		kept   int
	}{{0, time.Minute, 0}, {1, -late, 0}, {2, 1 - late, 1}, {3, time.Minute, 2}} {
		v := visit{until: nanos(r.now.Add(c.until)), uses: 1, turn: 1}
		if err := r.tells(s, v.append(appendVisits(nil, nanos(r.now), other), c.number)); err != nil {
			t.Error(err)
		}
		if got := r.l.room.remembered(); got != c.kept {
			t.Errorf("after %d, until %s: %d are kept, want %d", c.number, c.until, got, c.kept)
		}
	}
}

// TestSharedBounds: whatever another node says, what is kept of it is bounded.
func TestSharedBounds(t *testing.T) {
	r, s, _, skipped := joined(t, Options{Concurrent: 1, Line: 5, Strict: true})
	shown := func(number uint64) error {
		st := step{lineSeen, number, nanos(r.now), client{number, 4}}
		return r.tells(s, st.append(appendLine(nil, nanos(r.now))))
	}
	r.l.room.most = 5
	for n := range uint64(2 * 5) {
		if err := shown(n + 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := shown(100); !errors.Is(err, errLineBound) {
		t.Errorf("one more in line: %v", err)
	}
	used := func(at farm.Node, number uint64) error {
		v := visit{until: nanos(r.now) + int64(Stay), uses: 1, turn: number}
		return r.tells(s, v.append(appendVisits(nil, nanos(r.now), at), number))
	}
	for n := range uint64(5) {
		if err := used(other, n+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := used(other, 6); !errors.Is(err, errVisitBound) {
		t.Errorf("one more who was let in: %v", err)
	}
	if s := r.present(7, 1); s.State == Called {
		t.Error("somebody is let in who cannot be remembered")
	}
	// They are forgotten also where nobody shows a ticket.
	for range 2 {
		r.now = r.now.Add(Stay + 15*time.Second)
		if err := used(other, 7); err != nil {
			t.Error(err)
		}
	}
	if s := r.stats(); s.Visitors > 1 {
		t.Errorf("%d are remembered", s.Visitors)
	}
	for n := range uint64(maxNodes + 1) {
		if err := used(farm.Node{Name: fmt.Sprint("n", n), Boot: n}, 1000+n); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(r.l.farm.nodes); got != maxNodes || r.l.farm.nodes[other] == nil {
		t.Errorf("%d runs of nodes are remembered", got)
	}

	// What is to be told is bounded as well. The others are then made to ask for all of it.
	r.l.Advance(r.now.Add(time.Second))
	for n := range maxSteps + 1 {
		if len(r.l.farm.steps) < maxSteps != (n < maxSteps) {
			t.Fatalf("%d steps wait after %d", len(r.l.farm.steps), n)
		}
		r.l.note(lineSeen, &entry{number: 1}, nanos(r.now))
		r.l.noteVisit(1, visit{})
	}
	for range maxAway + 1 {
		r.l.noteAway(client{1, 4}, true)
	}
	if f := r.l.farm; len(f.steps) != maxSteps || len(f.visited) != maxSteps || len(f.away) != maxAway {
		t.Errorf("%d, %d and %d wait to be told", len(f.steps), len(f.visited), len(f.away))
	}
	r.l.Advance(r.now.Add(2 * time.Second))
	if *skipped != 1 || len(r.l.farm.steps)+len(r.l.farm.visited)+len(r.l.farm.away) != 0 {
		t.Errorf("skipped %d times", *skipped)
	}
}

// TestSnapshotTellsAll: a node that heard the snapshot of another knows what that one does, also of third ones.
func TestSnapshotTellsAll(t *testing.T) {
	r, s, _, _ := joined(t, Options{Concurrent: 1, Strict: true})
	third := farm.Node{Name: "c", Boot: 3}
	v := visit{until: nanos(r.now) + int64(Stay), uses: 1, turn: 1}
	if err := r.tells(s, v.append(appendVisits(nil, nanos(r.now), third), 7)); err != nil {
		t.Fatal(err)
	}
	r.admit(1)
	r.wait(1)
	for n := range uint64(5000) { // more than one message has room for
		r.present(1000+n, 2)
	}
	fresh, err := New(Options{Concurrent: 1, Strict: true}, r.now)
	if err != nil {
		t.Fatal(err)
	}
	f := fresh.Join(Joining{Self: other, Send: func([]byte) error { return nil }, Skip: func() {}}, r.now)
	f.Nodes([]farm.Node{{Name: "a", Boot: 1}}, 2, 1, r.now)
	if fresh.farm.ready {
		t.Error("it calls people before it knows the line")
	}
	n := 0
	s.Snapshot(r.now, func(msg []byte) bool {
		if n++; len(msg) > farm.MaxPlain {
			t.Errorf("a message of %d bytes", len(msg))
		}
		if err := f.Hear(farm.Node{Name: "a", Boot: 1}, msg, r.now); err != nil {
			t.Error(err)
		}
		return true
	})
	got, want := fresh.Stats(r.now), r.stats()
	if got.InLine+got.Called != want.InLine+want.Called || got.Visitors != want.Visitors || !fresh.farm.ready || n < 3 {
		t.Errorf("%d messages: %+v, want %+v", n, got, want)
	}
	if s := fresh.Present(7, address(1), 1, r.now); s.State != Spent {
		t.Errorf("a ticket that a third node took is %s", s.State)
	}
	s.Snapshot(r.now, func([]byte) bool { n = -1; return false })
	if n != -1 {
		t.Error("nothing is given")
	}
	// It leaves, and serves with its part.
	f.Leave(r.now)
	if got := fresh.Stats(r.now); got.Here != 1 ||
		f.Hear(farm.Node{Name: "a", Boot: 1}, []byte{wireVersion, kindReport}, r.now) != nil {
		t.Errorf("%+v", got)
	}
}

// TestMorePlaces: where the other nodes leave this one more of the capacity, those who wait are let in at once.
func TestMorePlaces(t *testing.T) {
	r, s, _, _ := joined(t, Options{Concurrent: 4})
	r.admit(0)
	r.admit(0)
	waits := r.wait(0)
	s.Nodes(nil, 1, 0, r.now)
	if got := r.called(); !slices.Equal(got, []int{waits.n}) {
		t.Errorf("called %v, want %d", got, waits.n)
	}
}

// TestTurnedAwayInAFarm: a client that one node challenges and another one lets in is one, and asks for one place.
func TestTurnedAwayInAFarm(t *testing.T) {
	r := newFarmRig(t, 1, 3, quick, Options{Concurrent: 30})
	n := 0
	r.Every(time.Second/150, func() bool { // 50 % load
		n++
		who, at := address(n), r.nodes[n%3]
		at.l.TurnedAway(&weir.Event{Time: at.FarmTime(), Source: who}, at.FarmTime())
		r.After(700*time.Millisecond, func() { // it has paid
			ev := paying(1000)
			ev.Source = who
			r.nodes[(n+1)%3].send(ev, nil)
		})
		return true
	})
	r.Run(5 * time.Second)
	for _, n := range r.nodes {
		if share, _ := n.l.Load(n.FarmTime()); share < 0.4 || share > 0.65 {
			t.Errorf("%s: a load of %s: %s", n.Name, share, r)
		}
	}
}

// TestFarmLearns: one node learns for all, with what all of them use. A node that starts takes that over.
func TestFarmLearns(t *testing.T) {
	t.Parallel()
	const can = 20
	r := newFarmRig(t, 1, 3, quick, Options{Learn: true})
	r.slower = func() time.Duration { return 50 * time.Millisecond * time.Duration(max(can, r.used)) / can }
	for _, n := range r.nodes {
		r.offer(n, 200)
	}
	r.Run(20 * time.Second)
	if err := r.agree(can, 3*can); err != nil {
		t.Fatal(err)
	}
	r.restart(r.nodes[0], time.Second)
	r.Run(2 * time.Second)
	if err := r.agree(can, 3*can); err != nil {
		t.Fatal("after a restart: ", err)
	}
	r.Cut([]*farmtest.SimNode{r.nodes[0].SimNode}, []*farmtest.SimNode{r.nodes[1].SimNode, r.nodes[2].SimNode})
	r.Run(10 * time.Second)
	r.Heal()
	r.Run(10 * time.Second)
	if err := r.agree(can, 3*can); err != nil {
		t.Fatal("after a cut: ", err)
	}
}

// agree returns an error unless all nodes have about the same capacity, within bounds.
func (r *farmRig) agree(least, most int) error {
	var all []int
	for _, n := range r.nodes {
		all = append(all, n.l.Stats(n.FarmTime()).Capacity)
	}
	for _, c := range all {
		if c < least || c > most || float64(c) > float64(all[0])*1.3+1 || float64(all[0]) > float64(c)*1.3+1 {
			return fmt.Errorf("capacities %v: %s", all, r)
		}
	}
	return nil
}

// TestFarmCostsNoAllocation: an event that is let in at once allocates nothing in a farm either.
func TestFarmCostsNoAllocation(t *testing.T) {
	r, _, _, _ := joined(t, Options{Concurrent: 10})
	ev := from(weir.Event{Time: r.now}, "192.0.2.1")
	var a weir.Answer
	if n := testing.AllocsPerRun(1000, func() {
		ev.Time = ev.Time.Add(time.Millisecond)
		through(r.l, &ev, &a)
		r.l.Load(ev.Time)
		r.l.TurnedAway(&ev, ev.Time)
	}); n > 0 {
		t.Errorf("%.1f allocations", n)
	}
}

// FuzzShared: whatever another node says, nothing breaks and nothing grows without bound.
func FuzzShared(f *testing.F) {
	rep := report{turn: 1, wants: 5, used: 3, capacity: 10}
	f.Add(rep.append(nil))
	st := step{lineSeen, 7, 1, client{7, 4}}
	msg := st.append(appendLine(nil, 1))
	st.what = lineCalled
	msg = st.append(msg)
	f.Add(msg)
	v := visit{until: 1 << 40, uses: 2, turn: 3}
	f.Add(v.append(appendVisits(nil, 1, other), 7))
	note := awayNote{client{1, 6}, true}
	f.Add(note.append([]byte{wireVersion, kindAway}))
	f.Add([]byte{wireVersion, 99, 1})
	f.Fuzz(func(t *testing.T, msg []byte) {
		r, s, _, _ := joined(t, Options{Concurrent: 10, Line: 2})
		for range 2 {
			_ = r.tells(s, msg) // what is wrong with it is not of interest
			r.now = r.now.Add(time.Second)
			r.l.Advance(r.now)
			r.present(7, 2)
		}
		s.Nodes(nil, 2, 0, r.now)
		st := r.stats()
		if st.Here < 1 || st.Here > 10 || len(r.l.room.entries) > 5 || len(r.l.farm.nodes) > 1 ||
			math.IsNaN(float64(st.Load)) || st.Load < 0 {
			t.Errorf("%+v", st)
		}
		s.Snapshot(r.now, func(msg []byte) bool {
			if err := s.Hear(other, msg, r.now); err != nil {
				t.Error(err)
			}
			return true
		})
	})
}
