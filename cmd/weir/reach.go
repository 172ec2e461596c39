package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"weir/console"
	"weir/internal/tabular"
)

type reachCommand struct {
	List  reachListCommand  `cmd:"" help:"Show who is flagged, or would be if the throttle were not in shadow." example:"weir reach list"`
	Show  reachShowCommand  `cmd:"" help:"Show how many people a user writes to, how many of them are new, and whether they are flagged." example:"weir reach show ann"`
	Clear reachClearCommand `cmd:"" help:"Clear the flag of a user and start counting again. Withheld messages stay withheld (weir queue release sends them)." example:"weir reach clear ann"`
	Flag  reachFlagCommand  `cmd:"" help:"Flag a user until somebody clears the flag." example:"weir reach flag ann"`
	Usual reachUsualCommand `cmd:"" help:"Show what a throttle has learned: how many new people users usually write to." example:"weir reach usual"`
}

type reachFlags struct {
	target
	Throttle string `placeholder:"NAME" help:"The reach throttle. Default: the only one."`
	JSON     bool   `name:"json" help:"Print the result as JSON."`
}

type reachUserFlags struct {
	reachFlags
	Name string `arg:"" name:"user" help:"The user: a login name, the address of a client that sends without one, or the user that was named to the decision API."`
}

func (c *reachUserFlags) Validate() error {
	if c.Name == "" {
		return errors.New("which user?")
	}
	return nil
}

type reachListCommand struct {
	target
	Limit int  `placeholder:"N" default:"1000" help:"Show at most this many, up to 1000. Default: 1000."`
	JSON  bool `name:"json" help:"Print them as JSON."`
}

func (c *reachListCommand) Validate() error {
	if c.Limit < 1 || c.Limit > console.MaxReachPage {
		return fmt.Errorf("--limit: 1 to %d", console.MaxReachPage)
	}
	return nil
}

func (c *reachListCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.ReachListCall.With(console.ReachList{Limit: c.Limit}), t.flagged)
}

func (t *terminal) flagged(p *console.ReachPage) {
	if len(p.Users) == 0 {
		fmt.Fprintln(t.out, "nobody is flagged")
		return
	}
	rows := table{heads: []string{"user", "throttle", "since", "why", "what holds"}}
	for _, v := range p.Users {
		why := text(v.Why)
		if v.Problem != "" {
			why = cell{text: v.Problem, tint: tabular.Bad}
		}
		holds := v.Holds
		if v.Shadow {
			holds = "nothing (shadow)"
		}
		rows.row(text(v.User), text(v.Throttle), text(moment(v.Since)), why, text(holds))
	}
	t.write(&rows)
	if p.More {
		fmt.Fprintln(t.out, "and more")
	}
}

type reachShowCommand struct{ reachUserFlags }

func (c *reachShowCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.ReachShowCall.With(console.ReachName{Name: c.Name, Throttle: c.Throttle}),
		func(u *console.ReachUser) {
			for i := range u.Throttles {
				if i > 0 {
					fmt.Fprintln(t.out)
				}
				t.reached(&u.Throttles[i])
			}
		})
}

func (t *terminal) reached(v *console.ReachView) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t.out, "%-12s %s\n", name+":", value)
		}
	}
	line("user", printable(v.User))
	line("throttle", printable(v.Throttle))
	if v.Problem != "" {
		line("problem", t.paint(tabular.Bad, printable(v.Problem)))
		return
	}
	state, tint := flagOf(v)
	line("state", t.paint(tint, state))
	line("why", printable(v.Why))
	holds := "what holds"
	if v.Shadow {
		holds = "would hold"
	}
	line(holds, printable(v.Holds))
	if !v.First.IsZero() {
		line("known", "since "+moment(v.First))
	}
	line("recipients", strconv.FormatInt(v.Recipients, 10))
	line("stored", bytesOf(int64(v.Bytes)))
	if len(v.Windows) == 0 {
		return
	}
	fmt.Fprintln(t.out)
	rows := table{heads: []string{"window", "new", "limit", ""}}
	for _, w := range v.Windows {
		limit, bar := cell{text: "none yet", right: true}, cell{}
		if w.Limit > 0 {
			limit, bar = amount(w.Limit), gauge(w.New/w.Limit)
		}
		rows.row(text(w.Window), amount(w.New), limit, bar)
	}
	t.write(&rows)
}

// flagOf is the state of a flag in a few words.
func flagOf(v *console.ReachView) (string, tabular.Tint) {
	since := ""
	if !v.Since.IsZero() {
		since = " since " + moment(v.Since)
	}
	switch {
	case v.Flagged && v.Shadow:
		return "would be flagged" + since + " (shadow)", tabular.Warn
	case v.Flagged:
		return "flagged" + since, tabular.Bad
	case v.Exempt:
		return "exempt: never flagged", tabular.Plain
	}
	return "not flagged", tabular.Plain
}

func amount(v float64) cell { return cell{text: fmt.Sprintf("%.0f", v), right: true} }

// gauge draws the share of a limit that is used.
func gauge(share float64) cell {
	const width = 20
	full := int(min(max(share, 0), 1) * width)
	c := cell{text: fmt.Sprintf("[%s%s] %.0f%%", strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*share)}
	switch {
	case share > 1:
		c.tint = tabular.Bad
	case share >= 0.8:
		c.tint = tabular.Warn
	}
	return c
}

type reachClearCommand struct{ reachUserFlags }

func (c *reachClearCommand) Run(t *terminal) error {
	return c.act(t, console.ReachClearCall, "is not flagged any more")
}

type reachFlagCommand struct{ reachUserFlags }

func (c *reachFlagCommand) Run(t *terminal) error {
	return c.act(t, console.ReachFlagCall, "is flagged")
}

// act flags or clears a user, and prints what was done.
func (c *reachUserFlags) act(t *terminal,
	do *console.CallOf[console.ReachOrder, console.ReachView], done string) error {
	order := console.ReachOrder{User: c.Name, Throttle: c.Throttle}
	return ask(t, c.target, c.JSON, do.With(order), func(v *console.ReachView) {
		if v.Flagged && v.Holds != "" {
			done += ": " + v.Holds
		}
		fmt.Fprintf(t.out, "%s %s\n", printable(v.User), done)
	})
}

type reachUsualCommand struct{ reachFlags }

func (c *reachUsualCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.ReachUsualCall.With(console.ReachThrottle{Throttle: c.Throttle}), t.usual)
}

func (t *terminal) usual(u *console.ReachUsual) {
	fmt.Fprintf(t.out, "throttle %s, threshold %s\n", printable(u.Throttle), printable(u.Threshold))
	if len(u.Cohorts) == 0 {
		fmt.Fprintln(t.out, "nothing is learnt yet: no hour is over in which somebody wrote")
		return
	}
	fmt.Fprintln(t.out)
	rows := table{heads: []string{"window", "account is", "recipients before", "samples", "usually new", "too many"}}
	for _, h := range u.Cohorts {
		limit := cell{text: "not known yet", right: true}
		if h.Limit > 0 {
			limit = amount(h.Limit)
		}
		rows.row(text(h.Window), text(h.Age), text(h.Size), number(h.Samples), amount(h.Usual), limit)
	}
	t.write(&rows)
}
