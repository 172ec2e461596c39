package main

import "testing"

func TestCollectRarely(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, whole uint64
		want        int
	}{
		{0, 0, 100}, // nothing was collected yet
		{1, 1, 1600},
		{4 * mb, 6 * mb, 1000},
		{16 * mb, 24 * mb, 200},
		{32 * mb, 32 * mb, 100},
		{4 * mb, 200 * mb, 30}, // many goroutines
		{4 * mb, 2000 * mb, 10},
		{44 * mb, 88 * mb, 22},
		{50 * mb, 100 * mb, 20},
		{64 * mb, 64 * mb, 39},
		{1 << 40, 1 << 40, 39},
	} {
		if got := percentFor(c.live, c.whole); got != c.want {
			t.Errorf("%d bytes in use, %d scanned: %d percent, want %d", c.live, c.whole, got, c.want)
		}
	}
}
