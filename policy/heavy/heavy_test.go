package heavy

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

const minute = time.Minute

func TestCounts(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s := New(minute)
	for i := range 10 {
		for range 10 - i {
			s.Add(noon.Add(time.Duration(i)*time.Second), 1, fmt.Sprintf("name %d", i), 2)
		}
	}
	top := s.Top(noon, 3)
	for i, e := range top {
		if want := fmt.Sprintf("name %d", i); e.Name != want || e.Kind != 1 || e.Count != uint32(2*(10-i)) ||
			e.Over != 0 || e.Total != uint64(e.Count) || !e.First.Equal(noon.Add(time.Duration(i)*time.Second)) ||
			!e.Last.Equal(e.First) {
			t.Errorf("%d: %+v", i, e)
		}
	}
	if len(top) != 3 || len(s.Top(noon, 100)) != 10 || len(s.Top(noon, -1)) != 0 {
		t.Errorf("%d of %d", len(top), len(s.Top(noon, 100)))
	}
}

// TestKinds: the same name of another kind is another name.
func TestKinds(t *testing.T) {
	t.Parallel()
	s := New(minute)
	s.Add(noon, 1, "ann", 1)
	s.Add(noon, 2, "ann", 1)
	s.AddBytes(noon, 2, []byte("ann"), 1)
	top := s.Top(noon, 9)
	if len(top) != 2 || top[0].Kind != 2 || top[0].Count != 2 || top[1].Count != 1 {
		t.Errorf("%+v", top)
	}
}

// TestAges: a count halves every half-life, and a name without one is gone from memory.
func TestAges(t *testing.T) {
	t.Parallel()
	s := New(minute)
	s.Add(noon, 1, "ann", 4)
	s.Add(noon, 1, "once", 1)
	for i, want := range []string{"[ann 4 once 1]", "[ann 2]", "[ann 1]", "[]"} {
		var got []any
		for _, e := range s.Top(noon.Add(time.Duration(i)*minute), 9) {
			got = append(got, e.Name, e.Count)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("after %d half-lives: %v, want %s", i, got, want)
		}
	}
	for i := range s.sets {
		if p := s.sets[i].slots; p != nil && *p != [ways]slot{} {
			t.Errorf("set %d still has a name: %+v", i, p)
		}
	}
	s.Add(noon.Add(minute-1), 1, "late", 1) // a moment before the half-life ends
	if top := s.Top(noon.Add(2*minute-2), 9); len(top) != 1 || top[0].Count != 1 {
		t.Errorf("forgotten before a half-life had passed: %+v", top)
	}
	if top := s.Top(noon.Add(2*minute), 9); len(top) != 0 {
		t.Errorf("%+v", top)
	}
	s.Add(noon, 1, "back", 1<<31)
	s.Add(noon.Add(-time.Hour), 1, "back", 1) // the clock was set back
	s.Age(noon.Add(-time.Hour))
	if top := s.Top(noon.Add(-time.Hour), 9); len(top) != 1 || top[0].Count != 1<<31+1 {
		t.Errorf("%+v", top)
	}
	s.Age(noon.Add(1000 * time.Hour))
	if top := s.Top(noon.Add(1000*time.Hour), 9); len(top) != 0 {
		t.Errorf("%+v", top)
	}
}

// TestBounds: one name more than there are places, one byte more than a name has, one more than the highest count.
func TestBounds(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s := New(minute)
	for i := range 100 * Places {
		s.Add(noon, 1, fmt.Sprint(i), 1)
	}
	if n := len(s.Top(noon, 1<<20)); n != Places {
		t.Errorf("%d names", n)
	}
	long := strings.Repeat("x", MaxName)
	s = New(minute)
	s.Add(noon, 1, long, 1)
	s.Add(noon, 1, long+"y", 3)
	s.Add(noon, 1, "", 2)
	s.Add(noon, 1, "nothing", 0)
	top := s.Top(noon, 9)
	if len(top) != 3 || top[0].Name != long || top[0].Count != 3 || top[1].Name != "" || top[2].Name != long {
		t.Errorf("%+v", top)
	}
	s.Add(noon, 1, long, 1<<32-1)
	if top := s.Top(noon, 1); top[0].Count != 1<<32-1 || top[0].Total != 1<<32 {
		t.Errorf("%+v", top[0])
	}
}

// A stream is who sent what, with the truth beside the sketch.
type stream struct {
	*Sketch
	truth map[string]uint32
	sum   [sets]uint64
}

func (s *stream) add(name string) {
	s.Add(noon, 1, name, 1)
	s.truth[name]++
	s.sum[s.setOf(name)]++
}

func (s *stream) setOf(name string) uint64 { return hashOf(s.Sketch, name) % sets }

func hashOf(s *Sketch, name string) uint64 {
	s = &Sketch{seed: s.seed, half: s.half}
	s.Add(noon, 1, name, 1)
	for i := range s.sets {
		for _, h := range s.sets[i].hashes {
			if h != 0 {
				return h
			}
		}
	}
	return 0
}

// TestErrorBound: no count is too high by more than its Over, and no Over is more than a 16th of what came to its set.
func TestErrorBound(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s := &stream{Sketch: New(minute), truth: map[string]uint32{}}
	draw := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(draw, 1.1, 1, 100_000)
	for range 50_000 {
		s.add(fmt.Sprint(zipf.Uint64()))
	}
	for _, e := range s.Top(noon, Places) {
		true1 := s.truth[e.Name]
		if e.Sure() > true1 || uint64(e.Over) > s.sum[s.setOf(e.Name)]/ways || e.Total > uint64(true1) {
			t.Errorf("%+v came %d times, to a set that got %d", e, true1, s.sum[s.setOf(e.Name)])
		}
	}
	for i, e := range s.Top(noon, 10) { // the ten most frequent, perhaps not in order
		if s.truth[e.Name] < s.truth[fmt.Sprint(20)] {
			t.Errorf("%d: %+v came %d times", i, e, s.truth[e.Name])
		}
	}
}

// TestRotatingNames: someone who sends each time under a new name, a hundred times as much as everybody else together,
// does not hide those who are really held back, whether they came before or during the flood.
func TestRotatingNames(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	s := New(minute)
	var name [8]byte
	rotate := func(n int) {
		for range n {
			binary.LittleEndian.PutUint64(name[:], binary.LittleEndian.Uint64(name[:])+1)
			s.AddBytes(noon, 2, name[:], 1)
		}
	}
	for range 400 {
		s.Add(noon, 1, "before", 1)
	}
	for range 2000 {
		rotate(1000)
		for i := range 10 {
			s.Add(noon, 1, fmt.Sprintf("during %d", i), 1)
		}
	}
	real := map[string]uint32{}
	for i, e := range s.Top(noon, 11) {
		if e.Kind != 1 {
			t.Errorf("place %d has a name that came once: %+v", i, e)
		}
		real[e.Name] = e.Sure()
	}
	if len(real) != 11 || real["before"] != 400 {
		t.Errorf("%v", real)
	}
	for name, sure := range real { // of 2000, the first few found no place
		if name != "before" && sure < 1000 {
			t.Errorf("%s: %d are sure", name, sure)
		}
	}
	for i := range s.sets {
		low := uint32(1 << 31)
		for _, c := range s.sets[i].counts {
			low = min(low, c)
		}
		if low > 400 { // sqrt(2·2e6/256) is 125; 2e6/256 would be 7812
			t.Errorf("set %d: the smallest count is %d", i, low)
		}
	}
}

// TestAtOnce: whoever adds, looks and forgets at once.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := New(minute)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 5000 {
				s.Add(noon.Add(time.Duration(i)*time.Millisecond), uint8(g), fmt.Sprint(i%7), 1)
			}
		})
	}
	all.Go(func() {
		for range 50 {
			s.Top(noon, 9)
			s.Age(noon)
		}
	})
	all.Wait()
	var total uint64
	for _, e := range s.Top(noon, Places) {
		total += e.Total
	}
	if total+s.Missed() != 20_000 {
		t.Errorf("%d and %d missed", total, s.Missed())
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	s := New(minute)
	for i := range 10_000 {
		s.Add(noon, 1, fmt.Sprint(i), 1)
	}
	name, buf := strings.Repeat("x", 40), [17]byte{1}
	if n := testing.AllocsPerRun(100, func() {
		s.Add(noon, 1, name, 1)
		buf[3]++
		s.AddBytes(noon, 2, buf[:], 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = fmt.Sprintf("account-%08d", i)
	}
	for _, c := range []struct {
		name string
		n    int
	}{{"one", 1}, {"hundred", 100}, {"rotating", len(names)}} {
		b.Run(c.name, func(b *testing.B) {
			s := New(minute)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Add(noon, 1, names[i%c.n], 1)
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		s := New(minute)
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				s.Add(noon, 1, names[i%len(names)], 1)
			}
		})
	})
}
