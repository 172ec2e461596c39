package demo

import (
	"math"
	"time"
)

// A histogram of durations has buckets that grow by a fiftieth, so that a quantile is right to a hundredth however long
// the demo runs. The zero value is empty.
type histogram struct {
	n       int64
	buckets [histogramBuckets]int64
}

const (
	histogramGrowth  = 1.02
	histogramBuckets = 1000 // from a microsecond to more than five minutes
)

var histogramLog = math.Log(histogramGrowth)

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > time.Microsecond {
		i = int(math.Log(float64(d)/float64(time.Microsecond)) / histogramLog)
	}
	h.buckets[min(i, histogramBuckets-1)]++
	h.n++
}

func (h *histogram) merge(o *histogram) {
	h.n += o.n
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

// quantile returns below which duration the share q of all lies, or 0 for an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(int64(math.Ceil(q*float64(h.n))), 1)
	for i, n := range h.buckets {
		if rank -= n; rank <= 0 {
			return time.Duration(math.Pow(histogramGrowth, float64(i)+0.5) * float64(time.Microsecond))
		}
	}
	return 0
}
