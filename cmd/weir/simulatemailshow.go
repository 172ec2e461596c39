package main

import (
	"fmt"
	"strings"

	"weir/internal/tabular"
	"weir/lab/simulate"
)

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
	fmt.Fprintf(t.out, "%s of %s in %s%s.\n", count(l.Mails, "message"), count(l.Users, "user"), long, when)
	for _, r := range l.Reasons[:min(len(l.Reasons), 5)] {
		fmt.Fprintln(t.out, t.paint(tabular.Faint,
			fmt.Sprintf("Left out: %s %s, the first in line %d.", count(r.Lines, "line"), r.Why, r.First)))
	}
}

func (t *terminal) mailStudy(s *simulate.Study, users int) {
	t.logLine(s.Log)
	fmt.Fprintf(t.out, "%s.\n\n", capital(paramsLine(s.Params.Mail)))
	b := &table{heads: []string{"what would have been", "", "", ""}}
	b.row(text("messages delayed"), number(s.Delayed), right(percent(s.DelayedShare)),
		text("of "+count(s.DelayedUsers, "user")))
	b.row(text("recipients who waited"), number(s.Waited), right(percent(part(s.Waited, s.Recipients))),
		text(fmt.Sprintf("%s on average, half of them up to %s, the longest %s", seconds(s.MeanDelay),
			seconds(s.MedianDelay), seconds(s.MaxDelay))))
	if n := s.Waited - s.Left; n > 0 {
		b.row(text("… released"), number(n), right(percent(part(n, s.Recipients))),
			text("when their user was stopped; their delays are not counted"))
	}
	b.row(text("stops"), number(s.Stops), right(""),
		text(fmt.Sprintf("of %s; each user %s (exact Poisson, 95%%: %s)", count(s.StoppedUsers, "user"),
			howOften(s.StopsMonthly), simulate.Between(howOften(s.StopsRange[0]), howOften(s.StopsRange[1])))))
	together := "at most, of all users together"
	if s.QueueEvery > 1 {
		together += "; looked at every " + seconds(float64(s.QueueEvery)) + " only"
	}
	b.row(text("waiting at once"), number(s.MostWaiting), right(""), text(together))
	t.write(b)
	if n := min(users, len(s.Worst)); n > 0 {
		b := &table{heads: []string{"user", "messages", "delayed", "stops", "mean delay", "longest", "most waiting"}}
		for _, u := range s.Worst[:n] {
			b.row(text(u.User), number(u.Mails), number(u.Delayed), number(u.Stops), right(seconds(u.MeanDelay)),
				right(seconds(u.MaxDelay)), number(u.Most))
		}
		t.section("Who would notice most", b)
	}
	if r := s.Reach; r != nil {
		t.section("Reach", nil)
		said := "Nobody would have been flagged for writing to too many new people."
		if r.Flags > 0 {
			said = fmt.Sprintf("For writing to too many new people, %s would have been flagged, %s in all: %.2g for "+
				"100 users in a month (exact Poisson, 95%%: %s).",
				count(r.FlaggedUsers, "user"), count(r.Flags, "time"), r.FlagsMonthly, interval(r.FlagsRange))
		}
		t.paragraph(said + " weir simulate reach tells more.")
	}
	for _, w := range s.Sweeps {
		b := &table{heads: []string{w.Parameter, "delayed", "share", "stops", "mean delay", "most waiting"}}
		for _, p := range w.Points {
			b.row(right(p.Value), number(p.Delayed), right(percent(p.DelayedShare)), number(p.Stops),
				right(seconds(p.MeanDelay)), number(p.MostWaiting))
		}
		t.section("With another "+w.Parameter, b)
	}
	if len(s.Sweeps) > 0 {
		fmt.Fprintln(t.out)
		t.paragraph(simulate.InSample)
	}
	if a := s.Advice; a != nil {
		t.section("Advice", nil)
		t.paragraph(strings.Join(a.Text, " ") + " " + simulate.InSample)
		if a.Config != "" {
			fmt.Fprintf(t.out, "\n%s", a.Config)
		}
	}
}

func part(n, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}

// howOften puts a number of times in 30 days into words.
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
