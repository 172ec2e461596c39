package stamp

import "sync/atomic"

// maxAgain is how many challenges that are replayed over and over are known at a time: 8 KiB.
const maxAgain = 1 << 10

// again knows challenges that were replayed lately, so that their tags are not computed for each replay: most floods of
// replays are one stamp, or few, sent again and again. It knows them by the hash of all their bytes under a secret
// seed, and a newer one takes the place of an older one. Whoever found another challenge with the hash of one that was
// replayed would be told that it was replayed, not that it is forged. Nothing is accepted because of it. The zero value
// is ready to use, and goroutines may share it.
type again [maxAgain]atomic.Uint64

func (a *again) has(hash uint64) bool { return a[hash%maxAgain].Load() == hash }

// note is for a challenge that is genuine and spent.
func (a *again) note(hash uint64) {
	if n := &a[hash%maxAgain]; n.Load() != hash {
		n.Store(hash)
	}
}
