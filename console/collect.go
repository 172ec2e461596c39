package console

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir"
)

// throttleCollector reads the counters of the throttles when somebody scrapes: they are plain atomics, so that judging an event
// costs no more than it must.
type throttleCollector struct{ backend Backend }

var (
	descVerdicts = prometheus.NewDesc("weir_throttle_verdicts_total",
		"Verdicts by throttle; mode shadow counts what was not acted upon.", []string{"throttle", "verdict", "mode"}, nil)
	descErrors = prometheus.NewDesc("weir_throttle_errors_total",
		"How often a throttle failed to judge.", []string{"throttle"}, nil)
	descExpired = prometheus.NewDesc("weir_throttle_expired_waits_total",
		"Waits that ended without a turn.", []string{"throttle"}, nil)
	descShadow = prometheus.NewDesc("weir_throttle_shadow",
		"1 while the throttle judges and counts, but lets everything pass.", []string{"throttle"}, nil)
	descAccounts = prometheus.NewDesc("weir_quota_accounts",
		"Accounts that a quota keeps apart now.", []string{"throttle"}, nil)
	descWaiting = prometheus.NewDesc("weir_quota_waiting",
		"Events that wait in a quota's lines now.", []string{"throttle"}, nil)
	descStrangers = prometheus.NewDesc("weir_quota_strangers_total",
		"Events of accounts beyond the bound of a quota's table.", []string{"throttle"}, nil)
)

func (c throttleCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descVerdicts, descErrors, descExpired, descShadow, descAccounts, descWaiting, descStrangers} {
		ch <- d
	}
}

func (c throttleCollector) Collect(ch chan<- prometheus.Metric) {
	for _, t := range c.backend.Throttles() {
		name, counts := t.Link.Name, t.Link.Counts
		counter := func(d *prometheus.Desc, n uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{name}, labels...)...)
		}
		gauge := func(d *prometheus.Desc, n float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, name)
		}
		for i, v := range weir.Verdicts {
			counter(descVerdicts, counts.Verdicts[i].Load(), v.String(), "enforce")
			counter(descVerdicts, counts.Shadowed[i].Load(), v.String(), "shadow")
		}
		counter(descErrors, counts.Errors.Load())
		counter(descExpired, counts.Expired.Load())
		shadow := 0.
		if t.Link.Shadow.Load() {
			shadow = 1
		}
		gauge(descShadow, shadow)
		if t.Table != nil {
			gauge(descAccounts, float64(t.Table.Accounts))
			gauge(descWaiting, float64(t.Table.Waiting))
			counter(descStrangers, t.Table.Strangers)
		}
	}
}
