package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"weir"
	"weir/config"
	"weir/gate/httpgate"
	"weir/lab/simulate"
	"weir/throttle/stamp"
)

type simulateFloodCommand struct {
	rule        // of stamps
	Gate string `placeholder:"LISTEN" help:"The HTTP gate whose capacity and stamps are used, by its listen address. Default: the only gate with a capacity, if any."`

	Capacity   *weir.Rate     `group:"The service" placeholder:"RATE" help:"How many requests the service can do, such as 50/s."`
	Concurrent int            `group:"The service" placeholder:"N" help:"How many requests it works on at once. Default: as configured, or calculated from the others."`
	Service    *weir.Duration `group:"The service" placeholder:"TIME" help:"How long it works on a request, on average. Default: 100ms, or calculated from the others."`

	People          weir.Rate     `group:"People" default:"20/s" placeholder:"RATE" help:"How many people come, each for one page. Default: ${default}."`
	Phones          weir.Share    `group:"People" default:"50%" placeholder:"SHARE" help:"The share of people on a phone. Default: ${default}."`
	Without         weir.Share    `group:"People" default:"5%" placeholder:"SHARE" help:"The share of people whose browser runs no scripts, so that they cannot pay. Default: ${default}."`
	Phone           hashes        `group:"People" placeholder:"N" help:"Hashes per second of a phone. Default: 1M with sha256-k."`
	Desktop         hashes        `group:"People" placeholder:"N" help:"Hashes per second of any other computer, in its browser. Default: three times a phone."`
	Patience        weir.Duration `group:"People" default:"10s" placeholder:"TIME" help:"How long people wait. Default: ${default}."`
	PatienceWithout weir.Duration `group:"People" default:"1m" placeholder:"TIME" help:"How long people without scripts wait; they see that there is a line. Default: ${default}."`

	Flood   weir.Rate     `group:"The flood" default:"0/s" placeholder:"RATE" help:"How many attacking requests come that pay nothing. Default: none."`
	Paying  weir.Rate     `group:"The flood" default:"0/s" placeholder:"RATE" help:"How many attacking requests come that pay as much as they can. Default, with --hashes: as many as --flood, or ten times the capacity."`
	Hashes  hashes        `group:"The flood" placeholder:"N" help:"Hashes per second of all attackers that pay: 8M is one core, 15.6G a large graphics card."`
	Sources int           `group:"The flood" default:"10000" placeholder:"N" help:"How many addresses the attackers have. Default: ${default}."`
	From    weir.Duration `group:"The flood" placeholder:"TIME" help:"When the attack begins. Default: after 10s."`
	Until   weir.Duration `group:"The flood" placeholder:"TIME" help:"When the attack ends. Default: after half of the time that is left."`
	For     weir.Duration `default:"2m" placeholder:"TIME" help:"How long the simulation runs in all. Default: ${default}."`

	Covers int    `placeholder:"N" help:"Try this number of requests per stamp. Default: as configured."`
	Seed   uint64 `default:"1" placeholder:"N" help:"The seed of the random numbers. The same seed always gives the same figures. Default: ${default}."`
	reportFlag
	JSON bool `name:"json" help:"Print the figures as JSON, also second by second."`
}

// hashes are hashes per second, written as 8M, 15.6G, or any rate.
type hashes float64

func (h *hashes) UnmarshalText(text []byte) error {
	if strings.Contains(string(text), "/") {
		r, err := weir.ParseRate(string(text))
		*h = hashes(aSecond(r))
		return err
	}
	n, err := weir.ParseCount(string(text))
	*h = hashes(n)
	return err
}

func aSecond(r weir.Rate) float64 {
	if r.Per <= 0 {
		return 0
	}
	return float64(r.Count) / r.Per.Seconds()
}

func (c *simulateFloodCommand) Validate() error {
	if err := errors.Join(c.rule.validate(), c.reportFlag.validate(c.Config)); err != nil {
		return err
	}
	switch {
	case c.Gate != "" && c.Config == "":
		return errors.New("--gate: there is no configuration to find it in (write -c weir.yaml, too)")
	case c.Config != "":
		return nil // what is missing may be there
	}
	o, err := c.options(nil, nil)
	if err != nil {
		return err
	}
	return asFlags(o.Validate())
}

// options combines the flags with a gate of the configuration and its stamps. Both may be nil.
func (c *simulateFloodCommand) options(gate *httpgate.Options, stamps *stamp.Options) (simulate.FloodOptions, error) {
	o := simulate.FloodOptions{
		People: aSecond(c.People), Phones: c.Phones, Without: c.Without, Phone: float64(c.Phone),
		Desktop:  float64(c.Desktop),
		Patience: c.Patience.Std(), Patient: c.PatienceWithout.Std(),
		Flood: aSecond(c.Flood), Paying: aSecond(c.Paying), Hashes: float64(c.Hashes), Sources: c.Sources,
		For: c.For.Std(), From: c.From.Std(), Until: c.Until.Std(), Seed: c.Seed,
	}
	if gate != nil {
		o.Lanes = *gate.Capacity
	}
	if stamps != nil {
		o.Stamps = *stamps
	}
	if c.Covers != 0 {
		o.Stamps.Covers = c.Covers
	}
	o.Concurrent = c.Concurrent
	if c.Service != nil {
		if o.Service = c.Service.Std(); o.Service <= 0 {
			return o, errors.New("--service: a service that takes no time cannot be flooded (write 100ms)")
		}
	}
	if o.Concurrent < 0 {
		return o, fmt.Errorf("--concurrent: %d at once cannot be (write 8)", o.Concurrent)
	}
	configured := 0
	if gate != nil && !gate.Capacity.Learn {
		configured = gate.Capacity.Concurrent
	}
	if c.Capacity == nil {
		if o.Concurrent = cmp.Or(o.Concurrent, configured); o.Concurrent == 0 {
			return o, errors.New("--capacity: what can the service do? (write 50/s, or --concurrent 8 --service 100ms)")
		}
		return o, nil
	}
	rate := aSecond(*c.Capacity)
	switch {
	case !(rate > 0):
		return o, fmt.Errorf("--capacity: a service that can do %s serves nobody (write 50/s)", c.Capacity)
	case o.Concurrent > 0 && o.Service > 0:
		return o, errors.New("--capacity: it follows from --concurrent and --service (leave out one of the three)")
	case o.Concurrent == 0 && o.Service == 0:
		o.Concurrent = configured
	}
	if o.Concurrent == 0 {
		o.Concurrent = int(min(max(1, math.Round(rate*cmp.Or(o.Service, 100*time.Millisecond).Seconds())),
			math.MaxInt32))
	}
	o.Service = time.Duration(float64(o.Concurrent) / rate * float64(time.Second))
	return o, nil
}

// gate finds the HTTP gate that the flags mean, and its stamps. If no gate has a capacity, the flags describe the
// service.
func (c *simulateFloodCommand) gate(cfg *config.Config) (*httpgate.Options, *stamp.Options, error) {
	var gates []*httpgate.Options
	var names []string
	for i := range cfg.HTTP {
		if g := &cfg.HTTP[i]; g.Capacity != nil && (c.Gate == "" || c.Gate == g.Listen) {
			gates, names = append(gates, g), append(names, g.Listen)
		}
	}
	switch {
	case len(gates) == 0 && c.Gate != "":
		return nil, nil, fmt.Errorf("--gate: %s has no HTTP gate %s with a capacity", c.Config, c.Gate)
	case len(gates) > 1:
		return nil, nil, fmt.Errorf("%s has %d HTTP gates with a capacity: say which with --gate (%s)", c.Config,
			len(gates), strings.Join(names, ", "))
	}
	if c.Throttle != "" || len(gates) == 0 {
		stamps, err := pick(c.rule, cfg, "stamp", func(t config.Throttle) *stamp.Options { return t.Stamp })
		return append(gates, nil)[0], stamps, err
	}
	for _, name := range gates[0].Throttles {
		if s := cfg.Throttles[name].Stamp; s != nil {
			return gates[0], s, nil
		}
	}
	return nil, nil, fmt.Errorf("the gate %s of %s asks for no stamps: there is nothing to see", gates[0].Listen,
		c.Config)
}

func (c *simulateFloodCommand) Run(t *terminal) error {
	var gate *httpgate.Options
	var stamps *stamp.Options
	if c.Config != "" {
		cfg, err := c.rule.load()
		if err != nil {
			return err
		}
		if gate, stamps, err = c.gate(cfg); err != nil {
			return err
		}
	}
	o, err := c.options(gate, stamps)
	if err != nil {
		return err
	}
	b := t.bar("flood")
	o.Watch = func(share float64) { b.show(stamp.Work(1000*share), 1000) }
	study, err := simulate.Flood(o)
	b.clear()
	if err != nil {
		return asFlags(err)
	}
	return c.finish(t, study.Sheet(o), c.JSON, study)
}
