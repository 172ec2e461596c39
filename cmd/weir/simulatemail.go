package main

import (
	"bytes"

	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"strings"

	"weir"
	"weir/internal/tabular"
	"weir/mail"
	"weir/simulate"
	"weir/stamp"
)

// A mailLog is a log that is read.
type mailLog struct {
	Log    []string       `required:"" sep:"none" placeholder:"FILE" help:"The mail log: CSV with time,user,recipients, a Postfix maillog or JSON lines; gzip too. May be repeated, for rotated ones."`
	Format string         `enum:",csv,postfix,json" default:"" placeholder:"FORMAT" help:"How it is written: csv, postfix or json. Default: as it looks."`
	Year   int            `placeholder:"YEAR" help:"The year in which it begins, where its times have none. Default: by the time of the file."`
	Client []netip.Prefix `placeholder:"NET" help:"A network whose clients are users without logging in, in a Postfix log; may be repeated."`
	Local  bool           `help:"Count mail that was handed in on the machine itself, in a Postfix log."`
}

func (l mailLog) options() simulate.LogOptions {
	return simulate.LogOptions{Format: simulate.LogFormat(l.Format), Year: l.Year, Clients: l.Client, Local: l.Local}
}

// read reads the log from end to end, and shows how far it is. What take does not take is left out, and counted.
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
				b.show(stamp.Work(done), stamp.Work(total))
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

// leftOut counts a mail that was not taken, by the kind of error.
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

// simulateMailCommand is weir simulate mail.
type simulateMailCommand struct {
	mailLog
	rule
	mailLimits
	Sweep         []string   `sep:"none" placeholder:"NAME=VALUES" help:"Try several values of a parameter: working_set=0..10, rate=1/2m,1/m,2/m, max_mslack=0..30/5, stop=10,20,40. May be repeated."`
	DelayedAtMost weir.Share `default:"1%" placeholder:"SHARE" help:"Advise how at most this share of the mails is delayed; 0% for none. Default: ${default}."`
	Users         int        `default:"10" placeholder:"N" help:"How many users to list, of those who would notice most. Default: ${default}."`
	Report        string     `placeholder:"FILE" help:"Also write a page with plots, which stands by itself."`
	JSON          bool       `name:"json" help:"Print the figures as JSON."`
}

// sweeps are what is to be swept; all that a report shows, where there is to be one and nothing else was asked for.
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

// asSweep says mistakes in sweeps as such in the flag.
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

// Validate is called by the parser.
func (c *simulateMailCommand) Validate() error {
	sweeps, err := c.sweeps()
	if err == nil {
		err = asSweep(simulate.ReplayOptions{Sweeps: sweeps}.Validate())
	}
	all := []error{asFlags(c.mailLog.options().Validate()), c.rule.validate(), c.mailLimits.validate(), err}
	if !(c.DelayedAtMost >= 0 && c.DelayedAtMost <= 1) {
		all = append(all, fmt.Errorf("--delayed-at-most: %s is no share of the mails (0%% to 100%%)", c.DelayedAtMost))
	}
	if c.Users < 0 || c.Users > simulate.MaxWorst {
		all = append(all, fmt.Errorf("--users: %d is out of bounds (0 to %d)", c.Users, simulate.MaxWorst))
	}
	return errors.Join(append(all, folderOf("report", c.Report))...)
}

// folderOf finds a file that cannot be written before it takes a while to find what to write.
func folderOf(flag, file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return fmt.Errorf("--%s: there is no folder %s", flag, filepath.Dir(file))
	}
	return nil
}

// Run replays the log.
func (c *simulateMailCommand) Run(t *terminal) error {
	o, err := c.rule.mail()
	if err != nil {
		return err
	}
	study, err := c.study(t, c.mailLimits.over(o))
	if err != nil {
		return err
	}
	if c.Report != "" {
		var page bytes.Buffer
		if err := study.WriteReport(&page); err != nil {
			return err
		}
		if err := os.WriteFile(c.Report, page.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if c.JSON {
		return t.json(study)
	}
	t.mailStudy(study, c.Users)
	if c.Report != "" {
		fmt.Fprintf(t.out, "\nThe report is in %s.\n", printable(c.Report))
	}
	return nil
}

// study holds the log against the throttle.
func (c *simulateMailCommand) study(t *terminal, o mail.Options) (*simulate.Study, error) {
	p, err := o.Params("", "")
	if err != nil {
		return nil, err
	}
	sweeps, err := c.sweeps()
	if err != nil {
		return nil, err
	}
	replay, err := simulate.NewReplay(simulate.ReplayOptions{
		Params: p, Of: func(user string) mail.Params {
			of, _ := o.Params(user, "") // what is in the store nobody knows here
			return of
		},
		Counted: o.Counted, Sweeps: sweeps, Share: float64(c.DelayedAtMost),
	})
	if err != nil {
		return nil, err
	}
	defer replay.Close()
	info, err := c.mailLog.read(t, replay.Add)
	if err != nil {
		return nil, err
	}
	study := replay.Study()
	study.Log = info
	return study, nil
}

// logLine says what a log was.
func (t *terminal) logLine(l simulate.LogInfo) {
	days := l.To.Sub(l.From).Hours() / 24
	long := fmt.Sprintf("%.0f days", days)
	if days < 2 {
		long = seconds(l.To.Sub(l.From).Seconds())
	}
	when := ""
	if !l.Relative && !l.From.IsZero() {
		when = fmt.Sprintf(", from %s to %s", l.From.Format("2006-01-02"), l.To.Format("2006-01-02"))
	}
	fmt.Fprintf(t.out, "%s of %s in %s%s.\n", count(l.Mails, "mail"), count(l.Users, "user"), long, when)
	for _, r := range l.Reasons[:min(len(l.Reasons), 5)] {
		fmt.Fprintln(t.out, t.paint(tabular.Faint, fmt.Sprintf("Left out: %s %s, the first in line %d.", count(r.Lines, "line"), r.Why, r.First)))
	}
}

// mailStudy shows a study to people.
func (t *terminal) mailStudy(s *simulate.Study, users int) {
	t.logLine(s.Log)
	fmt.Fprintf(t.out, "%s.\n\n", capital(paramsLine(s.Params.Mail)))
	b := &table{heads: []string{"what would have been", "", "", ""}}
	b.row(text("mails delayed"), number(s.Delayed), right(percent(s.DelayedShare)), text("of "+count(s.DelayedUsers, "user")))
	b.row(text("recipients who waited"), number(s.Waited), right(percent(part(s.Waited, s.Recipients))),
		text(fmt.Sprintf("%s on average, half of them up to %s, the longest %s", seconds(s.MeanDelay), seconds(s.MedianDelay), seconds(s.MaxDelay))))
	b.row(text("stops"), number(s.Stops), right(""), text(fmt.Sprintf("of %s; each user %s", count(s.StoppedUsers, "user"), howOften(s.StopsMonthly))))
	b.row(text("waiting at once"), number(s.MostWaiting), right(""), text("at most, of all users together"))
	t.write(b)
	if n := min(users, len(s.Worst)); n > 0 {
		fmt.Fprintf(t.out, "\n%s\n", t.paint(tabular.Head, "Who would notice most"))
		b := &table{heads: []string{"user", "mails", "delayed", "stops", "mean delay", "longest", "most waiting"}}
		for _, u := range s.Worst[:n] {
			b.row(text(u.User), number(u.Mails), number(u.Delayed), number(u.Stops), right(seconds(u.MeanDelay)), right(seconds(u.MaxDelay)), number(u.Most))
		}
		t.write(b)
	}
	for _, w := range s.Sweeps {
		fmt.Fprintf(t.out, "\n%s\n", t.paint(tabular.Head, "With another "+w.Parameter))
		b := &table{heads: []string{w.Parameter, "delayed", "share", "stops", "mean delay", "most waiting"}}
		for _, p := range w.Points {
			b.row(right(p.Value), number(p.Delayed), right(percent(p.DelayedShare)), number(p.Stops), right(seconds(p.MeanDelay)), number(p.MostWaiting))
		}
		t.write(b)
	}
	if a := s.Advice; a != nil {
		fmt.Fprintf(t.out, "\n%s\n", t.paint(tabular.Head, "Advice"))
		t.paragraph(strings.Join(a.Text, " "))
		if a.Config != "" {
			fmt.Fprintf(t.out, "\n%s", a.Config)
		}
	}
}

// part is n of all.
func part(n, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}

// howOften says how often something happens to a user, from how often in 30 days.
func howOften(monthly float64) string {
	switch {
	case monthly <= 0:
		return "never"
	case monthly >= 1:
		return fmt.Sprintf("%.1f times a month", monthly)
	case monthly > 0.5:
		return fmt.Sprintf("once in %.0f days", 30/monthly)
	}
	return fmt.Sprintf("once in %.0f months", 1/monthly)
}
