package farm

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// nowhere is a bus to nobody.
type nowhere struct{}

func (nowhere) Send(string, []byte) error                                  { return nil }
func (nowhere) Hear(string, func([]byte)) (func(), error)                  { return func() {}, nil }
func (nowhere) Stats() BusStats                                            { return BusStats{} }
func (nowhere) Close(context.Context) error                                { return nil }
func (nowhere) Answer(string, string, func([]byte) []byte) (func(), error) { return func() {}, nil }
func (nowhere) Ask(context.Context, string, string, []byte) ([]byte, error) {
	return nil, ErrGone
}

// deaf is a state that keeps nothing.
type deaf struct{}

func (deaf) Hear(Node, []byte, time.Time) error           { return nil }
func (deaf) Snapshot(_ time.Time, give func([]byte) bool) { give(nil) }

func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w window
		seen := map[uint64]bool{}
		high := uint64(0)
		for range rapid.IntRange(1, 300).Draw(t, "numbers") {
			near := rapid.Int64Range(-1100, 1100).Draw(t, "step")
			n := uint64(max(int64(high)+near, 0))
			want := n > 0 && !seen[n] && (n > high || high-n < windowSize)
			if got := w.see(n); got != want {
				t.Fatalf("see(%d) is %v with %d the highest", n, got, high)
			}
			seen[n] = true
			high = max(high, n)
		}
	})
	var w window
	if !w.see(1<<64-1) || w.see(1<<64-1) || w.see(1) {
		t.Error("the highest number")
	}
}

// A stream that has heard and restored all is whole, and what it missed is counted.
func TestStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &stream{whole: true}
		sent, missing, missed := uint64(0), map[uint64]bool{}, uint64(0)
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				sent++
				missing[sent] = true
			case 1:
				s.tell(sent, 0)
			case 2:
				want := uint64(len(missing))
				if got := s.restore(sent, 0); got != want {
					t.Fatalf("%d were missed, want %d", got, want)
				}
				missed += want
				clear(missing)
			default:
				sent++
				if !s.hear(sent, 0) || s.hear(sent, 0) {
					t.Fatal("a new message is new once")
				}
			}
			s2 := s.floor < s.told
			if len(missing) == 0 && s2 {
				t.Fatalf("nothing is missing, and the floor is %d of %d", s.floor, s.told)
			}
			for n := range missing {
				if n <= s.floor {
					t.Fatalf("%d is missing, and the floor is %d", n, s.floor)
				}
			}
		}
	})
}

// While a snapshot is under way, more may be told than a window holds. If none of that is lost, nothing is missing
// after it: else a node that tells much would be asked for snapshots forever.
func TestLongSnapshot(t *testing.T) {
	const last = 5 * windowSize
	for _, lost := range []uint64{0, last - 2*windowSize, last - 3} {
		s := &stream{whole: true}
		s.hear(1, 0)
		for n := uint64(3); n <= last; n += 2 { // 2 is lost, and pairs change places
			for _, n := range []uint64{n + 1, n} {
				if n != lost && n <= last {
					s.hear(n, 0)
				}
			}
		}
		if missed := s.restore(10, 0); missed != 1 && lost == 0 {
			t.Errorf("%d were missed, want 1", missed)
		}
		if missing := s.floor < s.told; missing != (lost > 0) {
			t.Errorf("with %d lost the floor is %d of %d", lost, s.floor, s.told)
		}
		if s.restore(last-1, 0); s.floor != last || s.above != 0 {
			t.Errorf("with %d lost, and made up for, the floor is %d of %d, and %d above it", lost, s.floor, last, s.above)
		}
	}
}

// A snapshot that was made before a message was lost does not make up for it.
func TestEarlySnapshot(t *testing.T) {
	s := &stream{whole: true}
	s.hear(1, 0)
	s.hear(3, 0) // 2 is lost
	if s.lacks(reorderGrace - 1) {
		t.Error("2 may still come")
	}
	if !s.lacks(reorderGrace) {
		t.Error("2 does not come")
	}
	if !s.take(&partHead{ID: 1, At: 3, K: 0, N: 2}, 0) {
		t.Error("the first part is of no use")
	}
	s.hear(5, 0) // 4 is lost
	if s.take(&partHead{ID: 1, At: 3, K: 0, N: 2}, 0) {
		t.Error("the same part again is of use")
	}
	if !s.take(&partHead{ID: 1, At: 3, K: 1, N: 2}, 0) || s.parts.left != 0 {
		t.Error("the second part is of no use")
	}
	if missed := s.restore(3, 0); missed != 1 || s.floor != 3 || !s.lacks(reorderGrace) {
		t.Errorf("missed %d, floor %d", missed, s.floor)
	}
	if s.take(&partHead{ID: 1, At: 3, K: 0, N: 2}, 0) {
		t.Error("a part of an early snapshot is of use")
	}
	s.require()
	s.latest = 2
	s.require()
	if s.take(&partHead{ID: 2, At: 5, K: 0, N: 1}, 0) {
		t.Error("a snapshot from before it was wanted is of use")
	}
}

func TestMissing(t *testing.T) {
	s := &stream{want: true}
	for k := range 600 {
		if k%2 == 0 {
			s.take(&partHead{ID: 1, K: k, N: 600}, 0)
		}
	}
	if list := s.parts.missing(); len(list) != maxMissing || list[0] != 1 || list[1] != 3 {
		t.Errorf("%v", list)
	}
}
