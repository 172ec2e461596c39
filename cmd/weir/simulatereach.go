package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
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
	return c.finish(t, report.Sheet(c.Users), c.JSON, reachFigures{study, info})
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
