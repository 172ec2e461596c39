package simulate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weir/throttle/outbreak"
)

// On the real log, advice keeps what was asked for.
func TestAdviceRealLog(t *testing.T) {
	log := realLog(t)
	log = log[:len(log)/4]
	a := run(t, ReplayOptions{Params: defaultParams(t), Share: DefaultShare}, slices.Values(log)).Advice
	t.Logf("%+v", a)
	if !a.Met || a.Figures.DelayedShare > DefaultShare || a.Figures.StopsMonthly > mostStops {
		t.Errorf("%+v", a)
	}
	// A run with the advised parameters has the advised figures.
	if got := run(t, ReplayOptions{Params: a.Params.Mail}, slices.Values(log)); got.Figures != a.Figures {
		t.Errorf("%+v, want %+v", got.Figures, a.Figures)
	}
}

func TestAdvice(t *testing.T) {
	base := defaultParams(t)
	with := func(set, mSlack, stop int, every time.Duration) outbreak.Params {
		p := base
		p.WorkingSet, p.MaxMSlack, p.Stop, p.Every, p.MultiEvery = set, mSlack, stop, every, every
		return p
	}
	figures := func(share, stops float64) Figures {
		return Figures{Mails: 1000, Users: 10, Delayed: int(share * 1000), DelayedShare: share, StopsMonthly: stops,
			Stops: int(stops * 10), StoppedUsers: 1}
	}
	usual, loose := with(5, 15, 20, time.Minute), with(5, 50, 20, time.Minute)
	fast, patient := with(5, 15, 20, 30*time.Second), with(5, 15, 60, time.Minute)
	for _, c := range []struct {
		name  string
		tried []candidate
		want  outbreak.Params
		met   bool
	}{
		{"the strictest", []candidate{{loose, figures(0.001, 0), 0}, {fast, figures(0.004, 0), 0},
			{usual, figures(0.009, 0), 0}}, usual, true},
		{"that keeps the share", []candidate{{usual, figures(0.011, 0), 0}, {loose, figures(0.01, 0), 0}}, loose, true},
		{"and stops few", []candidate{{usual, figures(0.009, 0.2), 0}, {patient, figures(0.009, 0.1), 0}}, patient,
			true},
		{"the smaller working set", []candidate{{with(8, 15, 20, time.Minute), figures(0.001, 0), 0},
			{usual, figures(0.002, 0), 0}}, usual, true},
		{"nothing keeps it", []candidate{{usual, figures(0.3, 0), 0}, {loose, figures(0.2, 0), 0},
			{patient, figures(0.1, 0.5), 0}}, loose, false},
	} {
		a := advise(DefaultShare, c.tried)
		if a.Params.Mail != c.want || a.Met != c.met || len(a.Virus) != 3 || len(a.Text) < 5 {
			t.Errorf("%s: %+v", c.name, a)
		}
		if strings.HasPrefix(a.Text[0], "Nothing that was tried") == c.met {
			t.Errorf("%s: %s", c.name, a.Text[0])
		}
	}
}

func TestAdviceGrid(t *testing.T) {
	base := defaultParams(t)
	base.FIFO, base.MultiEvery = true, time.Hour
	grid := adviceGrid(base)
	seen := map[outbreak.Params]bool{}
	for _, p := range grid {
		if seen[p] || !p.FIFO || p.MultiEvery != time.Hour || p.Exempt {
			t.Error(p.String())
		}
		seen[p] = true
	}
	if len(grid) != 48 {
		t.Error(len(grid))
	}
}

func TestAdviceConfig(t *testing.T) {
	p := defaultParams(t)
	if got := configOf(p); got != "throttles:\n  outgoing:\n    mail:\n      rate: 1/m\n      working_set: 5\n      "+
		"max_slack: 1\n      max_mslack: 15\n      stop: 20\n" {
		t.Error(got)
	}
	p.Every, p.MultiEvery, p.FIFO, p.HoldLarge, p.Recipients, p.Resume, p.Slow = 30*time.Second, 7*time.Minute, true,
		true, 50, time.Hour, 8
	want := "throttles:\n  outgoing:\n    mail:\n      rate: 2/m\n      multi_rate: 1/7m\n      working_set: 5\n     " +
		" replace: fifo\n      max_slack: 1\n" +
		"      max_mslack: 15\n      stop: 20\n      large: hold\n      recipients: 50\n      resume: 1h\n      " +
		"slow: 8\n"
	if got := configOf(p); got != want {
		t.Error(got)
	}
}

func TestAdviceText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{RateText(time.Minute), "1/m"},
		{RateText(20 * time.Second), "3/m"},
		{RateText(time.Second), "60/m"},
		{RateText(500 * time.Microsecond), "120000/m"},
		{RateText(time.Hour), "1/h"},
		{RateText(5 * time.Minute), "1/5m"},
		{RateText(7 * time.Second), "1/7s"},
		{span(2.901), "2.9s"},
		{span(144.4), "2m24s"},
		{inMonths(0.01), "1 day"},
		{inMonths(1), "30 days"},
		{inMonths(6.2), "6.2 months"},
		{inMonths(281), "23 years"},
		{share(0.0097514), "0.975%"},
		{plural(1, "user"), "1 user"},
		{plural(0, "user"), "0 users"},
		{virusSentence(VirusOptions{Rate: 0.5, Recipients: 1}, VirusPoint{0.5, 720, 0, 720, -1}),
			"A virus that sends 0.5 messages a minute, each to somebody new, would never be stopped, and reach 720 " +
				"recipients in a day."},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func TestAdviceLoudest(t *testing.T) {
	s := &Study{Figures: Figures{Users: 3, Delayed: 30},
		Worst: []UserStudy{{User: "ann", Stops: 3, Delayed: 3}, {User: "ben", Delayed: 16}}}
	if got := s.loudest(); !strings.HasPrefix(got,
		"16 of the 30 messages that the present parameters delay are of one user, ben:") {
		t.Error(got)
	}
	s.Delayed = 32
	if got := s.loudest(); got != "" {
		t.Error(got)
	}
}
