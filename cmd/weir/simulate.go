package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/config"
	"weir/lab/simulate"
	"weir/throttle/outbreak"
	"weir/throttle/reach"
)

type simulateCommand struct {
	Virus simulateVirusCommand `cmd:"" help:"Show how a mail throttle stops a virus or a stolen account." example:"weir simulate virus --rate 60/m"`
	Mail  simulateMailCommand  `cmd:"" help:"Show which of your users a mail throttle would have delayed or stopped, from a mail log." example:"weir simulate mail --log /var/log/mail.log"`
	Reach simulateReachCommand `cmd:"" help:"Show which of your users reach would have flagged for writing to too many new people, from a mail log." example:"weir simulate reach --log /var/log/mail.log"`
	Flood simulateFloodCommand `cmd:"" help:"Show what people get from a service while it is flooded, and what they pay for it." example:"weir simulate flood --capacity 50/s --flood 1000/s"`
}

// A rule is where the parameters of a simulated throttle come from.
type rule struct {
	Config   string `short:"c" placeholder:"FILE" help:"Use the throttle of this configuration. Default: weir's defaults."`
	Throttle string `placeholder:"NAME" help:"The throttle of the configuration to use. Default: the only one of its kind."`
}

// validate finds flags that do not go together.
func (r rule) validate() error {
	if r.Throttle != "" && r.Config == "" {
		return errors.New("--throttle: there is no configuration to find it in (write -c weir.yaml, too)")
	}
	return nil
}

// load reads the configuration, which needs no gate. It returns nil if none is given.
func (r rule) load() (*config.Config, error) {
	if r.Config == "" {
		return nil, nil
	}
	cfg, err := config.LoadStudy(r.Config)
	if err != nil {
		return nil, err
	}
	full := cfg.WithDefaults()
	return &full, nil
}

// pick finds the throttle that the flags mean, among those of one kind.
func pick[T any](r rule, cfg *config.Config, kind string, of func(config.Throttle) *T) (*T, error) {
	found := map[string]*T{}
	for name, t := range cfg.Throttles {
		if o := of(t); o != nil {
			found[name] = o
		}
	}
	names := slices.Sorted(maps.Keys(found))
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s has no %s throttle (leave out -c for the defaults)", r.Config, kind)
	case r.Throttle != "" && found[r.Throttle] == nil:
		hint := "there is " + strings.Join(names, ", ")
		if near := weir.Nearest(r.Throttle, names...); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return nil, fmt.Errorf("--throttle: %s has no %s throttle %q (%s)", r.Config, kind, r.Throttle, hint)
	case r.Throttle != "":
		return found[r.Throttle], nil
	case len(names) > 1:
		return nil, fmt.Errorf("%s has %d %s throttles: say which with --throttle (%s)", r.Config, len(names), kind,
			strings.Join(names, ", "))
	}
	return found[names[0]], nil
}

// chosen returns the options of the throttle that the flags mean, or weir's defaults without a configuration.
func chosen[T interface{ WithDefaults() T }](r rule, kind string, of func(config.Throttle) *T) (T, error) {
	o := new(T)
	cfg, err := r.load()
	if err == nil && cfg != nil {
		o, err = pick(r, cfg, kind, of)
	}
	if err != nil {
		return *new(T), err
	}
	return (*o).WithDefaults(), nil
}

func (r rule) mail() (outbreak.Options, error) {
	return chosen(r, "mail", func(t config.Throttle) *outbreak.Options { return t.Mail })
}

func (r rule) reach() (reach.Options, error) {
	return chosen(r, "reach", func(t config.Throttle) *reach.Options { return t.Reach })
}

// checkUsers checks how many users are to be listed.
func checkUsers(n int) error {
	if n < 0 || n > simulate.MaxWorst {
		return fmt.Errorf("--users: %d is out of bounds (0 to %d)", n, simulate.MaxWorst)
	}
	return nil
}

// mailLimits are parameters of a mail throttle that replace those of the configuration.
type mailLimits struct {
	WorkingSet *int       `placeholder:"N" help:"Try this size of the working set."`
	Rate       *weir.Rate `placeholder:"RATE" help:"Try this rate, such as 2/m, for messages to one and to several recipients."`
	MaxSlack   *int       `placeholder:"N" help:"Try this slack for messages to one recipient."`
	MaxMSlack  *int       `name:"max-mslack" placeholder:"N" help:"Try this slack for messages to several recipients."`
	Stop       *int       `placeholder:"N" help:"Try this number of waiting recipients; more stop a user."`
}

func (l mailLimits) limits() outbreak.Limits {
	out := outbreak.Limits{WorkingSet: l.WorkingSet, MaxSlack: l.MaxSlack, MaxMSlack: l.MaxMSlack, Stop: l.Stop}
	if l.Rate != nil {
		out.Rate = *l.Rate
	}
	return out
}

// validate finds parameters that no configuration may have.
func (l mailLimits) validate() error {
	if l.Rate != nil && l.Rate.Count == 0 {
		return errors.New("--rate: at this rate waiting messages never leave (write 1/m)")
	}
	return asFlags(l.limits().Validate())
}

// over puts the parameters into options. Users with limits of their own keep those.
func (l mailLimits) over(o outbreak.Options) outbreak.Options {
	if l.Rate != nil {
		o.Rate, o.MultiRate = *l.Rate, weir.Rate{}
	}
	for _, p := range []struct{ to, from **int }{
		{&o.WorkingSet, &l.WorkingSet}, {&o.MaxSlack, &l.MaxSlack}, {&o.MaxMSlack, &l.MaxMSlack}, {&o.Stop, &l.Stop},
	} {
		if *p.from != nil {
			*p.to = *p.from
		}
	}
	return o
}

// asFlags turns errors about fields into errors about the flags of the same names.
func asFlags(err error) error {
	var all []error
	for _, mistake := range weir.FieldErrors(err) {
		flag := *mistake
		flag.Path = strings.TrimPrefix(strings.ReplaceAll(flag.Path, "_", "-"), "stamp.")
		all = append(all, fmt.Errorf("--%w", &flag))
	}
	return errors.Join(all...)
}

// capital begins a sentence.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

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
