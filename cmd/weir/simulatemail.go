package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir"
	"weir/lab/simulate"
	"weir/throttle/outbreak"
	"weir/throttle/reach"
)

type mailLog struct {
	Log    []string       `required:"" sep:"none" placeholder:"FILE" help:"The mail log: CSV with time,user,recipients, a Postfix maillog, or JSON lines; also gzipped. May be repeated, for rotated logs."`
	Format string         `enum:",csv,postfix,json" default:"" placeholder:"FORMAT" help:"The format of the log: csv, postfix or json. Default: recognised by its first lines."`
	Year   int            `placeholder:"YEAR" help:"The year in which the log begins, if its times have no year. Default: by the time of the file."`
	Client []netip.Prefix `placeholder:"NET" help:"A network whose clients count as users without a login, in a Postfix log. May be repeated."`
	Local  bool           `help:"Also count messages that were submitted on the machine itself, in a Postfix log."`
}

func (l mailLog) options() simulate.LogOptions {
	return simulate.LogOptions{Format: simulate.LogFormat(l.Format), Year: l.Year, Clients: l.Client, Local: l.Local}
}

// read reads the whole log and shows progress. Messages for which take returns an error are left out and counted.
func (l mailLog) read(t *terminal, take func(simulate.Entry) error) (simulate.LogInfo, error) {
	log, err := simulate.OpenLog(l.Log, l.options())
	if err != nil {
		return simulate.LogInfo{}, err
	}
	defer log.Close()
	b := t.bar("reading")
	defer b.clear()
	var left []simulate.Reason
	mails := 0
	for e, err := range log.Entries() {
		if err != nil {
			return simulate.LogInfo{}, err
		}
		if mails++; mails%4096 == 0 {
			if done, total := log.Progress(); total > 0 { // a pipe does not say how much there is
				b.bytes(done, total)
			}
		}
		if err := take(e); err != nil {
			left = leftOut(left, err, mails)
		}
	}
	info := log.Info()
	for _, r := range left {
		info.Skipped += r.Lines
		info.Reasons = append(info.Reasons, r)
	}
	return info, nil
}

// leftOut counts a message that was not accepted, by the kind of error.
func leftOut(all []simulate.Reason, err error, mail int) []simulate.Reason {
	why, _, _ := strings.Cut(err.Error(), ": ")
	for i := range all {
		if all[i].Why == why {
			all[i].Lines++
			return all
		}
	}
	return append(all, simulate.Reason{Why: why, Lines: 1, First: mail})
}

type simulateMailCommand struct {
	mailLog
	rule
	mailLimits
	Sweep         []string   `sep:"none" placeholder:"NAME=VALUES" help:"Try several values of a parameter: working_set=0..10, rate=1/2m,1/m,2/m, max_mslack=0..30/5, stop=10,20,40. May be repeated."`
	DelayedAtMost weir.Share `default:"1%" placeholder:"SHARE" help:"Advise on parameters that delay at most this share of the messages; 0% for no advice. Default: ${default}."`
	Users         int        `default:"10" placeholder:"N" help:"How many users to list, most affected first. Default: ${default}."`
	reportFlag
	JSON bool `name:"json" help:"Print the figures as JSON."`
}

// sweeps returns the sweeps to run. A report without --sweep has the default ones.
func (c *simulateMailCommand) sweeps() (all []simulate.SweepSpec, err error) {
	for _, text := range c.Sweep {
		s, err := simulate.ParseSweep(text)
		if err != nil {
			return nil, asSweep(err)
		}
		all = append(all, s)
	}
	if len(all) == 0 && c.Report != "" {
		all = simulate.DefaultSweeps()
	}
	return all, nil
}

// asSweep turns errors about sweeps into errors about --sweep.
func asSweep(err error) error {
	var all []error
	for _, mistake := range weir.FieldErrors(err) {
		flag := *mistake
		flag.Path = "sweep"
		if mistake.Path != "sweep" {
			flag.Msg = mistake.Path + ": " + mistake.Msg
		}
		all = append(all, fmt.Errorf("--%w", &flag))
	}
	return errors.Join(all...)
}

func (c *simulateMailCommand) Validate() error {
	sweeps, err := c.sweeps()
	if err == nil {
		err = asSweep(simulate.ReplayOptions{Sweeps: sweeps}.Validate())
	}
	all := []error{asFlags(c.mailLog.options().Validate()), c.rule.validate(), c.mailLimits.validate(), err}
	if !(c.DelayedAtMost >= 0 && c.DelayedAtMost <= 1) {
		all = append(all, fmt.Errorf("--delayed-at-most: %s is not a share of the messages (0%% to 100%%)", c.DelayedAtMost))
	}
	all = append(all, checkUsers(c.Users))
	return errors.Join(append(all, c.reportFlag.validate(append(slices.Clip(c.Log), c.Config)...))...)
}

func (c *simulateMailCommand) Run(t *terminal) error {
	o, err := c.rule.mail()
	if err != nil {
		return err
	}
	study, err := c.study(t, c.mailLimits.over(o))
	if err != nil {
		return err
	}
	return c.finish(t, study.Sheet(c.Users), c.JSON, study)
}

func (c *simulateMailCommand) study(t *terminal, o outbreak.Options) (*simulate.Study, error) {
	p, err := o.Params("", "")
	if err != nil {
		return nil, err
	}
	sweeps, err := c.sweeps()
	if err != nil {
		return nil, err
	}
	replay, err := simulate.NewReplay(simulate.ReplayOptions{
		Params: p, Of: func(user string) outbreak.Params {
			of, _ := o.Params(user, "") // what is in the store nobody knows here
			return of
		},
		Counted: o.Counted, Sweeps: sweeps, Share: float64(c.DelayedAtMost),
	})
	if err != nil {
		return nil, err
	}
	defer replay.Close()
	reached, err := c.reached()
	if err != nil {
		return nil, err
	}
	info, err := c.mailLog.read(t, func(e simulate.Entry) error {
		if err := replay.Add(e); err != nil || reached == nil {
			return err
		}
		return reached.Add(e)
	})
	if err != nil {
		return nil, err
	}
	study := replay.Study()
	study.Log = info
	if reached != nil {
		study.Reach, err = reached.Study()
	}
	return study, err
}

// reached replays the same log against reach: the only reach throttle of the configuration, or the defaults if there is
// none. With several it returns nil: weir simulate reach has a flag to choose one.
func (c *simulateMailCommand) reached() (*simulate.ReachReplay, error) {
	cfg, err := c.rule.load()
	if err != nil {
		return nil, err
	}
	o := reach.Options{}.WithDefaults()
	if cfg != nil {
		found := 0
		for _, t := range cfg.Throttles {
			if t.Reach != nil {
				o = t.Reach.WithDefaults()
				found++
			}
		}
		if found > 1 {
			return nil, nil
		}
	}
	return simulate.NewReachReplay(simulate.ReachOptions{Reach: o})
}
