package stamp

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir"
	"weir/throttle/stamp/classic"
)

const (
	// MailGrace is how long after a rise the price before it is still good: time to make a stamp and to send it.
	MailGrace = 10 * time.Minute
	// MaxMailTime is how long a phone may have to work on one mail stamp under load. Mail can wait longer than a page.
	MaxMailTime = time.Minute
)

// MailOptions say what a mail stamp costs. Work alone is a fixed price. A schedule, or doubling, raises it with the
// load, as for stamps of requests; it never falls below Work, as a stamp is good without load too.
type MailOptions struct {
	Algorithm Algorithm // default sha256-k
	Work      Work      // asked without load; needed
	Schedule  []Step    // work by load, in steps

	// double the work after every such interval at whose end the load is still there; 0: do not
	DoubleEvery weir.Duration
	FromLoad    weir.Share // … from this load on; default 90%
	First       Work       // … beginning with this; default Work
	Doubles     Doubles    // what is doubled; default bits
}

// WithDefaults returns the options with everything filled in that was left out.
func (o MailOptions) WithDefaults() MailOptions {
	o.Algorithm = cmp.Or(o.Algorithm, SHA256K)
	if o.DoubleEvery != 0 {
		o.FromLoad = cmp.Or(o.FromLoad, 0.9)
		o.First = cmp.Or(o.First, o.Work)
		o.Doubles = cmp.Or(o.Doubles, DoubleBits)
	}
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o MailOptions) Validate() error {
	var v weir.Mistakes
	full := o.WithDefaults()
	if o.Work < 1 || o.Work > MaxWork {
		v.Add("work", fmt.Sprintf("cannot ask for %d operations", o.Work),
			`write "20 bits", about a second for a phone`)
		return v.Err()
	}
	if err := mailable(full.Algorithm, o.Work); err != nil {
		v.Add("algorithm", err.Error(), fmt.Sprintf("write sha256-k; dlog-classic goes up to %d bits", classic.MaxBits))
		return v.Err()
	}
	most := Bearable(full.Algorithm, MaxMailTime)
	dear := func(path string, w Work) {
		switch {
		case w > most:
			v.Add(path, fmt.Sprintf("a phone would work %s on %s",
				weir.Duration(w.Time(full.Algorithm).Round(time.Second)), w),
				fmt.Sprintf("at most %d, which is %s: load raises the price no further", most,
					weir.Duration(MaxMailTime)))
		case w < o.Work:
			v.Add(path, fmt.Sprintf("%s is less than work, which is asked without load", w),
				fmt.Sprintf("at least %s, or a lower work", o.Work))
		}
	}
	validateSteps(o.Schedule, dear, &v)
	switch {
	case o.DoubleEvery == 0:
		const hint = "write double_every: 10s, too, or leave it out"
		if o.First != 0 {
			v.Add("first", "there is nothing to double", hint)
		}
		if o.Doubles != "" {
			v.Add("doubles", "there is nothing to double", hint)
		}
	case len(o.Schedule) > 0:
		v.Add("double_every", "there is a schedule already", "either schedule or double_every")
	default:
		validateDoubling(o.DoubleEvery, o.Doubles, &v)
		path := "first"
		if o.First == 0 {
			path = "work"
		}
		dear(path, full.First)
		if !(full.FromLoad > 0) {
			v.Add("from_load", fmt.Sprintf("%s is always reached", o.FromLoad), "above 0%")
		}
	}
	return v.Err()
}

// difficulty is what raises the price; nil for a fixed one.
func (o MailOptions) difficulty() *Difficulty {
	if len(o.Schedule) == 0 && o.DoubleEvery == 0 {
		return nil
	}
	return Options{Algorithm: o.Algorithm, FromLoad: &o.FromLoad, First: o.First, Schedule: slices.Clone(o.Schedule),
		DoubleEvery: &o.DoubleEvery, Doubles: o.Doubles, MaxTime: weir.Duration(MaxMailTime)}.Difficulty()
}

// A mailPrice is the work asked for a mail stamp, and what was asked in the last minutes. It is for one goroutine.
type mailPrice struct {
	algorithm  Algorithm
	least      Work
	difficulty *Difficulty // nil: the price is fixed
	state      State
	// The prices that are still good, in rising order, and at the end the one that is asked: at most one per step.
	asked []askedOnce
}

// maxAsked is how many prices are known: reloads may bring other schedules. Beyond it the lowest is no longer good.
const maxAsked = 2 * MaxSteps

// askedOnce is a price, and when it was no longer asked.
type askedOnce struct {
	work Work
	end  time.Time
}

// set changes the options. What was asked before stays good for its time, unless it was another puzzle.
func (p *mailPrice) set(o MailOptions, now time.Time) {
	if p.algorithm != o.Algorithm {
		*p = mailPrice{algorithm: o.Algorithm}
	}
	p.least, p.difficulty = o.Work, o.difficulty()
	if p.difficulty == nil {
		p.state = State{}
	}
	p.ask(now)
}

func (p *mailPrice) step(now time.Time, load weir.Share) {
	if p.difficulty != nil {
		p.state = p.difficulty.Next(p.state, now, load, 0)
	}
	p.ask(now)
}

// ask notes what is asked from now on, and forgets what is no longer good.
func (p *mailPrice) ask(now time.Time) {
	_, work := puzzles[p.algorithm].fit(max(p.least, p.state.Work))
	if n := len(p.asked); n == 0 || p.asked[n-1].work != work {
		if n > 0 {
			p.asked[n-1].end = now
		}
		for len(p.asked) > 0 && p.asked[len(p.asked)-1].work >= work {
			p.asked = p.asked[:len(p.asked)-1]
		}
		p.asked = append(p.asked, askedOnce{work: work})
	}
	p.asked = slices.DeleteFunc(p.asked,
		func(a askedOnce) bool { return a.work != work && now.Sub(a.end) >= MailGrace })
	p.asked = slices.Delete(p.asked, 0, max(len(p.asked)-maxAsked, 0))
	for i := range p.asked {
		if p.asked[i].end.After(now) { // the clock was set back
			p.asked[i].end = now
		}
	}
}

func (p *mailPrice) work() Work { return p.asked[len(p.asked)-1].work }
func (p *mailPrice) good() Work { return p.asked[0].work }
