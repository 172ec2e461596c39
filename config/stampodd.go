package config

import (
	"fmt"
	"maps"
	"slices"

	"weir"
	"weir/stamp"
)

// stampOddities returns what is allowed for stamps but hardly meant.
func (c *Config) stampOddities() []*weir.FieldError {
	var odd odds
	for i, g := range c.HTTP {
		for j, name := range g.Throttles {
			if o := c.Throttles[name].Stamp; o != nil && g.Capacity == nil && !o.AlwaysAsks() {
				odd.add(fmt.Sprintf("http[%d].throttles[%d]", i, j),
					fmt.Sprintf("%q never asks for a stamp here: without a capacity the gate knows no load", name), "add capacity: {concurrent: 64} to the gate")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		if o := c.Throttles[name].Stamp; o != nil {
			oddStamp(&odd, "throttles."+name+".stamp", *o)
		}
	}
	return odd
}

// oddStamp looks at the options of one throttle.
func oddStamp(odd *odds, at string, written stamp.Options) {
	o := written.WithDefaults()
	if o.Algorithm == stamp.DLogClassic {
		odd.add(at, "dlog-classic is weak: whoever wants to pays next to nothing", "use it to study the document; sha256-k, dlog and argon2id cost what they say")
	}
	least := o.Algorithm.Least()
	easy := func(at string, w stamp.Work) {
		if w > 0 && w < least {
			odd.add(at, fmt.Sprintf("%s asks for %d operations at least: with less, guessing would pay", o.Algorithm, least), fmt.Sprintf("write %d, or more", least))
		}
	}
	easy(at+".first", written.First)
	for i, s := range o.Schedule {
		easy(fmt.Sprintf("%s.schedule[%d].work", at, i), s.Work)
	}
	if o.AlwaysAsks() && o.DoubleEvery != nil && *o.DoubleEvery > 0 {
		odd.add(at+".from_load", fmt.Sprintf("the work doubles up to max_time, %s, as soon as anybody is there: with %s there is always load", o.MaxTime, *o.FromLoad),
			"write from_load: 90%, or leave double_every out: then the work follows the wait")
	}
}
