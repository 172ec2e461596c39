package main

import (
	"errors"
	"fmt"
	"time"

	"weir"
	"weir/internal/tabular"
	"weir/lab/simulate"
	"weir/throttle/outbreak"
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
	report := simulate.VirusReport{Rule: capital(paramsLine(p)) + ".",
		Recipients: fmt.Sprintf("Each mail goes %s.", c.recipients())}
	if c.Table {
		report.Recipients, report.Table = "", simulate.VirusTable(p)
		for _, r := range report.Table {
			report.Viruses = append(report.Viruses, simulate.VirusTried{Rate: r.Rate, VirusRange: r.Given})
		}
		return c.finish(t, report.WriteReport, c.JSON, report.Table, func() { c.table(t, p, report.Table) })
	}
	figures := []virusFigures{}
	b := &table{heads: []string{"messages a minute", "passed", "held", "stopped after"}}
	for _, v := range c.viruses() {
		r, err := simulate.Virus(p, v)
		if err != nil {
			return err
		}
		report.Viruses = append(report.Viruses, simulate.VirusTried{Rate: v.Rate, VirusRange: r})
		w := r.Worst
		figures = append(figures, virusFigures{v.Rate, w.Passed, w.Held, w.StoppedAfter, w.PassedNew, r.Best.Passed,
			r.Best.StoppedAfter})
		passed, held, stopped := virusText(r)
		b.row(right(fmt.Sprint(v.Rate)), right(passed), right(held), right(stopped))
	}
	return c.finish(t, report.WriteReport, c.JSON, figures, func() {
		fmt.Fprintf(t.out, "Each mail goes %s. %s.\n\n", c.recipients(), t.paint(tabular.Faint, capital(paramsLine(p))))
		t.write(b)
		fmt.Fprint(t.out, "\nRecipients, from the best to the worst moment of the user's clock for it to begin.\n")
	})
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

func (c *simulateVirusCommand) table(t *terminal, p outbreak.Params, rows []simulate.VirusRow) {
	fmt.Fprintf(t.out, "%s\n", t.paint(tabular.Head,
		"With the document's parameters: "+paramsLine(simulate.DocumentParams())))
	b := &table{heads: []string{"a minute", "virus", "passed", "reference", "weir", "stopped after", "reference",
		"weir", ""}}
	for _, r := range rows {
		passed, _, stopped := virusText(r.Ours)
		mark := cell{text: "as it should be", tint: tabular.Good}
		if !r.Kept {
			mark = cell{text: "worse than the reference", tint: tabular.Bad}
		}
		b.row(right(fmt.Sprint(r.Rate)), text(r.What), number(r.DocumentPassed),
			right(simulate.Between(fmt.Sprint(r.ReferencePassed[0]), fmt.Sprint(r.ReferencePassed[1]))),
			right(passed), right(seconds(r.DocumentStopped)),
			right(simulate.Between(seconds(r.ReferenceStopped[0]), seconds(r.ReferenceStopped[1]))), right(stopped),
			mark)
	}
	t.write(b)
	whose := "With weir's defaults"
	if c.Config != "" {
		whose = "As configured"
	}
	b = &table{heads: []string{"a minute", "passed", "held", "stopped after"}}
	for _, r := range rows {
		passed, held, stopped := virusText(r.Given)
		b.row(right(fmt.Sprint(r.Rate)), right(passed), right(held), right(stopped))
	}
	t.section(whose+": "+paramsLine(p), b)
	fmt.Fprint(t.out,
		"\nThe document tried two real viruses and one of its own; in front of the first, a mail of the user's had "+
			"spent their slack.\n")
}
