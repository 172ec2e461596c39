package main

import (
	"errors"
	"fmt"
	"time"

	"weir"
	"weir/lab/simulate"
)

// maxRates is how many viruses are tried at once.
const maxRates = 100

type simulateVirusCommand struct {
	rule
	Rate              []weir.Rate `placeholder:"RATE" help:"How many messages the virus sends, such as 60/m. May be repeated. Default: 60/m."`
	RecipientsPerMail int         `default:"1" placeholder:"N" help:"How many recipients each message has. Default: ${default}."`
	Known             weir.Share  `placeholder:"SHARE" help:"The share of recipients that the user has written to lately, such as 20%. Default: none."`
	Table             bool        `help:"Print the table of the source document beside what weir does."`
	reportFlag
	JSON bool `name:"json" help:"Print the figures as JSON, for the worst moment at which a virus can begin."`
}

// reportRates are the rates of a report without --rate.
var reportRates = []weir.Rate{
	{Count: 1, Per: time.Minute}, {Count: 2, Per: time.Minute}, {Count: 5, Per: time.Minute},
	{Count: 10, Per: time.Minute}, {Count: 20, Per: time.Minute},
	{Count: 60, Per: time.Minute}, {Count: 120, Per: time.Minute}, {Count: 455, Per: time.Minute},
}

func (c *simulateVirusCommand) viruses() (all []simulate.VirusOptions) {
	rates := c.Rate
	if len(rates) == 0 {
		rates = []weir.Rate{{Count: simulate.DefaultVirusRate, Per: time.Minute}}
		if c.Report != "" { // as many as a picture needs
			rates = reportRates
		}
	}
	for _, rate := range rates {
		all = append(all, simulate.VirusOptions{Rate: 60 * aSecond(rate), Recipients: c.RecipientsPerMail,
			Known: float64(c.Known)})
	}
	return all
}

func (c *simulateVirusCommand) Validate() error {
	if err := errors.Join(c.rule.validate(), c.reportFlag.validate(c.Config)); err != nil {
		return err
	}
	if c.Table && (len(c.Rate) > 0 || c.RecipientsPerMail != 1 || c.Known != 0) {
		return errors.New("--table: its viruses are those of the document (leave out --rate, --recipients-per-mail " +
			"and --known)")
	}
	if len(c.Rate) > maxRates {
		return fmt.Errorf("--rate: %d are too many (at most %d)", len(c.Rate), maxRates)
	}
	if c.RecipientsPerMail < 1 {
		return fmt.Errorf("--recipients-per-mail: %d is out of bounds (between 1 and %d)", c.RecipientsPerMail,
			simulate.MaxVirusRecipients)
	}
	for _, o := range c.viruses() {
		if o.Rate == 0 {
			return errors.New("--rate: a virus that sends nothing (write 60/m)")
		}
		for _, mistake := range weir.FieldErrors(o.Validate()) {
			flag := *mistake
			if flag.Path == "recipients" {
				flag.Path = "recipients-per-mail"
			}
			return fmt.Errorf("--%w", &flag)
		}
	}
	return nil
}

// virusFigures is what --json prints of a virus: the worst moment to begin, and beside it the best one.
type virusFigures struct {
	Rate         float64 `json:"rate"`
	Passed       int     `json:"passed"`
	Held         int     `json:"held"`
	StoppedAfter float64 `json:"stopped_after_s"` // -1: never
	PassedNew    int     `json:"passed_new"`
	BestPassed   int     `json:"best_passed"`
	BestStopped  float64 `json:"best_stopped_after_s"`
}

func (c *simulateVirusCommand) Run(t *terminal) error {
	o, err := c.rule.mail()
	if err != nil {
		return err
	}
	p, err := o.Params("", "") // of a user with no limits of their own
	if err != nil {
		return err
	}
	report := simulate.VirusReport{Rule: capital(simulate.ParamsLine(p)) + ".",
		Recipients: fmt.Sprintf("Each mail goes %s.", c.recipients())}
	if c.Table {
		report.Recipients, report.Table = "", simulate.VirusTable(p)
		for _, r := range report.Table {
			report.Viruses = append(report.Viruses, simulate.VirusTried{Rate: r.Rate, VirusRange: r.Given})
		}
		return c.finish(t, report.Sheet(), c.JSON, report.Table)
	}
	figures := []virusFigures{}
	for _, v := range c.viruses() {
		r, err := simulate.Virus(p, v)
		if err != nil {
			return err
		}
		report.Viruses = append(report.Viruses, simulate.VirusTried{Rate: v.Rate, VirusRange: r})
		w := r.Worst
		figures = append(figures, virusFigures{v.Rate, w.Passed, w.Held, w.StoppedAfter, w.PassedNew, r.Best.Passed,
			r.Best.StoppedAfter})
	}
	return c.finish(t, report.Sheet(), c.JSON, figures)
}

func (c *simulateVirusCommand) recipients() string {
	switch {
	case c.Known > 0:
		return fmt.Sprintf("to %s, %s of them known to the user", count(c.RecipientsPerMail, "recipient"), c.Known)
	case c.RecipientsPerMail > 1:
		return fmt.Sprintf("to %d people who are new", c.RecipientsPerMail)
	}
	return "to somebody new"
}
