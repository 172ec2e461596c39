package console

import (
	"cmp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir"
	"weir/store"
)

// observed are the metrics that are read from the backend at each scrape. Throttles count with plain atomics: judging
// an event must stay cheap. Names that end in _total are counters, all others gauges, weir_farm_counters_seconds aside.
var observed = []struct{ name, help, labels string }{
	{"weir_throttle_verdicts_total", "Verdicts by throttle and by the rule that decided; policy is empty for " +
		"admissions and where no rule is named. Mode shadow counts what was not acted upon.",
		"throttle policy verdict mode"},
	{"weir_throttle_errors_total", "How often a throttle failed to judge.", "throttle"},
	{"weir_throttle_expired_waits_total", "Waits that ended without a turn.", "throttle"},
	{"weir_throttle_shadow", "1 while the throttle judges and counts, but admits everything.", "throttle"},
	{"weir_shadow_all", "1 while the emergency switch is on: nothing is refused or delayed.", ""},

	{"weir_http_route_requests_total", "Requests by route of an HTTP gate and by verdict.", "gate route verdict"},
	{"weir_http_route_failed_total", "Of the admitted requests of a route, those answered with 5xx.", "gate route"},

	{"weir_notices_total", "Notices to people, by target and by result: sent, or dropped because too many waited or " +
		"they could not be delivered for a day.", "target result"},
	{"weir_notices_failed_total", "Attempts to deliver notices that failed.", "target"},
	{"weir_notices_waiting", "Notices that wait to be delivered.", "target"},

	{"weir_quota_accounts", "Accounts in a quota's table.", "throttle"},
	{"weir_quota_waiting", "Events that wait in a quota's lines now.", "throttle"},
	{"weir_quota_capped_costs_total", "Answers that said a higher cost than cost.max allows.", "throttle"},
	{"weir_quota_overflow_total", "Events of accounts that share limits because a quota's table is full.", "throttle"},
	{"weir_quota_accepted_accounts", "Accounts in a quota's table that the upstream has accepted, or that the " +
		"configuration names.", "throttle"},
	{"weir_quota_probation_accounts", "Accounts and sources in a quota's table that no upstream has accepted yet.",
		"throttle"},
	{"weir_quota_pushed_out_total", "Accounts on probation that were removed from a quota's table to make room.",
		"throttle"},

	{"weir_quota_lent_calls_total", "Calls to the engine for policies with farm: exact.", "throttle"},
	{"weir_quota_lent_failed_total", "Of those, calls that the engine did not answer in time.", "throttle"},
	{"weir_quota_lent_denied_total", "Of those, calls for which the engine had nothing left.", "throttle"},
	{"weir_quota_lent_waited_total", "Requests that waited for an answer of the engine.", "throttle"},
	{"weir_quota_lent_crowded_total", "Calls to the engine that were not made, because too many were under way.", "throttle"},
	{"weir_quota_lent_kept_total", "Invented accounts that stay in the engine until their periods end, because too many came at once or the engine was lost.", "throttle"},
	{"weir_quota_lent_accounts", "Accounts of which this node has something on loan from the engine.", "throttle"},
	{"weir_quota_farm_told_total", "Counters of accounts sent to the other nodes of the farm.", "throttle"},
	{"weir_quota_farm_heard_total", "Counters of accounts received from other nodes of the farm.", "throttle"},
	{"weir_quota_farm_ignored_total", "Of those, counters of policies that this node does not have, and of accounts " +
		"for which its table has no room.", "throttle"},

	{"weir_bloom_collateral_ratio", "Estimated share of innocent networks that a Bloom limiter refuses now.",
		"throttle"},
	{"weir_bloom_drained_ratio", "Share of a Bloom limiter's counters that have nothing left.", "throttle"},
	{"weir_bloom_attackers", "Estimated number of networks that are far over their limit.", "throttle"},
	{"weir_bloom_bytes", "Memory of a Bloom limiter's tables, both of a rotation.", "throttle"},
	{"weir_bloom_rotations_total", "How often a Bloom limiter has changed its key.", "throttle"},

	{"weir_stamp_work", "Work that a stamp must contain now, in operations; 0 while no stamps are asked for.",
		"throttle gate"},
	{"weir_stamp_requests_total", "Requests while stamps were asked for, by result.", "throttle result"},
	{"weir_stamp_challenges_total", "Challenges issued.", "throttle"},
	{"weir_stamp_accepted_total", "Uses of stamps that were accepted.", "throttle"},
	{"weir_stamp_spent", "Stamps that are remembered as used.", "throttle"},

	{"weir_http_upstream_healthy", "1 while a server is healthy, 0 after it has failed and until it is back.", "gate server"},
	{"weir_http_upstream_kept_bytes", "Memory of requests' bodies that are kept, so that they can be sent again.", "gate"},

	{"weir_capacity_limit", "Requests that the upstream can work on at once, as configured or learnt.", "gate"},
	{"weir_capacity_here", "How many of them are this node's, in a farm.", "gate"},
	{"weir_capacity_in_use", "Requests that the upstream works on now.", "gate"},
	{"weir_capacity_load_ratio", "Demand on the upstream, in proportion to what it can do.", "gate"},
	{"weir_capacity_delay_seconds", "How long requests with a stamp wait.", "gate"},
	{"weir_capacity_waiting", "Requests that wait, by lane; line counts tickets of the waiting room.", "gate lane"},
	{"weir_capacity_admitted_total", "Requests that were given a place at the upstream, by lane.", "gate lane"},
	{"weir_capacity_refused_total", "Requests that a lane did not take, by reason.", "gate reason"},
	{"weir_capacity_turned_away_total", "Requests that were challenged or refused before they reached the lanes.",
		"gate"},

	{"weir_xdp_packets_total", "Packets in the kernel, by result.", "interface result"},
	{"weir_xdp_attached", "1 while the packets of an interface are limited.", "interface"},
	{"weir_xdp_bans", "Networks that an interface bans.", "interface"},
	{"weir_xdp_bans_omitted", "Networks on the block list that an interface has no space to ban.",
		"interface"},

	{"weir_bans_listed", "Entries of the block list now.", "kind"},
	{"weir_bans_limit", "How many entries the block list can hold.", ""},
	{"weir_bans_added_total", "Bans added to the block list, including those loaded at the start.", ""},
	{"weir_bans_removed_total",
		"Bans that left the block list, by reason: removed by an operator, expired, or evicted " +
			"to make room.", "reason"},
	{"weir_bans_refused_total", "Bans that were not added because the block list is full of operators' bans.", ""},
	{"weir_bans_offences_total", "Offences that throttles reported.", ""},
	{"weir_bans_addresses_total", "Addresses banned because many of their clients are.", ""},
	{"weir_bans_auto_total", "Networks that stayed over a limit: banned for it (enforce), or only counted (shadow).", "mode"},

	{"weir_farm_nodes", "Nodes of the farm as this one sees them, by state: here, up, lost, left, refused, unheard.", "state"},
	{"weir_farm_node_up", "1 while another node of the farm is heard, 0 while it is lost.", "node"},
	{"weir_farm_node_offset_seconds", "How far the clock of another node is ahead of this machine's.", "node"},
	{"weir_farm_node_lag_seconds", "How long the last heartbeat of another node was under way.", "node"},
	{"weir_farm_node_config_differs", "1 while another node has another configuration in effect.", "node"},
	{"weir_farm_offset_seconds", "How far the farm's time is ahead of this machine's clock.", ""},
	{"weir_farm_messages_total", "Messages between nodes, by direction: sent or received.", "direction"},
	{"weir_farm_dropped_total", "Messages that could not be sent, or came too fast.", ""},
	{"weir_farm_missed_total", "Messages of other nodes that never came; snapshots made up for them.", ""},
	{"weir_farm_snapshots_total", "Snapshots that this node has asked others for.", ""},
	{"weir_farm_strangers_total", "Messages under another secret, or of an incompatible version.", ""},
	{"weir_farm_counters_up", "0 while the engine of exact limits is taken for lost, otherwise 1.", ""},
	{"weir_farm_counters_calls_total", "Calls of the engine of exact limits.", ""},
	{"weir_farm_counters_failures_total", "Calls that the engine of exact limits did not answer in time, or with an " +
		"error.", ""},
	{"weir_farm_counters_refused_total", "Calls that were not made while the engine of exact limits was lost.", ""},
	{"weir_farm_counters_seconds", "Histogram of how long calls of the engine of exact limits took.", ""},

	{"weir_store_writes_total", "Writes to the data folder that are on the disk.", ""},
	{"weir_store_failures_total", "Writes to the data folder that failed.", "part"},
	{"weir_store_failing", "1 while writes to the data folder fail; a restart would lose the latest changes.", "part"},
	{"weir_store_unsaved", "Changes that are only in memory so far.", "part"},

	{"weir_mail_messages", "Messages in the queue.", ""},
	{"weir_mail_queue_recipients", "Recipients of queued messages that are not delivered yet, by state.", "state"},
	{"weir_mail_stopped_users", "Users who may not send mail now.", ""},
	{"weir_reach_flagged_users", "Users who are flagged now because they write to too many new recipients.", ""},
	{"weir_mail_oldest_message_timestamp_seconds", "When the oldest queued message was accepted, as a Unix time; " +
		"absent while the queue is empty.", ""},
}

// A collector reads the metrics of a backend.
type collector struct {
	backend Backend
	descs   map[string]*prometheus.Desc
}

func newCollector(b Backend) collector {
	c := collector{b, map[string]*prometheus.Desc{}}
	for _, o := range observed {
		c.descs[o.name] = prometheus.NewDesc(o.name, o.help, strings.Fields(o.labels), nil)
	}
	return c
}

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// A scrape takes the values of one scrape.
type scrape struct {
	descs map[string]*prometheus.Desc
	out   chan<- prometheus.Metric
}

// put adds the value of one series.
func put[N int | int64 | uint64 | float64](s scrape, name string, n N, labels ...string) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	s.out <- prometheus.MustNewConstMetric(s.descs[name], kind, float64(n), labels...)
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := scrape{c.descs, ch}
	for _, t := range c.backend.Throttles() {
		t.collect(s)
	}
	status := c.backend.Status()
	put(s, "weir_shadow_all", oneIf(status.ShadowAll != nil))
	for _, g := range WithRoutes(status.Gates) {
		if g.Capacity != nil {
			g.Capacity.collect(s, cmp.Or(g.Label, g.Gate))
		}
	}
	for _, g := range status.Gates {
		g.collectServers(s)
		if g.Kind == "http" {
			put(s, "weir_http_upstream_kept_bytes", g.KeptBytes, cmp.Or(g.Label, g.Gate))
		}
		for _, r := range g.Routes {
			for verdict, n := range r.Verdicts {
				put(s, "weir_http_route_requests_total", n, cmp.Or(g.Label, g.Gate), r.Route, verdict)
			}
			put(s, "weir_http_route_failed_total", r.Failed, cmp.Or(g.Label, g.Gate), r.Route)
		}
	}
	for _, x := range c.backend.XDP() {
		for result, n := range x.Packets {
			put(s, "weir_xdp_packets_total", n, x.Interface, result)
		}
		put(s, "weir_xdp_attached", oneIf(x.Attach != ""), x.Interface)
		put(s, "weir_xdp_bans", x.Bans, x.Interface)
		put(s, "weir_xdp_bans_omitted", x.LeftOut, x.Interface)
	}
	collectNotices(s, c.backend.NotifyTargets())
	c.backend.BanStatus().collect(s)
	c.backend.StoreStatus().collect(s)
	if status.Mail != nil {
		status.Mail.collect(s)
	}
	if status.Farm != nil {
		status.Farm.collect(s)
	}
}

// collectServers reports which servers of a gate have failed. A server in several pools has failed if it has in one.
func (g *GateStatus) collectServers(s scrape) {
	healthy := map[string]bool{}
	for _, server := range g.Servers {
		before, known := healthy[server.Server]
		healthy[server.Server] = server.Healthy && (before || !known)
	}
	for server, well := range healthy {
		put(s, "weir_http_upstream_healthy", oneIf(well), cmp.Or(g.Label, g.Gate), server)
	}
}

func (t Throttle) collect(s scrape) {
	name, counts := t.Link.Name, t.Link.Counts
	for v, verdict := range weir.Verdicts {
		put(s, "weir_throttle_verdicts_total", counts.Verdicts[v].Load(), name, "", verdict.String(), "enforce")
		put(s, "weir_throttle_verdicts_total", counts.Shadowed[v].Load(), name, "", verdict.String(), "shadow")
	}
	for rule, tally := range counts.ByRule() {
		for _, v := range weir.Verdicts[weir.Wait:] {
			put(s, "weir_throttle_verdicts_total", tally.Verdicts[v].Load(), name, rule, v.String(), "enforce")
			put(s, "weir_throttle_verdicts_total", tally.Shadowed[v].Load(), name, rule, v.String(), "shadow")
		}
	}
	put(s, "weir_throttle_errors_total", counts.Errors.Load(), name)
	put(s, "weir_throttle_expired_waits_total", counts.Expired.Load(), name)
	put(s, "weir_throttle_shadow", oneIf(t.Link.Shadow.Load()), name)
	if q := t.Table; q != nil {
		put(s, "weir_quota_accounts", q.Accounts, name)
		put(s, "weir_quota_waiting", q.Waiting, name)
		put(s, "weir_quota_overflow_total", q.Strangers, name)
		put(s, "weir_quota_accepted_accounts", q.Accounts-q.Probation, name)
		put(s, "weir_quota_probation_accounts", q.Probation, name)
		put(s, "weir_quota_pushed_out_total", q.PushedOut, name)
		put(s, "weir_quota_capped_costs_total", q.Capped, name)
		if f := q.Farm; f != nil {
			put(s, "weir_quota_farm_told_total", f.Told, name)
			put(s, "weir_quota_farm_heard_total", f.Heard, name)
			put(s, "weir_quota_farm_ignored_total", f.Ignored, name)
		}
		if l := q.Lent; l != nil {
			put(s, "weir_quota_lent_calls_total", l.Calls, name)
			put(s, "weir_quota_lent_failed_total", l.Failed, name)
			put(s, "weir_quota_lent_denied_total", l.Denied, name)
			put(s, "weir_quota_lent_waited_total", l.Waited, name)
			put(s, "weir_quota_lent_crowded_total", l.Crowded, name)
			put(s, "weir_quota_lent_kept_total", l.Kept, name)
			put(s, "weir_quota_lent_accounts", l.Held, name)
		}
	}
	if b := t.Bloom; b != nil {
		put(s, "weir_bloom_collateral_ratio", b.Collateral, name)
		put(s, "weir_bloom_drained_ratio", b.Drained, name)
		put(s, "weir_bloom_attackers", b.Attackers, name)
		put(s, "weir_bloom_bytes", b.Bytes, name)
		put(s, "weir_bloom_rotations_total", b.Rotations, name)
	}
	if t.Stamp != nil {
		t.Stamp.collect(s, name)
	}
}

func (p *Stamp) collect(s scrape, throttle string) {
	for gate, work := range p.Work {
		put(s, "weir_stamp_work", work, throttle, gate)
	}
	put(s, "weir_stamp_spent", p.Spent, throttle)
	put(s, "weir_stamp_challenges_total", p.Issued, throttle)
	put(s, "weir_stamp_accepted_total", p.Accepted, throttle)
	for result, n := range map[string]uint64{"paid": p.Paid, "free": p.Free, "called": p.Called, "held": p.Held,
		"challenged": p.Challenged, "forged": p.Forged,
		"replayed": p.Replayed, "not-paying": p.NotPaying, "full": p.Full, "busy": p.Busy, "gone": p.Gone} {
		put(s, "weir_stamp_requests_total", n, throttle, result)
	}
}

func (c *Capacity) collect(s scrape, gate string) {
	put(s, "weir_capacity_limit", c.Concurrent, gate)
	put(s, "weir_capacity_here", c.Places(), gate)
	put(s, "weir_capacity_in_use", c.InUse, gate)
	put(s, "weir_capacity_load_ratio", c.Load, gate)
	put(s, "weir_capacity_delay_seconds", c.Delay/1000, gate)
	put(s, "weir_capacity_waiting", c.Stamped, gate, "stamped")
	put(s, "weir_capacity_waiting", c.Pool, gate, "pool")
	put(s, "weir_capacity_waiting", c.InLine, gate, "line")
	for lane, n := range c.LetIn {
		put(s, "weir_capacity_admitted_total", n, gate, lane)
	}
	for reason, n := range c.Refused {
		put(s, "weir_capacity_refused_total", n, gate, reason)
	}
	put(s, "weir_capacity_turned_away_total", c.TurnedAway, gate)
}

func (b BanStatus) collect(s scrape) {
	put(s, "weir_bans_listed", b.Clients, "client")
	put(s, "weir_bans_listed", b.Networks, "network")
	put(s, "weir_bans_limit", b.Max)
	put(s, "weir_bans_added_total", b.Added)
	put(s, "weir_bans_removed_total", b.Removed, "removed")
	put(s, "weir_bans_removed_total", b.Expired, "expired")
	put(s, "weir_bans_removed_total", b.Evicted, "evicted")
	put(s, "weir_bans_refused_total", b.Refused)
	put(s, "weir_bans_offences_total", b.Offences)
	put(s, "weir_bans_addresses_total", b.Addresses)
	put(s, "weir_bans_auto_total", b.AutoBanned, "enforce")
	put(s, "weir_bans_auto_total", b.AutoWould, "shadow")
}

func (w StoreStatus) collect(s scrape) {
	put(s, "weir_store_writes_total", w.Writes)
	for _, p := range w.Parts {
		put(s, "weir_store_failures_total", p.Failures, p.Part)
		put(s, "weir_store_failing", oneIf(p.Error != ""), p.Part)
		put(s, "weir_store_unsaved", p.Unsaved, p.Part)
	}
}

func (m *MailStatus) collect(s scrape) {
	put(s, "weir_mail_messages", m.Messages)
	for _, state := range store.States {
		put(s, "weir_mail_queue_recipients", m.Recipients[state], state.String())
	}
	put(s, "weir_mail_stopped_users", m.Stopped)
	put(s, "weir_reach_flagged_users", m.Flagged)
	if !m.Oldest.IsZero() {
		put(s, "weir_mail_oldest_message_timestamp_seconds", float64(m.Oldest.UnixMilli())/1000)
	}
}
