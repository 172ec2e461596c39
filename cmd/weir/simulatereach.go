package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/internal/tabular"
	"weir/lab/simulate"
	"weir/throttle/reach"
)

type simulateReachCommand struct {
	mailLog
	rule
	Steal []weir.Rate `placeholder:"RATE" help:"Simulate a stolen account that writes to this many new people, such as 30/h, and show when it is found. May be repeated. Default: 30/h and 300/h."`
	Users int         `default:"10" placeholder:"N" help:"How many users to list, those with the most flags and recipients first. Default: ${default}."`
	reportFlag
	JSON bool `name:"json" help:"Print the figures as JSON."`
}

func (c *simulateReachCommand) thefts() (all []simulate.Theft) {
	rates := c.Steal
	if len(rates) == 0 {
		rates = []weir.Rate{{Count: 30, Per: time.Hour}, {Count: 300, Per: time.Hour}}
	}
	for _, r := range rates {
		all = append(all, simulate.Theft{PerHour: 3600 * aSecond(r)})
	}
	return all
}

func (c *simulateReachCommand) Validate() error {
	all := []error{asFlags(c.mailLog.options().Validate()), c.rule.validate(), checkUsers(c.Users)}
	for _, mistake := range weir.FieldErrors(simulate.ReachOptions{Steal: c.thefts()}.Validate()) {
		flag := *mistake
		if strings.HasPrefix(flag.Path, "steal") {
			flag.Path, flag.Msg = "steal",
				strings.Replace(flag.Msg, " is out of bounds", " new people an hour are out of bounds", 1)
		}
		all = append(all, fmt.Errorf("--%w", &flag))
	}
	return errors.Join(append(all, c.reportFlag.validate(append(slices.Clip(c.Log), c.Config)...))...)
}

func (c *simulateReachCommand) Run(t *terminal) error {
	o, err := c.rule.reach()
	if err != nil {
		return err
	}
	replay, err := simulate.NewReachReplay(simulate.ReachOptions{Reach: o, Steal: c.thefts()})
	if err != nil {
		return err
	}
	info, err := c.mailLog.read(t, replay.Add)
	if err != nil {
		return err
	}
	study, err := replay.Study()
	if err != nil {
		return err
	}
	how := capital(reachLine(o)) + "."
	report := simulate.ReachReport{ReachStudy: study, Log: info, Rule: how}
	return c.finish(t, report.WriteReport, c.JSON, reachFigures{study, info}, func() {
		t.logLine(info)
		fmt.Fprintf(t.out, "%s\n\n", how)
		t.reachStudy(study, c.Users)
	})
}

// reachFigures is what --json prints.
type reachFigures struct {
	*simulate.ReachStudy
	Log simulate.LogInfo `json:"log"`
}

// reachLine is one line with the options of a reach throttle.
func reachLine(o reach.Options) string {
	var windows []string
	for _, w := range o.Windows {
		windows = append(windows, fmt.Sprint(w))
	}
	return fmt.Sprintf("threshold %s by the %s, floor %d, over: %s", o.Threshold, strings.Join(windows, " and the "),
		o.Floor, o.Over)
}

func (t *terminal) reachStudy(s *simulate.ReachStudy, users int) {
	b := &table{heads: []string{"what would have been", "", ""}}
	b.row(text("flags"), number(s.Flags),
		text(fmt.Sprintf("of %s; %.2g for 100 users in a month (95%%: %s)", count(s.FlaggedUsers, "user"),
			s.FlagsMonthly, interval(s.FlagsRange))))
	b.row(text("recipients held or refused"), number(s.Held), text(""))
	t.write(b)
	if n := min(users, len(s.Users)); n > 0 {
		b := &table{heads: []string{"user", "messages", "different recipients", "new in an hour", "in a day", "flags",
			"held"}}
		for _, u := range s.Users[:n] {
			about := func(n float64) cell { return right(fmt.Sprintf("%.0f", n)) } // counts are estimates
			b.row(text(u.User), number(u.Mails), about(u.Recipients), about(u.MostHour), about(u.MostDay),
				number(u.Flags), number(u.Held))
		}
		t.section("Who writes to the most people", b)
		fmt.Fprintln(t.out)
		t.paragraph(simulate.ReachReading)
	}
	if len(s.Stolen) > 0 {
		b := &table{heads: []string{"user", "new people an hour", "found after", "recipients", ""}}
		for _, a := range s.Stolen {
			after, n := cell{text: "never", tint: tabular.Bad, right: true}, right("-")
			switch {
			case a.Problem != "":
				after = right("-")
			case a.FoundAfter >= 0:
				after, n = right(seconds(a.After)), number(a.FoundAfter)
			}
			b.row(text(a.User), right(fmt.Sprint(a.PerHour)), after, n, text(a.Problem))
		}
		t.section("Stolen accounts", b)
	}
	if len(s.Thresholds) > 0 {
		heads := []string{"threshold", "flags", "100 users a month", "95%"}
		for _, a := range s.Stolen {
			heads = append(heads, fmt.Sprintf("%g/h found after", a.PerHour))
		}
		b := &table{heads: heads}
		for _, th := range s.Thresholds {
			row := []cell{text(th.Threshold), number(th.Flags), right(fmt.Sprintf("%.2g", th.FlagsMonthly)),
				right(interval(th.FlagsRange))}
			for i, a := range s.Stolen {
				found := right("never")
				switch n := th.FoundAfter[i]; {
				case n > 0:
					found = number(n)
				case n == 0:
					found = right("flagged before")
				case a.Problem != "":
					found = right("-")
				}
				row = append(row, found)
			}
			b.row(row...)
		}
		t.section("With another threshold", b)
		fmt.Fprintln(t.out)
		t.paragraph(simulate.InSample + " " + simulate.IntervalReading)
	}
}

func interval(i simulate.Interval) string { return fmt.Sprintf("%.2g to %.2g", i[0], i[1]) }
