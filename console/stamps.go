package console

import "github.com/prometheus/client_golang/prometheus"

// A Stamp is what a throttle asks for and takes.
type Stamp struct {
	Algorithm  string            `json:"algorithm"`
	Work       map[string]uint64 `json:"work"` // asked for now, in operations, by gate; 0 while nothing is asked
	Issued     uint64            `json:"issued"`
	Accepted   uint64            `json:"accepted"`
	Paid       uint64            `json:"paid"`       // requests that went first
	Free       uint64            `json:"free"`       // requests of which nothing is asked
	Called     uint64            `json:"called"`     // requests of people who were called from the waiting room
	Held       uint64            `json:"held"`       // unpaid requests that the general pool took without a ticket
	Challenged uint64            `json:"challenged"` // requests that were asked to pay
	Forged     uint64            `json:"forged"`
	Replayed   uint64            `json:"replayed"`
	NotPaying  uint64            `json:"not_paying"`
	Spent      int               `json:"spent"` // stamps that are remembered
	Full       uint64            `json:"full"`  // stamps not taken, as no more can be remembered (max_spent)
	Busy       uint64            `json:"busy"`  // stamps not looked at, as too many costly ones are (verify_queue)
}

// Most is the work asked for at the gate where most is asked.
func (s *Stamp) Most() (most uint64) {
	for _, w := range s.Work {
		most = max(most, w)
	}
	return most
}

// A Capacity is the state of the lanes in front of an upstream.
type Capacity struct {
	Concurrent int               `json:"concurrent"` // how much the upstream does at once, as configured or learnt
	InUse      int               `json:"in_use"`
	Load       float64           `json:"load"`        // what is asked of it, in proportion
	Delay      float64           `json:"delay_ms"`    // of those who paid
	Stamped    int               `json:"stamped"`     // waiting, paid
	Pool       int               `json:"pool"`        // waiting in the general pool, as held requests
	InLine     int               `json:"in_line"`     // waiting in the general pool, with tickets
	LetIn      map[string]uint64 `json:"let_in"`      // by lane
	Refused    map[string]uint64 `json:"refused"`     // by reason
	TurnedAway uint64            `json:"turned_away"` // asked to pay, or refused, for the load
	Shadow     bool              `json:"shadow"`
}

var (
	descWork = prometheus.NewDesc("weir_stamp_work",
		"Work asked for now, in operations; 0 while nothing is asked.", []string{"throttle", "gate"}, nil)
	descStamps = prometheus.NewDesc("weir_stamp_requests_total",
		"Requests while stamps were asked for, by what became of them.", []string{"throttle", "result"}, nil)
	descIssued   = prometheus.NewDesc("weir_stamp_challenges_total", "Challenges issued.", []string{"throttle"}, nil)
	descAccepted = prometheus.NewDesc("weir_stamp_accepted_total",
		"Uses of stamps that were accepted.", []string{"throttle"}, nil)
	descSpent = prometheus.NewDesc("weir_stamp_spent", "Stamps that are remembered as used.", []string{"throttle"},
		nil)
	descCapacity = prometheus.NewDesc("weir_capacity",
		"How much the upstream does at once, as configured or learnt.", []string{"gate"}, nil)
	descInUse = prometheus.NewDesc("weir_capacity_in_use",
		"Requests that the upstream works on now.", []string{"gate"}, nil)
	descLoad = prometheus.NewDesc("weir_capacity_load_ratio",
		"What is asked of the upstream, in proportion to what it can do.", []string{"gate"}, nil)
	descDelay = prometheus.NewDesc("weir_capacity_delay_seconds",
		"How long requests with a stamp wait.", []string{"gate"}, nil)
	descLane = prometheus.NewDesc("weir_capacity_waiting",
		"Requests that wait, by lane; line counts tickets of the waiting room.", []string{"gate", "lane"}, nil)
	descLetIn = prometheus.NewDesc("weir_capacity_let_in_total",
		"Requests let in, by lane.", []string{"gate", "lane"}, nil)
	descLaneRefused = prometheus.NewDesc("weir_capacity_refused_total",
		"Requests that a lane did not take, by reason.", []string{"gate", "reason"}, nil)
	descTurnedAway = prometheus.NewDesc("weir_capacity_turned_away_total",
		"Requests that were asked to pay, or refused, for the load.", []string{"gate"}, nil)
)

// stampDescs are the series of stamps and capacities.
var stampDescs = []*prometheus.Desc{descWork, descStamps, descIssued, descAccepted, descSpent, descCapacity, descInUse,
	descLoad, descDelay, descLane, descLetIn, descLaneRefused, descTurnedAway}

func (s *Stamp) collect(name string, ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n),
			append([]string{name}, labels...)...)
	}
	for gate, work := range s.Work {
		ch <- prometheus.MustNewConstMetric(descWork, prometheus.GaugeValue, float64(work), name, gate)
	}
	ch <- prometheus.MustNewConstMetric(descSpent, prometheus.GaugeValue, float64(s.Spent), name)
	counter(descIssued, s.Issued)
	counter(descAccepted, s.Accepted)
	for result, n := range map[string]uint64{"paid": s.Paid, "free": s.Free, "called": s.Called, "held": s.Held,
		"challenged": s.Challenged, "forged": s.Forged,
		"replayed": s.Replayed, "not-paying": s.NotPaying, "full": s.Full, "busy": s.Busy} {
		counter(descStamps, n, result)
	}
}

func (c *Capacity) collect(gate string, ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, append([]string{gate}, labels...)...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n),
			append([]string{gate}, labels...)...)
	}
	gauge(descCapacity, float64(c.Concurrent))
	gauge(descInUse, float64(c.InUse))
	gauge(descLoad, c.Load)
	gauge(descDelay, c.Delay/1000)
	gauge(descLane, float64(c.Stamped), "stamped")
	gauge(descLane, float64(c.Pool), "pool")
	gauge(descLane, float64(c.InLine), "line")
	for lane, n := range c.LetIn {
		counter(descLetIn, n, lane)
	}
	for reason, n := range c.Refused {
		counter(descLaneRefused, n, reason)
	}
	counter(descTurnedAway, c.TurnedAway)
}
