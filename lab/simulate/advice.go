package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/throttle/outbreak"
)

// DefaultShare is the share of mails that may be delayed by default.
const DefaultShare = 0.01

// mostStops is how often a user may be stopped by mistake, in 30 days: once in 6 months.
const mostStops = 1.0 / 6

// adviceViruses measure advice: a fast virus, a slow one, and one that writes to many at a time.
var adviceViruses = []VirusOptions{{Rate: 60}, {Rate: 10}, {Rate: 60, Recipients: 10}}

// adviceGrid is what the advice chooses from. A higher threshold changes delays little, so that fewer working sets are
// tried with it.
func adviceGrid(general outbreak.Params) (all []outbreak.Params) {
	for _, stop := range []int{20, 30} {
		sets := []int{4, 5, 8, 10}
		if stop != 20 {
			sets = []int{5, 10}
		}
		for _, rate := range []string{"1/m", "2/m"} {
			for _, set := range sets {
				for _, mSlack := range []int{15, 20, 30, 50} {
					r, _ := weir.ParseRate(rate)
					p := rateValue(r).with("rate", general)
					p.WorkingSet, p.MaxMSlack, p.Stop, p.Exempt = set, mSlack, stop, false
					all = append(all, p)
				}
			}
		}
	}
	return all
}

// A candidate is a set of parameters that was tried, and its result.
type candidate struct {
	params  outbreak.Params
	figures Figures
	passed  int // of the viruses
}

// advise chooses the strictest candidate that keeps the share and stops users rarely or, where none does, the one that
// comes closest.
func advise(share float64, tried []candidate) *Advice {
	kept := slices.DeleteFunc(slices.Clone(tried), func(c candidate) bool {
		return c.params.Exempt || c.figures.DelayedShare > share || c.figures.StopsMonthly > mostStops
	})
	a := &Advice{Share: share, Met: len(kept) > 0}
	best := tried[0]
	if a.Met {
		strict := map[outbreak.Params]int{}
		for i := range kept {
			kept[i].passed = passedOf(kept[i].params, strict)
		}
		best = slices.MinFunc(kept, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.passed, b.passed), cmp.Compare(a.params.WorkingSet, b.params.WorkingSet),
				cmp.Compare(a.params.Stop, b.params.Stop), cmp.Compare(a.figures.Delayed, b.figures.Delayed))
		})
	} else {
		// Many stops are worse than many delays.
		best = slices.MinFunc(tried, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(max(a.figures.StopsMonthly, mostStops), max(b.figures.StopsMonthly, mostStops)),
				cmp.Compare(a.figures.Delayed, b.figures.Delayed))
		})
	}
	a.Params, a.Figures = paramsInfo(best.params), best.figures
	for _, o := range adviceViruses {
		a.Virus = append(a.Virus, tryVirus(best.params, o, 240).Worst)
	}
	a.Text, a.Config = a.sentences(), configOf(best.params)
	return a
}

// passedOf is how many recipients the viruses reach. New recipients are in no working set, so that its size does not
// matter.
func passedOf(p outbreak.Params, known map[outbreak.Params]int) (passed int) {
	p.WorkingSet = 0
	if passed, found := known[p]; found {
		return passed
	}
	for _, o := range adviceViruses {
		passed += tryVirus(p, o, 60).Worst.Passed
	}
	known[p] = passed
	return passed
}

func (a *Advice) sentences() []string {
	p, f := a.Params.Mail, a.Figures
	with := fmt.Sprintf("rate %s, working_set %d, max_mslack %d and stop %d", RateText(p.Every), p.WorkingSet,
		p.MaxMSlack, p.Stop)
	var all []string
	if a.Met {
		all = append(all,
			fmt.Sprintf("With %s, %s of the messages of this log would have been delayed; at most %s was asked for.",
				with, share(f.DelayedShare), share(a.Share)))
	} else {
		all = append(all,
			fmt.Sprintf("Nothing that was tried keeps delayed messages under %s of this log without stopping users more "+
				"than once in "+
				"6 months. Closest is %s: %s. Look at the users who are delayed most: someone who writes to many people "+
				"by profession may have limits "+
				"of their own, or be exempt.", share(a.Share), with, share(f.DelayedShare)))
	}
	switch {
	case f.Stops == 0:
		all = append(all, "Nobody would have been stopped.")
	default:
		all = append(all, fmt.Sprintf("%s would have been stopped, %s in all: on average each user once in %s.",
			plural(f.StoppedUsers, "user"), plural(f.Stops, "time"), inMonths(1/f.StopsMonthly)))
	}
	if f.Waited > 0 && f.MaxDelay > 0 {
		all = append(all, fmt.Sprintf("Half of those who wait would wait no longer than %s, nobody longer than %s.",
			span(f.MedianDelay), span(f.MaxDelay)))
	}
	for i, v := range a.Virus {
		all = append(all, virusSentence(adviceViruses[i].WithDefaults(), v))
	}
	return all
}

// loudest names the user who has most of the delayed mails, if there is one: then the general parameters are not what
// to change.
func (s *Study) loudest() string {
	for _, u := range s.Worst {
		if 2*u.Delayed > s.Delayed && s.Users > 1 && u.Delayed >= 10 {
			return fmt.Sprintf("%d of the %d messages that the present parameters delay are of one user, %s: "+
				"look whether the account was stolen, or give it limits of its own.", u.Delayed, s.Delayed, u.User)
		}
	}
	return ""
}

func virusSentence(o VirusOptions, v VirusPoint) string {
	who := fmt.Sprintf("A virus that sends %g messages a minute, each to somebody new,", o.Rate)
	if o.Recipients > 1 {
		who = fmt.Sprintf("A virus that sends %g messages a minute, each to %d new recipients,", o.Rate, o.Recipients)
	}
	if v.StoppedAfter < 0 {
		return fmt.Sprintf("%s would never be stopped, and reach %s in a day.", who, plural(v.Passed, "recipient"))
	}
	return fmt.Sprintf("%s would reach %s at most, and be stopped after %s at the latest.",
		who, plural(v.Passed, "recipient"), span(v.StoppedAfter))
}

// RateText writes a period as a rate.
func RateText(every time.Duration) string {
	for _, per := range []time.Duration{time.Minute, time.Second} {
		if every > 0 && every <= per && per%every == 0 {
			return weir.Rate{Count: int64(per / every), Per: per}.String()
		}
	}
	return weir.Rate{Count: 1, Per: every}.String()
}

// ParamsLine is one line with the parameters of a mail throttle.
func ParamsLine(p outbreak.Params) string {
	rate := RateText(p.Every)
	if p.MultiEvery != p.Every {
		rate += " (to several " + RateText(p.MultiEvery) + ")"
	}
	return fmt.Sprintf("rate %s, working set %d, max slack %d, max mslack %d, stop %d", rate, p.WorkingSet, p.MaxSlack,
		p.MaxMSlack, p.Stop)
}

// configOf writes parameters for weir.yaml. Most defaults are left out.
func configOf(p outbreak.Params) string {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "      %s: %v\n", key, value) }
	b.WriteString("throttles:\n  outgoing:\n    mail:\n")
	line("rate", RateText(p.Every))
	if p.MultiEvery != p.Every {
		line("multi_rate", RateText(p.MultiEvery))
	}
	line("working_set", p.WorkingSet)
	if p.FIFO {
		line("replace", outbreak.FIFO)
	}
	line("max_slack", p.MaxSlack)
	line("max_mslack", p.MaxMSlack)
	line("stop", p.Stop)
	if p.HoldLarge {
		line("large", outbreak.LargeHold)
	}
	if p.Recipients != outbreak.DefaultRecipients && p.Recipients > 0 {
		line("recipients", p.Recipients)
	}
	if p.Resume > 0 {
		line("resume", weir.Duration(p.Resume))
	}
	if p.Slow != outbreak.DefaultSlow && p.Slow > 0 {
		line("slow", p.Slow)
	}
	return b.String()
}
