package reach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

func knownOf(keys []uint64) *Known {
	k := new(Known)
	for _, key := range keys {
		k.Add(key)
	}
	return k
}

// manyKnown is a set of n random recipients, as many of them recent as there may be: it is the largest then. It is
// packed as it would be after adding one by one, only sooner.
func manyKnown(seed uint64, n int) *Known {
	r, k := rand.New(rand.NewPCG(seed, 8)), &Known{times: 1}
	recent := max(minRecent, min(n/recentShare, maxRecent)) - 1
	var sets []packed
	for g := 0; g < len(generations) && k.n < n-recent; g++ {
		some, bound := min(generations[g].size, n-recent-k.n), generations[g].bound
		w, last := newPacker(bound, some), int64(-1)
		for left := int64(some); left > 0; left-- { // each is somewhere in what is left, and not too far
			last += 1 + r.Int64N(2*(int64(bound)-last-1)/(left+1))
			w.add(uint32(last))
		}
		sets, k.n = append(sets, *w.pack()), k.n+some
	}
	k.settled = appendSettled(k.times, sets)
	for k.recent = make([]uint32, 0, recent); k.Len() < n; {
		h := r.Uint32()
		if at, found := search(k.recent, h); !found {
			k.recent = slices.Insert(k.recent, at, h)
		}
	}
	return k
}

// strangers is which share of strangers seem to be known.
func strangers(has func(uint64) bool, probes int) float64 {
	r, wrong := rand.New(rand.NewPCG(9, 9)), 0
	for range probes {
		if has(r.Uint64()) {
			wrong++
		}
	}
	return float64(wrong) / float64(probes)
}

// A known recipient takes 1.5 bytes, and one in a hundred strangers seems to be one, however many there are.
// BenchmarkKnownSize does the same for more sizes, one by one.
func TestKnownIsSmall(t *testing.T) {
	needs.Unwatched(t)
	for _, n := range []int{10_000, 24_000, 40_000, 50_000, 184_000, 360_000, 1_000_000, MaxKnown} {
		k := manyKnown(uint64(n), n)
		a, _ := k.AppendRecent(nil)
		b, _ := k.AppendSettled(nil)
		memory, store := float64(k.Bytes())/float64(n), float64(len(a)+len(b))/float64(n)
		probes := 10_000
		if n == 10_000 || n == 50_000 || n >= 1_000_000 {
			probes = 50_000
		}
		wrong := strangers(k.Has, probes)
		t.Logf("%7d: %.3f bytes of memory, %.3f stored, %.2f %% of strangers seem known", n, memory, store, 100*wrong)
		if k.Len() != n || memory > 1.5 || store > 1.5 || wrong > 0.01 {
			t.Errorf("%d (%d): %.3f bytes of memory, %.3f stored, %.3f %% of strangers seem known", n, k.Len(), memory,
				store, 100*wrong)
		}
	}
	if k := knownOf(someKeys(1, 10)); k.Bytes() > 128 {
		t.Errorf("10 take %d bytes", k.Bytes())
	}
}

func TestKnownHasRoom(t *testing.T) {
	needs.Unwatched(t)
	k := manyKnown(1, MaxKnown-1)
	keys, refused := someKeys(2, 2000), 0
	for len(keys) > 0 && k.Len() < MaxKnown { // some who were added turn out to be the same when they are settled
		k.Add(keys[0])
		keys = keys[1:]
	}
	for _, key := range keys {
		if had := k.Has(key); k.Add(key) {
			t.Fatalf("added, with %d", k.Len())
		} else if !had {
			if refused++; k.Has(key) {
				t.Fatal("known without room")
			}
		}
	}
	if refused < 900 || k.Len() != MaxKnown {
		t.Errorf("%d refused, %d are there", refused, k.Len())
	}
	if err := k.Merge(knownOf(someKeys(3, 60))); !errors.Is(err, ErrFull) || k.Len() != MaxKnown {
		t.Errorf("merged with more than there is room for: %v, %d", err, k.Len())
	}
}

// Whoever was added is known, also after others were; and nobody is added twice.
func TestKnownForgetsNobody(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		var k Known
		all := drawKeys(t, "keys", 1000)
		n := 0
		var before []byte
		for _, key := range all {
			has, times := k.Has(key), k.Generation()
			if k.Add(key) == has || !k.Has(key) {
				t.Fatalf("%#x was known: %v; now %v", key, has, k.Has(key))
			}
			if !has {
				n++
			}
			if settled, _ := k.AppendSettled(nil); times == k.Generation() && !bytes.Equal(settled, before) {
				t.Fatal("settled in secret")
			} else {
				before = settled
			}
		}
		for _, key := range all {
			if !k.Has(key) {
				t.Fatalf("%#x is forgotten", key)
			}
		}
		if k.Len() > n || float64(k.Len()) < 0.9*float64(n)-5 { // some are the same after they were settled
			t.Fatalf("%d of %d", k.Len(), n)
		}
	})
}

func TestKnownManyForgetsNobody(t *testing.T) {
	keys := someKeys(4, 26_000)
	k := knownOf(keys)
	for i, key := range keys {
		if !k.Has(key) {
			t.Fatalf("%d of %d is forgotten", i, len(keys))
		}
	}
	if sets, _, _ := openSettled(k.settled); len(sets) != 2 || k.Len() < 25_800 {
		t.Errorf("%d generations, %d", len(sets), k.Len())
	}
}

// What is stored is what was there, and is not changed by what comes later.
func TestKnownIsStored(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		keys := drawKeys(t, "keys", 600)
		k := knownOf(keys)
		recent, _ := k.AppendRecent(nil)
		settled, _ := k.AppendSettled(nil)
		was := slices.Clone(settled)
		var read Known
		if err := errors.Join(read.SetSettled(settled), read.SetRecent(recent)); err != nil {
			t.Fatal(err)
		}
		if read.Len() != k.Len() || read.Generation() != k.Generation() {
			t.Fatalf("%d of %d, settled %d times and not %d", read.Len(), k.Len(), read.Generation(), k.Generation())
		}
		for _, key := range append(keys, drawKeys(t, "strangers", 300)...) {
			if k.Has(key) != read.Has(key) || k.Add(key) != read.Add(key) {
				t.Fatalf("%#x is no longer what it was", key)
			}
		}
		if !bytes.Equal(settled, was) {
			t.Fatal("changed what was given to it")
		}
	})
}

func TestKnownMerges(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		x := drawKeys(t, "x", 500)
		y := append(drawKeys(t, "y", 500), x[:rapid.IntRange(0, len(x)).Draw(t, "both")]...)
		a, b := knownOf(x), knownOf(y)
		ab, ba := *a, *b
		if err := errors.Join(ab.Merge(b), ba.Merge(a)); err != nil {
			t.Fatal(err)
		}
		for _, key := range slices.Concat(x, y) {
			if !ab.Has(key) || !ba.Has(key) {
				t.Fatalf("%#x is forgotten", key)
			}
		}
		most := knownOf(slices.Concat(x, y)).Len() + 20
		if ab.Len() > most || ba.Len() > most || ab.Len() < max(a.Len(), b.Len())-20 {
			t.Fatalf("%d and %d make %d or %d", a.Len(), b.Len(), ab.Len(), ba.Len())
		}
		n, times := ab.Len(), ab.Generation()
		for _, o := range []*Known{a, b, &ab} {
			if err := ab.Merge(o); err != nil {
				t.Fatal(err)
			}
		}
		if ab.Len() > n || ab.Generation() > times+2 {
			t.Fatalf("merging again made %d of %d", ab.Len(), n)
		}
		for _, key := range x {
			if !a.Has(key) {
				t.Fatal("what was merged has changed")
			}
		}
	})
}

// Both parts of a farm know the same people for the most part, and each met some more.
func TestKnownMergesMany(t *testing.T) {
	needs.Unwatched(t)
	keys := someKeys(5, 36_000)
	a, b := knownOf(keys[:26_000]), knownOf(keys[10_000:])
	if err := a.Merge(b); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !a.Has(key) {
			t.Fatal("forgotten")
		}
	}
	if wrong := strangers(a.Has, 20_000); wrong > 0.015 || a.Len() < 35_500 || a.Len() > 36_000 {
		t.Errorf("%d, %.2f %% of strangers seem known", a.Len(), 100*wrong)
	}
	// Twice as many as a generation has room for is too much, since it is wrong so often.
	many := manyKnown(6, 25_000)
	for seed := uint64(7); ; seed++ {
		if err := many.Merge(manyKnown(seed, 25_000)); err != nil {
			if !errors.Is(err, ErrFull) || seed != 8 || many.Len() < 49_000 {
				t.Errorf("%v at %d with %d", err, seed, many.Len())
			}
			return
		}
	}
}

func TestKnownRefuses(t *testing.T) {
	k := knownOf(someKeys(1, 300))
	recent, _ := k.AppendRecent(nil)
	settled, _ := k.AppendSettled(nil)
	var read Known
	read.Add(1)
	for cut := 1; cut < len(settled); cut++ {
		if err := read.SetSettled(settled[:cut]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d of %d settled bytes: %v", cut, len(settled), err)
		}
	}
	for i := range settled {
		settled[i] ^= 1 << (i % 8)
		if err := read.SetSettled(settled); !errors.Is(err, ErrCorrupt) && (i > 0 || !errors.Is(err, ErrNewer)) {
			t.Errorf("byte %d is another: %v", i, err)
		}
		settled[i] ^= 1 << (i % 8)
	}
	for cut := range recent {
		if err := read.SetRecent(recent[:cut]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d of %d recent bytes: %v", cut, len(recent), err)
		}
	}
	slices.Reverse(recent[3:])
	if err := read.SetRecent(recent); !errors.Is(err, ErrCorrupt) {
		t.Errorf("out of order: %v", err)
	}
	recent[0], settled[0] = recentVersion+1, settledVersion+1
	if err := read.SetRecent(recent); !errors.Is(err, ErrNewer) {
		t.Errorf("of a later version: %v", err)
	}
	if err := read.SetSettled(settled); !errors.Is(err, ErrNewer) {
		t.Errorf("of a later version: %v", err)
	}
	if read.Len() != 1 || !read.Has(1) {
		t.Error("changed by what was refused")
	}
	if err := read.SetSettled(nil); err != nil || read.Len() != 1 {
		t.Errorf("nothing settled: %v", err)
	}
}

// What is settled cannot make a look-up fail, even where the checksum was made for it.
func FuzzSettled(f *testing.F) {
	for _, n := range []int{64, 200, 2000} {
		b, _ := knownOf(someKeys(1, n)).AppendSettled(nil)
		f.Add(b)
	}
	b := appendSettled(7, []packed{*packAll(generations[0].bound, 1, 5, 6), *packAll(generations[1].bound, 3),
		*packAll(generations[2].bound)})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var k Known
		if err := k.SetSettled(b); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
			t.Error(err)
		}
		if len(b) < settledHead {
			return
		}
		b = slices.Clone(b)
		binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], checksums))
		if k.SetSettled(b) != nil {
			return
		}
		for _, key := range append(someKeys(uint64(len(b)), 300), 0, ^uint64(0)) {
			k.Has(key)
			k.Add(key)
			if !k.Has(key) && k.Len() < MaxKnown {
				t.Errorf("%#x is forgotten", key)
			}
		}
		o := k
		if err := k.Merge(&o); err != nil && !errors.Is(err, ErrFull) {
			t.Error(err)
		}
	})
}

func packAll(bound uint32, values ...uint32) *packed {
	w := newPacker(bound, len(values))
	for _, v := range values {
		w.add(v)
	}
	return w.pack()
}

func FuzzRecent(f *testing.F) {
	b, _ := knownOf(someKeys(1, 50)).AppendRecent(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var k Known
		if err := k.SetRecent(b); err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
				t.Error(err)
			}
			return
		}
		if again, _ := k.AppendRecent(nil); !bytes.Equal(again, b) {
			t.Errorf("%x was read, %x is stored", b, again)
		}
		for _, key := range someKeys(uint64(len(b)), 100) {
			if k.Add(key); !k.Has(key) {
				t.Errorf("%#x is forgotten", key)
			}
		}
	})
}
