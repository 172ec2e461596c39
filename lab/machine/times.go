package machine

import (
	"math"
	"time"
)

// Times counts durations in buckets that grow by a fiftieth, so that a quantile is right to a hundredth however many
// there are. The zero value is empty. It is not safe for concurrent use.
type Times struct {
	N       int64 // how many there are
	buckets [timesBuckets]int64
}

const (
	timesGrowth  = 1.02
	timesBuckets = 1200 // from a microsecond to more than five hours
)

var timesLog = math.Log(timesGrowth)

func (t *Times) Add(d time.Duration) {
	i := 0
	if d > time.Microsecond {
		i = int(math.Log(float64(d)/float64(time.Microsecond)) / timesLog)
	}
	t.buckets[min(i, timesBuckets-1)]++
	t.N++
}

// Merge adds others.
func (t *Times) Merge(o *Times) {
	t.N += o.N
	for i, n := range o.buckets {
		t.buckets[i] += n
	}
}

// Quantile returns the duration below which the share q of all lies, or 0 where there are none.
func (t *Times) Quantile(q float64) time.Duration {
	rank := max(int64(math.Ceil(q*float64(t.N))), 1)
	for i, n := range t.buckets {
		if rank -= n; rank <= 0 {
			return time.Duration(math.Pow(timesGrowth, float64(i)+0.5) * float64(time.Microsecond))
		}
	}
	return 0
}
