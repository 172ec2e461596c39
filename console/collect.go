package console

import (
	"github.com/prometheus/client_golang/prometheus"

	"weir"
)

// throttleCollector reads the counters of the throttles when somebody scrapes: they are plain atomics, so that judging
// an event costs no more than it must.
type throttleCollector struct{ backend Backend }

var (
	descVerdicts = prometheus.NewDesc("weir_throttle_verdicts_total",
		"Verdicts by throttle; mode shadow counts what was not acted upon.", []string{"throttle", "verdict", "mode"},
		nil)
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
		"Events of accounts without a place in a quota's table, which share limits.", []string{"throttle"}, nil)
	descKnownAccounts = prometheus.NewDesc("weir_quota_accepted_accounts",
		"Accounts of a quota's table that the upstream has accepted, or the options name.", []string{"throttle"}, nil)
	descProbation = prometheus.NewDesc("weir_quota_probation_accounts",
		"Accounts and sources of a quota's table that no upstream has accepted yet.", []string{"throttle"}, nil)
	descPushedOut = prometheus.NewDesc("weir_quota_pushed_out_total",
		"Accounts on probation that made room for others in a quota's table.", []string{"throttle"}, nil)
	descPackets = prometheus.NewDesc("weir_xdp_packets_total",
		"Packets by what became of them, in the kernel.", []string{"interface", "result"}, nil)
	descAttached = prometheus.NewDesc("weir_xdp_attached",
		"1 while the packets of an interface are limited.", []string{"interface"}, nil)
	descBans = prometheus.NewDesc("weir_xdp_bans",
		"Networks on the ban list of an interface.", []string{"interface"}, nil)
	descLeftOut = prometheus.NewDesc("weir_xdp_bans_left_out",
		"Networks on the invalid list for which the ban list of an interface has no room.", []string{"interface"}, nil)
	descCollateral = prometheus.NewDesc("weir_bloom_collateral_ratio",
		"Share of innocent networks that a Bloom limiter refuses now, as estimated.", []string{"throttle"}, nil)
	descDrained = prometheus.NewDesc("weir_bloom_drained_ratio",
		"Share of a Bloom limiter's limiters that have nothing left.", []string{"throttle"}, nil)
	descAttackers = prometheus.NewDesc("weir_bloom_attackers",
		"Networks far over their limit, as estimated.", []string{"throttle"}, nil)
	descBytes = prometheus.NewDesc("weir_bloom_bytes",
		"Memory of a Bloom limiter's tables, both of a rotation.", []string{"throttle"}, nil)
	descRotations = prometheus.NewDesc("weir_bloom_rotations_total",
		"How often a Bloom limiter has changed its key.", []string{"throttle"}, nil)
)

func (c throttleCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descVerdicts, descErrors, descExpired, descShadow, descAccounts, descWaiting,
		descStrangers, descKnownAccounts, descProbation, descPushedOut,
		descCollateral, descDrained, descAttackers, descBytes, descRotations, descPackets, descAttached, descBans,
		descLeftOut} {
		ch <- d
	}
	for _, d := range stampDescs {
		ch <- d
	}
}

func (c throttleCollector) Collect(ch chan<- prometheus.Metric) {
	c.collectXDP(ch)
	for _, t := range c.backend.Throttles() {
		name, counts := t.Link.Name, t.Link.Counts
		counter := func(d *prometheus.Desc, n uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n),
				append([]string{name}, labels...)...)
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
			gauge(descKnownAccounts, float64(t.Table.Accounts-t.Table.Probation))
			gauge(descProbation, float64(t.Table.Probation))
			counter(descPushedOut, t.Table.PushedOut)
		}
		if b := t.Bloom; b != nil {
			gauge(descCollateral, b.Collateral)
			gauge(descDrained, b.Drained)
			gauge(descAttackers, float64(b.Attackers))
			gauge(descBytes, float64(b.Bytes))
			counter(descRotations, b.Rotations)
		}
		if t.Stamp != nil {
			t.Stamp.collect(name, ch)
		}
	}
	for _, g := range c.backend.Status().Gates {
		if g.Capacity != nil {
			g.Capacity.collect(g.Gate, ch)
		}
	}
}

func (c throttleCollector) collectXDP(ch chan<- prometheus.Metric) {
	for _, x := range c.backend.XDP() {
		for result, n := range x.Packets {
			ch <- prometheus.MustNewConstMetric(descPackets, prometheus.CounterValue, float64(n), x.Interface, result)
		}
		attached := 0.
		if x.Attach != "" {
			attached = 1
		}
		ch <- prometheus.MustNewConstMetric(descAttached, prometheus.GaugeValue, attached, x.Interface)
		ch <- prometheus.MustNewConstMetric(descBans, prometheus.GaugeValue, float64(x.Bans), x.Interface)
		ch <- prometheus.MustNewConstMetric(descLeftOut, prometheus.GaugeValue, float64(x.LeftOut), x.Interface)
	}
}
