package console

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir"
	"weir/store"
)

// Metrics that are read at each scrape are fields of Status with tags:
//
//   - metric is the name, and help its text. Names that end in _total are counters, all others gauges. metric:"-" is
//     collected in another way.
//   - label tells the series of one metric apart: label:"result" for a map by results, label:"result=paid" for a field
//     that counts one of them. A text with a label, but no metric, is the label of its whole struct.
//   - per divides a value: per:"1000" for milliseconds that are shown as seconds.
//
// A text or a pointer counts as 1 unless it is empty. derived are metrics that do not stand in one field.
var derived = []struct{ name, help, labels string }{
	{"weir_throttle_verdicts_total", "Verdicts by throttle and by the rule that decided; policy is empty for " +
		"admissions and where no rule is named. Mode shadow counts what was not acted upon.",
		"throttle policy verdict mode"},
	{"weir_notices_total", "Notices to people, by target and by result: sent, or dropped because too many waited or " +
		"they could not be delivered for a day.", "target result"},
	{"weir_notices_failed_total", "Attempts to deliver notices that failed.", "target"},
	{"weir_notices_waiting", "Notices that wait to be delivered.", "target"},
	{"weir_quota_accepted_accounts", "Accounts in a quota's table that the upstream has accepted, or that the " +
		"configuration names.", "throttle"},
	{"weir_http_upstream_healthy", "1 while a server is healthy, 0 after it has failed and until it is back.",
		"gate server"},
	{"weir_http_upstream_kept_bytes", "Memory of requests' bodies that are kept, so that they can be sent again.", "gate"},
	{"weir_capacity_here", "How many of them are this node's, in a farm.", "gate"},
	{"weir_farm_nodes", "Nodes of the farm as this one sees them, by state: here, up, lost, left, refused, unheard.", "state"},
	{"weir_farm_node_up", "1 while another node of the farm is heard, 0 while it is lost.", "node"},
	{"weir_farm_counters_up", "0 while the engine of exact limits is taken for lost, otherwise 1.", ""},
	{"weir_farm_counters_seconds", "Histogram of how long calls of the engine of exact limits took.", ""},
	{"weir_mail_oldest_message_timestamp_seconds", "When the oldest queued message was accepted, as a Unix time; " +
		"absent while the queue is empty.", ""},
	{"weir_mail_queue_recipients", "Recipients of queued messages that are not delivered yet, by state.", "state"},
}

// An observedMetric is one that is read at each scrape.
type observedMetric struct {
	desc   *prometheus.Desc
	labels []string
}

// observed returns the metrics that are read at each scrape, by their names.
func observed() map[string]observedMetric {
	all := map[string]observedMetric{}
	add := func(name, help string, labels []string) {
		if help != "" { // one field says it for all of a metric
			all[name] = observedMetric{prometheus.NewDesc(name, help, labels, nil), labels}
		}
	}
	for _, d := range derived {
		add(d.name, d.help, strings.Fields(d.labels))
	}
	w := walk{all: true, give: func(tag reflect.StructTag, _ float64, labels, _ []string) {
		add(tag.Get("metric"), tag.Get("help"), labels)
	}}
	w.into(reflect.ValueOf(Status{}), nil, nil)
	w.into(reflect.ValueOf(Capacity{}), []string{"gate"}, []string{""})
	w.into(reflect.ValueOf(NodeStatus{}), nil, nil)
	return all
}

// A walk goes through a status and gives the fields that are metrics, with the names and values of their labels.
type walk struct {
	all  bool // goes also where nothing is
	give func(tag reflect.StructTag, value float64, names, values []string)
}

func (w walk) into(v reflect.Value, names, values []string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() && w.all {
			v = reflect.New(v.Type().Elem())
		}
		w.into(v.Elem(), names, values)
	case reflect.Slice:
		if w.all {
			w.into(reflect.Zero(v.Type().Elem()), names, values)
		}
		for i := range v.Len() {
			w.into(v.Index(i), names, values)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			metric, label := f.Tag.Get("metric"), f.Tag.Get("label")
			switch {
			case !f.IsExported() || metric == "-":
			case metric != "":
				w.metric(f.Tag, v.Field(i), names, values)
			case label != "":
				names, values = append(slices.Clip(names), label), append(slices.Clip(values), v.Field(i).String())
			default:
				w.into(v.Field(i), names, values)
			}
		}
	}
}

// metric gives one field.
func (w walk) metric(tag reflect.StructTag, v reflect.Value, names, values []string) {
	if label, value, _ := strings.Cut(tag.Get("label"), "="); label != "" {
		names, values = append(slices.Clip(names), label), append(slices.Clip(values), value)
	}
	switch {
	case w.all:
		w.give(tag, 0, names, values)
	case v.Kind() == reflect.Map:
		for key, one := range v.Seq2() {
			values[len(values)-1] = key.String()
			w.give(tag, valueOf(one), names, slices.Clone(values))
		}
	default:
		value := valueOf(v)
		if per, err := strconv.ParseFloat(tag.Get("per"), 64); err == nil {
			value /= per
		}
		w.give(tag, value, names, values)
	}
}

// valueOf is the value of a field as metrics have it.
func valueOf(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	}
	return oneIf(!v.IsZero())
}

// A collector reads the metrics of a backend.
type collector struct {
	backend Backend
	metrics map[string]observedMetric
}

func newCollector(b Backend) collector { return collector{b, observed()} }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		ch <- m.desc
	}
}

// A scrape takes the values of one scrape.
type scrape struct {
	metrics map[string]observedMetric
	out     chan<- prometheus.Metric
}

// put adds the value of one series.
func put[N int | int64 | uint64 | float64](s scrape, name string, n N, labels ...string) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	s.out <- prometheus.MustNewConstMetric(s.metrics[name].desc, kind, float64(n), labels...)
}

func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := scrape{c.metrics, ch}
	fields := walk{give: func(tag reflect.StructTag, value float64, _, values []string) {
		put(s, tag.Get("metric"), value, values...)
	}}
	status := c.backend.Status()
	for i := range status.Gates {
		g := &status.Gates[i]
		g.Label = cmp.Or(g.Label, g.Gate)
		g.collectServers(s)
		if g.Kind == "http" {
			put(s, "weir_http_upstream_kept_bytes", g.KeptBytes, g.Label)
		}
	}
	fields.into(reflect.ValueOf(status), nil, nil)
	for _, g := range WithRoutes(status.Gates) {
		if g.Capacity != nil {
			fields.into(reflect.ValueOf(*g.Capacity), []string{"gate"}, []string{g.Label})
			put(s, "weir_capacity_here", g.Capacity.Places(), g.Label)
		}
	}
	for _, t := range c.backend.Throttles() {
		t.collect(s)
	}
	collectNotices(s, c.backend.NotifyTargets())
	if m := status.Mail; m != nil {
		for _, state := range store.States {
			put(s, "weir_mail_queue_recipients", m.Recipients[state], state.String())
		}
		if !m.Oldest.IsZero() {
			put(s, "weir_mail_oldest_message_timestamp_seconds", float64(m.Oldest.UnixMilli())/1000)
		}
	}
	if status.Farm != nil {
		status.Farm.collect(s, fields)
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
		put(s, "weir_http_upstream_healthy", oneIf(well), g.Label, server)
	}
}

// collect counts verdicts.
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
	if q := t.Table; q != nil {
		put(s, "weir_quota_accepted_accounts", q.Accounts-q.Probation, name)
	}
}
