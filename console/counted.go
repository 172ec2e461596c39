package console

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir"
)

// GateCounts are what a gate has counted since its series began.
type GateCounts struct {
	Verdicts [len(weir.Verdicts)]uint64
	Added    Spread // seconds added to requests; empty where that is not measured
}

// counted is the value of a counter.
func counted(c prometheus.Metric) uint64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil { // a counter of ours does not fail
		return 0
	}
	return uint64(m.GetCounter().GetValue())
}

// spreadOf is the value of a histogram.
func spreadOf(h prometheus.Metric) (s Spread) {
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		return s
	}
	var below uint64
	for _, b := range m.GetHistogram().GetBucket() {
		s.Bounds = append(s.Bounds, b.GetUpperBound())
		s.Counts = append(s.Counts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	s.Counts = append(s.Counts, m.GetHistogram().GetSampleCount()-below)
	return s
}
