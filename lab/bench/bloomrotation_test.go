//go:build linux

package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestForgetful: the peer of B6 forgets who has not asked for longest, and nobody else.
func TestForgetful(t *testing.T) {
	const size, rate, burst = 16, 1, 3
	f := newForgetful(rate, burst, size)
	var order []uint32 // the newest is the last
	buckets := map[uint32]*bucket{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		now := time.Duration(i) * 50 * time.Millisecond
		source := uint32(r.IntN(40))
		if at := slices.Index(order, source); at >= 0 {
			order = slices.Delete(order, at, at+1)
		} else {
			buckets[source] = &bucket{tokens: burst, last: now}
		}
		order = append(order, source)
		if len(order) > size {
			delete(buckets, order[0])
			order = order[1:]
		}
		if got, want := f.allow(source, now), buckets[source].take(now, rate, burst); got != want {
			t.Fatalf("event %d of source %d: granted %v, want %v", i, source, got, want)
		}
	}
}

func TestBucket(t *testing.T) {
	b, granted := bucket{tokens: 5}, 0
	for at := time.Duration(0); at < 10*time.Second; at += 100 * time.Millisecond {
		if b.take(at, 2, 5) {
			granted++
		}
	}
	if granted != 5+2*10-1 { // the last token comes at the end of the last second
		t.Errorf("granted %d", granted)
	}
}
